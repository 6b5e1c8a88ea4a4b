package arch

import (
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// entryPoints are where a user of each public package begins. "" is the package as a
// whole, both its sides in one example.
var entryPoints = map[string][]string{
	".":                    {"Parse", "NewRequest", "Pipe", "Local", "Methods", "PeerAs"},
	"protocol":             {"Revision", "ReadEnvelope"},
	"transport/stdio":      {"Command", "ServeIO", "Server", "Guard"},
	"transport/streamable": {"Server", "Client"},
	"transport/sse":        {""},
	"transport/ws":         {""},
	"transport/toolhttp":   {"Server", "Client"},
	"era":                  {"Server", "NewFrontend", "FromMethods"},
	"client":               {"Connect", "New", "Call"},
	"eventlog":             {"Memory", "Open"},
	"oauth":                {"New"},
	"gateway":              {"New"},
}

// maxDoc is how many lines the summary of a package may have: two screens.
const maxDoc = 100

func TestPublicPackagesCanBeReadInOneSitting(t *testing.T) {
	for _, pkg := range public {
		files := parsePackage(t, pkg)
		p, err := doc.NewFromFiles(files.set, files.all, "example.org/"+pkg, doc.Mode(0))
		if err != nil {
			t.Fatal(err)
		}
		blocks := new(comment.Parser).Parse(p.Doc).Content
		if at := slices.IndexFunc(blocks, func(b comment.Block) bool { _, code := b.(*comment.Code); return code }); at < 0 || at > 2 {
			t.Errorf("%s: the package comment does not begin with code that shows its use", pkg)
		}
		if n := strings.Count(p.Doc, "\n") + summaryLines(p); n > maxDoc {
			t.Errorf("%s: go doc has %d lines, want %d at most: unexport what nobody needs", pkg, n, maxDoc)
		}
		for _, name := range entryPoints[pkg] {
			shown := slices.ContainsFunc(p.Examples, func(e *doc.Example) bool { return e.Name == name })
			for _, f := range p.Funcs {
				shown = shown || f.Name == name && len(f.Examples) > 0
			}
			for _, k := range p.Types {
				shown = shown || k.Name == name && len(k.Examples) > 0
				for _, f := range k.Funcs {
					shown = shown || f.Name == name && len(f.Examples) > 0
				}
			}
			if !shown {
				t.Errorf("%s: there is no Example%s", pkg, name)
			}
		}
		if len(entryPoints[pkg]) == 0 {
			t.Errorf("%s: name its entry points here", pkg)
		}
	}
}

// summaryLines is how many lines go doc has for what a package exports.
func summaryLines(p *doc.Package) int {
	n := len(p.Consts) + len(p.Vars) + len(p.Funcs) + len(p.Types)
	for _, k := range p.Types {
		n += len(k.Consts) + len(k.Vars) + len(k.Funcs)
	}
	return n
}

type parsedFiles struct {
	set *token.FileSet
	all []*ast.File
}

// parsePackage reads a package with its tests.
func parsePackage(t *testing.T, pkg string) parsedFiles {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(filepath.FromSlash(pkg), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files := parsedFiles{set: token.NewFileSet()}
	for _, name := range names {
		f, err := parser.ParseFile(files.set, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files.all = append(files.all, f)
	}
	return files
}
