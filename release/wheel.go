package main

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
)

// wheel makes the package for pip and uv, with the program as a script: there is no
// Python in it.
func (r *release) wheel(b *build) error {
	base := programName + "-" + r.version.python()
	info := base + ".dist-info"
	licences, err := b.licences()
	if err != nil {
		return err
	}
	metadata := []string{
		"Metadata-Version: 2.4", "Name: " + programName, "Version: " + r.version.python(), "Summary: " + summary,
		"License-Expression: " + licenceID, "License-File: LICENSE", "License-File: THIRD-PARTY-LICENSES",
		"Project-URL: Homepage, " + homepage, "Requires-Python: >=3.8", "Description-Content-Type: text/markdown",
		"", shortReadme("uvx dragoman run -- uvx some-server"),
	}
	tags := []string{"Wheel-Version: 1.0", "Generator: dragoman", "Root-Is-Purelib: false"}
	for tag := range strings.SplitSeq(b.platform.wheel, ".") {
		tags = append(tags, "Tag: py3-none-"+tag)
	}
	list := []entry{{name: base + ".data/scripts/" + b.file(), mode: 0o755, text: b.program}}
	list = append(list, below(info+"/licenses", licences...)...)
	list = append(list,
		entry{name: info + "/METADATA", mode: 0o644, text: []byte(strings.Join(metadata, "\n"))},
		entry{name: info + "/WHEEL", mode: 0o644, text: []byte(strings.Join(tags, "\n") + "\n")})
	list = append(list, entry{name: info + "/RECORD", mode: 0o644, text: recordOf(list, info+"/RECORD")})
	text, err := zipOf(list, r.time)
	if err != nil {
		return err
	}
	return r.write(base+"-py3-none-"+b.platform.wheel+".whl", text)
}

// recordOf lists the files with their sums, and itself without one.
func recordOf(list []entry, self string) []byte {
	var out strings.Builder
	for _, e := range list {
		sum := sha256.Sum256(e.text)
		fmt.Fprintf(&out, "%s,sha256=%s,%d\n", e.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(e.text))
	}
	out.WriteString(self + ",,\n")
	return []byte(out.String())
}
