package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// A layer is a folder, or several that know nothing of each other but what is below them.
type layer struct {
	folders []string // "." is the root
	apart   bool     // packages of one folder may not import each other
	third   []string // other modules that it may import, by the start of their path
	tests   []string // other modules that its tests may import, too
}

// layers is the architecture: a package may import its own folder and the layers above its row.
// Test files may import testkit too, and what forTests lists.
var layers = []layer{
	{folders: []string{"."}},
	{folders: []string{"protocol"}},
	{folders: []string{"internal/util"}, tests: []string{"github.com/santhosh-tekuri/jsonschema"}},
	{folders: []string{"eventlog"}},
	{folders: []string{"internal/wire"}},
	{folders: []string{"internal/access"}, third: []string{"github.com/golang-jwt/jwt"}},
	{folders: []string{"transport", "oauth"}, apart: true, third: []string{"github.com/coder/websocket"}},
	{folders: []string{"era"}},
	{folders: []string{"internal/target"}},
	{folders: []string{"client"}},
	{folders: []string{"internal/gateway"}, third: []string{"go.yaml.in/yaml", "github.com/pelletier/go-toml"}},
	{folders: []string{"internal/observe"}},
	{folders: []string{"gateway"}},
	{folders: []string{"internal/inspect"}, third: []string{"github.com/coder/websocket"}},
	{folders: []string{"internal/cli"}, third: []string{"github.com/spf13", "golang.org/x/term"}},
	{folders: []string{"cmd", "examples", "release"}, third: []string{"go.yaml.in/yaml"}},
	{folders: []string{"internal/testkit"}, third: []string{"github.com/golang-jwt/jwt"}},
	{folders: []string{"tests", "bench"}, third: []string{"github.com/coder/websocket", "github.com/rogpeppe/go-internal"}},
}

// forTests is what any test file may import besides testkit.
var forTests = []string{"era", "internal/target", "client", "internal/gateway/builtin", "internal/gateway/store", "internal/observe", "internal/observe/audit", "internal/observe/logs", "internal/observe/tap"}

// exceptions are imports that break the rule for now: "package import".
var exceptions = []string{}

// public are the packages that other modules may use. What they export names no type
// of an internal package, except as in internalTypes.
var public = []string{".", "protocol", "transport/stdio", "transport/streamable", "transport/sse", "transport/ws", "transport/toolhttp", "era", "client", "oauth", "eventlog", "gateway"}

// internalTypes are the internal types that public packages export, each as an alias
// with a comment that says what it is: "package.Name".
var internalTypes = []string{
	"gateway.Event", "gateway.Exchange", "gateway.Link", "gateway.Nop", "gateway.Observer", "gateway.Passing", "gateway.Refusal", "gateway.Role",
}

// revisionDates are written in package protocol and nowhere else: all other code
// asks its table a question with a name.
var revisionDates = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

