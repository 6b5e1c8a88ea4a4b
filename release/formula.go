package main

import (
	"bytes"
	"text/template"
)

// formulaText is a formula of Homebrew, with the archives of one release.
var formulaText = template.Must(template.New("formula").Parse(`class Dragoman < Formula
  desc "{{.Summary}}"
  homepage "{{.Homepage}}"
  version "{{.Version}}"
  license "{{.Licence}}"
{{range .Systems}}
  on_{{.Name}} do
{{- range .Machines}}
    on_{{.Name}} do
      url "{{.URL}}"
      sha256 "{{.Sum}}"
    end
{{- end}}
  end
{{end}}
  def install
    bin.install "dragoman"
    bash_completion.install "completions/dragoman.bash" => "dragoman"
    zsh_completion.install "completions/_dragoman"
    fish_completion.install "completions/dragoman.fish"
    man1.install Dir["man/*.1"]
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/dragoman version")
  end
end
`))

// formula writes the formula for the archives that are there already.
func (r *release) formula() error {
	type machine struct{ Name, URL, Sum string }
	type system struct {
		Name     string
		Machines []machine
	}
	var systems []system
	for _, s := range [][2]string{{"darwin", "macos"}, {"linux", "linux"}} {
		var list []machine
		for _, m := range [][2]string{{"arm64", "arm"}, {"amd64", "intel"}} {
			archive := r.archiveName(platform{os: s[0], arch: m[0]}) + ".tar.gz"
			if sum := r.sums[archive]; sum != "" {
				list = append(list, machine{m[1], homepage + "/releases/download/v" + r.version.String() + "/" + archive, sum})
			}
		}
		if len(list) > 0 {
			systems = append(systems, system{s[1], list})
		}
	}
	var out bytes.Buffer
	err := formulaText.Execute(&out, map[string]any{
		"Summary": summary, "Homepage": homepage, "Version": r.version.String(), "Licence": licenceID, "Systems": systems,
	})
	if err != nil {
		return err
	}
	return r.write(programName+".rb", out.Bytes())
}
