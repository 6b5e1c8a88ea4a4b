package main

import (
	_ "embed"
	"encoding/json"
	"strings"
)

// npmScope is whose packages with the programs are.
const npmScope = "@dragoman-mcp"

// npmStarter finds the program among the installed packages, and runs it.
//
//go:embed start.js
var npmStarter []byte

// A manifest is the package.json of a package.
type manifest struct {
	Name        string            `json:"name"`
	Version     string            `json:"version"`
	Description string            `json:"description"`
	Homepage    string            `json:"homepage"`
	Repository  map[string]string `json:"repository"`
	License     string            `json:"license"`
	Bin         map[string]string `json:"bin,omitempty"`
	OS          []string          `json:"os,omitempty"`
	CPU         []string          `json:"cpu,omitempty"`
	Unplugged   bool              `json:"preferUnplugged,omitempty"` // a program cannot be run inside a zip file
	Engines     map[string]string `json:"engines,omitempty"`
	Optional    map[string]string `json:"optionalDependencies,omitempty"`
}

func (r *release) manifest(name string) *manifest {
	return &manifest{
		Name: name, Version: r.version.String(), Description: summary, Homepage: homepage, License: licenceID,
		Repository: map[string]string{"type": "git", "url": "git+" + homepage + ".git"},
	}
}

// npmProgram makes the package with the program for one platform. npm installs it there alone.
func (r *release) npmProgram(b *build) error {
	m := r.manifest(npmScope + "/" + b.npm)
	system, cpu, _ := strings.Cut(b.npm, "-")
	m.OS, m.CPU, m.Unplugged = []string{system}, []string{cpu}, true
	list, err := b.licences()
	if err != nil {
		return err
	}
	readme := "The program of the package `" + programName + "` for " + b.npm + ". Install that one: it brings this.\n"
	return r.npmPackage(m, append(list,
		entry{name: "README.md", mode: 0o644, text: []byte(readme)},
		entry{name: "bin/" + b.file(), mode: 0o755, text: b.program}))
}

// npmWrapper makes the package that users name. Nothing is downloaded when it is installed but
// what it depends on.
func (r *release) npmWrapper() error {
	m := r.manifest(programName)
	m.Bin = map[string]string{programName: "bin/" + programName + ".js"}
	m.Engines = map[string]string{"node": ">=18"}
	m.Optional = map[string]string{}
	for _, p := range r.platforms {
		m.Optional[npmScope+"/"+p.npm] = r.version.String()
	}
	licence, err := fromTree("LICENSE", "LICENSE")
	if err != nil {
		return err
	}
	return r.npmPackage(m, []entry{licence,
		{name: "README.md", mode: 0o644, text: []byte(shortReadme("npx dragoman run -- npx -y some-server"))},
		{name: "bin/" + programName + ".js", mode: 0o755, text: npmStarter},
	})
}

// npmPackage writes a package as npm pack would.
func (r *release) npmPackage(m *manifest, list []entry) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	list = append([]entry{{name: "package.json", mode: 0o644, text: append(text, '\n')}}, list...)
	if text, err = tarGzipOf(below("package", list...), r.time); err != nil {
		return err
	}
	name := strings.NewReplacer("@", "", "/", "-").Replace(m.Name)
	return r.write(name+"-"+m.Version+".tgz", text)
}

// shortReadme is what the pages of a package registry show.
func shortReadme(example string) string {
	return "# Dragoman\n\n" + summary + ".\n\n```sh\n" + example + "\n```\n\nSee <" + homepage + ">.\n"
}