func TestArchitecture(t *testing.T) {
	gomod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^module\s+(\S+)`).FindSubmatch(gomod)
	if m == nil {
		t.Fatal("go.mod has no module line")
	}
	problems, err := checkTree(os.DirFS("."), string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
}

// The check itself must bite, so it is shown a tree that breaks every rule.
func TestArchitectureCheck(t *testing.T) {
	const m = "example.org/dragoman"
	files := []struct {
		name, line string // the file and the line after its package clause
		want       string // its complaint after the file name
	}{
		{"peer.go", `import "fmt"`, ""},
		{"peer_test.go", `import ("` + m + `"; "` + m + `/internal/testkit/memnet")`, ""},
		{"net.go", `import "` + m + `/protocol"`, ":2 imports " + m + "/protocol: it is not below the root in the table of tests/arch/arch_test.go"},
		{"protocol/revision.go", `import "` + m + `"; const v = "2025-06-18"`, ""},
		{"internal/testkit/memnet/memnet.go", `import "C"`, ":2 imports C: the binary is static, so no package may use cgo"},
		{"transport/sse/a.go", `import "` + m + `/internal/wire/jsonrpc"`, ""},
		{"transport/sse/b.go", `import "` + m + `/internal/testkit/memnet"`, ":2 imports " + m + "/internal/testkit/memnet: it is not below transport in the table of tests/arch/arch_test.go"},
		{"transport/sse/c.go", `import "` + m + `/transport/ws"`, ":2 imports " + m + "/transport/ws: it is not below transport in the table of tests/arch/arch_test.go"},
		{"transport/sse/d.go", `import "` + m + `/oauth"`, ":2 imports " + m + "/oauth: it is not below transport in the table of tests/arch/arch_test.go"},
		{"transport/sse/surface.go", `import "` + m + `/internal/wire/jsonrpc"; type Conn struct { *jsonrpc.Conn; inner jsonrpc.Frame }`,
			":2 exports jsonrpc.Conn, which others cannot name: declare a type here, or list an alias in internalTypes"},
		{"transport/sse/hidden.go", `import "` + m + `/internal/wire/jsonrpc"; type conn struct { *jsonrpc.Conn }; func (c *conn) Frame() jsonrpc.Frame { return jsonrpc.Frame{} }; func New() *conn { var x jsonrpc.Frame; _ = x }`, ""},
		{"transport/sse/result.go", `import other "` + m + `/internal/wire/sse"; func (*Server) Made(a int) (b, c other.Event) { return }`,
			":2 exports other.Event, which others cannot name: declare a type here, or list an alias in internalTypes"},
		{"transport/ws/a.go", `import "github.com/coder/websocket/x"`, ""},
		{"transport/ws/b.go", `import "github.com/coder/websockets"`, ":2 imports github.com/coder/websockets: transport may import of other modules only github.com/coder/websocket"},
		{"internal/wire/sse/a.go", `import "` + m + `/internal/wire/jsonrpc"`, ""},
		{"internal/wire/sse/b.go", `import "` + m + `/internal/access/auth"`, ":2 imports " + m + "/internal/access/auth: it is not below internal/wire in the table of tests/arch/arch_test.go"},
		{"internal/wire/sse/c.go", `import "github.com/coder/websocket"`, ":2 imports github.com/coder/websocket: internal/wire may import no other module"},
		{"internal/wire/sse/a_test.go", `import ("` + m + `/internal/testkit/peertest"; "` + m + `/client")`, ""},
		{"internal/wire/sse/b_test.go", `import "` + m + `/transport/ws"`, ":2 imports " + m + "/transport/ws: it is not below internal/wire in the table of tests/arch/arch_test.go"},
		{"internal/util/jsonschema/a_test.go", `import "github.com/santhosh-tekuri/jsonschema/v6"`, ""},
		{"internal/util/jsonschema/b.go", `import "github.com/santhosh-tekuri/jsonschema/v6"`, ":2 imports github.com/santhosh-tekuri/jsonschema/v6: internal/util may import no other module"},
		{"era/era.go", "var old = x == `2024-11-05`", ":2 spells the revision 2024-11-05: only package protocol may; ask its table a question instead"},
		{"era/era_test.go", `var old = "2024-11-05"`, ""},
		{"era/testdata/x.go", `import "` + m + `/gateway"`, ""},
		{"bench/node/a.go", `import "` + m + `/gateway"`, ""},
		{"sidecar/main.go", ``, ":1 is in a folder without a row: add one for sidecar to the table in tests/arch/arch_test.go"},
		{"interop/go.mod", ``, ""},
		{"interop/a.go", `import "` + m + `/gateway"`, ""},
		{".hidden/a.go", `not Go`, ""},
	}
	tree := fstest.MapFS{}
	var want []string
	for _, f := range files {
		tree[f.name] = &fstest.MapFile{Data: []byte("package p\n" + f.line + "\n")}
		if f.want != "" {
			want = append(want, f.name+f.want)
		}
	}
	got, err := checkTree(tree, m)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range got {
		if !slices.Contains(want, p) {
			t.Errorf("unexpected: %s", p)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d complaints, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
}

// TestRepositoryHoldsOnlySources looks at what git tracks.
func TestRepositoryHoldsOnlySources(t *testing.T) {
	list, err := exec.CommandContext(t.Context(), "git", "ls-files", "-z").Output()
	if err != nil || len(list) == 0 {
		t.Skipf("this is no checkout: %v", err)
	}
	for _, p := range unwanted(os.DirFS("."), strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00")) {
		t.Error(p)
	}
}

func TestUnwantedFilesAreFound(t *testing.T) {
	large := &fstest.MapFile{Data: make([]byte, maxTracked+1)}
	tree := fstest.MapFS{"cmd/x/x": large, "a/testdata/b/c": large, "a.go": {}, "out.log": {}, "-o": {}}
	got := unwanted(tree, []string{"cmd/x/x", "a/testdata/b/c", "a.go", "out.log", "-o", "deleted"})
	if len(got) != 3 || !strings.HasPrefix(got[0], "cmd/x/x ") || !strings.HasPrefix(got[1], "out.log ") || !strings.HasPrefix(got[2], "-o ") {
		t.Errorf("complaints are %q", got)
	}
}

// maxTracked is how large a file in git may be, outside of testdata.
const maxTracked = 1 << 20

// unwanted returns complaints about files that programs have written.
func unwanted(tree fs.FS, names []string) (problems []string) {
	for _, name := range names {
		info, err := fs.Stat(tree, name)
		switch {
		case err != nil: // deleted, and not committed yet
		case path.Ext(name) == ".log":
			problems = append(problems, name+" is a log: remove it")
		case strings.HasPrefix(path.Base(name), "-"):
			problems = append(problems, name+" is named like a flag: was one taken for the name of a file?")
		case info.Size() > maxTracked && !slices.Contains(strings.Split(name, "/"), "testdata"):
			problems = append(problems, fmt.Sprintf("%s has %d bytes: is it what a build has made?", name, info.Size()))
		}
	}
	return problems
}

// checkTree reads every Go file of the module whose root is tree and returns
// what breaks the rules.
func checkTree(tree fs.FS, module string) ([]string, error) {
	var problems []string
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && notOurs(tree, name) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		src, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		complain := func(n ast.Node, format string, args ...any) {
			problems = append(problems, fmt.Sprintf("%s:%d %s", name, fset.Position(n.Pos()).Line, fmt.Sprintf(format, args...)))
		}
		checkImports(file, name, module, complain)
		if !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "protocol/") {
			checkRevisions(file, complain)
		}
		if slices.Contains(public, path.Dir(name)) && !strings.HasSuffix(name, "_test.go") {
			checkSurface(file, complain)
		}
		return nil
	})
	return problems, err
}

// notOurs reports whether dir is skipped by the go command or is another module.
func notOurs(tree fs.FS, dir string) bool {
	base := path.Base(dir)
	if strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" || base == "vendor" {
		return true
	}
	_, err := fs.Stat(tree, path.Join(dir, "go.mod"))
	return err == nil
}

func checkImports(file *ast.File, name, module string, complain func(ast.Node, string, ...any)) {
	pkg, test := path.Dir(name), strings.HasSuffix(name, "_test.go")
	row, folder := layerOf(pkg)
	if row < 0 {
		complain(file, "is in a folder without a row: add one for %s to the table in tests/arch/arch_test.go", pkg)
		return
	}
	third := layers[row].third
	if test {
		third = slices.Concat(third, layers[row].tests)
	}
	for _, spec := range file.Imports {
		imp, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
		own, isOurs := strings.CutPrefix(imp+"/", module+"/")
		own = path.Clean(own)
		switch {
		case imp == "C":
			complain(spec, "imports C: the binary is static, so no package may use cgo")
		case isOurs && !mayImport(pkg, row, folder, own, test):
			complain(spec, "imports %s: it is not below %s in the table of tests/arch/arch_test.go", imp, displayFolder(folder))
		case !isOurs && isThirdParty(imp) && !slices.ContainsFunc(third, func(m string) bool { return strings.HasPrefix(imp+"/", m+"/") }):
			complain(spec, "imports %s: %s may import %s", imp, displayFolder(folder), onlyModules(third))
		}
	}
}

// mayImport reports whether a package in a folder of a row may import another of this module.
func mayImport(pkg string, row int, folder, imported string, test bool) bool {
	if pkg == imported || slices.Contains(exceptions, pkg+" "+imported) {
		return true
	}
	other, of := layerOf(imported)
	switch {
	case test && (of == "internal/testkit" || slices.Contains(forTests, imported)):
		return true
	case other == row && of == folder:
		return !layers[row].apart || strings.HasPrefix(imported, pkg+"/")
	}
	return other >= 0 && other < row
}

// layerOf returns the row of a package, or -1, and its folder.
func layerOf(pkg string) (row int, folder string) {
	for i, l := range layers {
		for _, f := range l.folders {
			if pkg == f || f != "." && strings.HasPrefix(pkg, f+"/") {
				return i, f
			}
		}
	}
	return -1, ""
}

func checkRevisions(file *ast.File, complain func(ast.Node, string, ...any)) {
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil && slices.Contains(revisionDates, s) {
				complain(lit, "spells the revision %s: only package protocol may; ask its table a question instead", s)
			}
		}
		return true
	})
}

// checkSurface looks for types of internal packages in what a file exports.
func checkSurface(file *ast.File, complain func(ast.Node, string, ...any)) {
	internal := make(map[string]bool) // by the names under which they are imported
	for _, spec := range file.Imports {
		imp, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
		if slices.Contains(strings.Split(imp, "/"), "internal") {
			name := path.Base(imp)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			internal[name] = true
		}
	}
	check := func(what string, n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BlockStmt:
				return false // what a function does is its own
			case *ast.Field:
				// A field or a method that is not exported; one without a name is embedded, or
				// a parameter.
				return len(n.Names) == 0 || slices.ContainsFunc(n.Names, (*ast.Ident).IsExported) || what == "func"
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && internal[x.Name] && !slices.Contains(internalTypes, file.Name.Name+"."+n.Sel.Name) {
					complain(n, "exports %s.%s, which others cannot name: declare a type here, or list an alias in internalTypes", x.Name, n.Sel.Name)
				}
			}
			return true
		})
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || exportedReceiver(d.Recv)) {
				check("func", d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						check("type", s.Type)
					}
				case *ast.ValueSpec:
					if slices.ContainsFunc(s.Names, (*ast.Ident).IsExported) && s.Type != nil {
						check("value", s.Type)
					}
				}
			}
		}
	}
}

// exportedReceiver reports whether a method belongs to an exported type.
func exportedReceiver(recv *ast.FieldList) bool {
	t := recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if index, ok := t.(*ast.IndexExpr); ok {
		t = index.X
	}
	name, ok := t.(*ast.Ident)
	return ok && name.IsExported()
}

// isThirdParty reports whether imp is outside the standard archLibrary, whose paths
// have no dot in their first element.
func isThirdParty(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return strings.Contains(first, ".")
}

func onlyModules(list []string) string {
	if len(list) == 0 {
		return "no other module"
	}
	return "of other modules only " + strings.Join(list, ", ")
}

func displayFolder(folder string) string {
	if folder == "." {
		return "the root"
	}
	return folder
}

// Nobody finds a package among too many, and an exception that nobody needs is none.
func TestFoldersAreSmallAndExceptionsAreNeeded(t *testing.T) {
	packages := make(map[string][]string) // by folder
	needed := make(map[string]bool)
	err := fs.WalkDir(os.DirFS("."), "internal", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() != "testdata" {
			packages[path.Dir(name)] = append(packages[path.Dir(name)], d.Name())
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			imp, _ := strconv.Unquote(spec.Path.Value)
			_, own, _ := strings.Cut(imp, "/dragoman/")
			needed[path.Dir(name)+" "+own] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for folder, list := range packages {
		if len(list) > maxFolders {
			t.Errorf("%s has %d folders, more than %d: %s", folder, len(list), maxFolders, strings.Join(list, ", "))
		}
	}
	for _, e := range exceptions {
		if !needed[e] {
			t.Errorf("the exception %q is not needed any more: remove it", e)
		}
	}
}

// maxFolders is how many folders one may hold.
const maxFolders = 12
