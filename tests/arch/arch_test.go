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

// An importRule says what one package may import besides the standard library.
type importRule struct {
	ours       []string // packages of this module; "." is the root
	third      []string // other modules, by the start of their path
	tests      []string // packages of this module that its tests and examples use, too
	thirdTests []string // other modules that they use, too
}

// Groups of packages that rows below share.
var (
	archNouns      = []string{".", "protocol"}
	archTransports = []string{"transport/stdio", "transport/streamable", "transport/sse", "transport/ws", "transport/toolhttp"}

	// forTransports is what a transport may use. No transport knows another,
	// nor an era, nor the gateway.
	forTransports = joinPackages(archNouns, "internal/rpc", "internal/mux", "internal/sse", "internal/httpx", "internal/redact", "internal/flight", "internal/backoff", "internal/near", "internal/toollist", "internal/trace", "internal/lazy", "internal/timeout")

	// forTests is what any test file may use besides its package's own row.
	forTests = []string{"internal/badserver", "internal/peertest", "internal/authtest", "internal/certtest", "internal/everything", "internal/fault", "internal/memnet", "era", "internal/target", "client"}

	// archLibrary is everything a program may be made of.
	archLibrary = joinPackages(archTransports, ".", "protocol", "era", "internal/target", "client", "internal/manager", "internal/aggregate", "internal/gateway", "gateway", "internal/config", "internal/config/hostfile", "eventlog", "oauth", "internal/state",
		"internal/policy", "console", "internal/everything", "internal/near", "internal/people", "internal/backoff", "internal/signature", "internal/audit", "internal/httpx", "internal/redact", "internal/rules", "internal/schema", "internal/strict", "internal/edge", "internal/tap", "internal/replay", "internal/load", "internal/probe", "internal/check", "internal/trace", "internal/logfmt", "internal/lazy", "internal/limit")
)

// archCommands are packages of the program.
func archCommands(names ...string) (list []string) {
	for _, name := range names {
		list = append(list, "cmd/dragoman/internal/"+name)
	}
	return list
}

// architecture has a row for every package, in the order a message meets them.
// A row may stand here before its package exists. "x/..." is x and all below it.
var architecture = map[string]importRule{
	".":        {},
	"protocol": {ours: []string{"."}},

	"internal/flight":  {ours: []string{"."}},
	"internal/backoff": {},
	"internal/program": {},

	"internal/filelock":  {},
	"internal/private":   {},
	"internal/pattern":   {},
	"internal/near":      {},
	"internal/anchor":    {},
	"internal/people":    {},
	"internal/signature": {},
	"internal/rules":     {ours: joinPackages(archNouns, "internal/pattern")},

	"internal/limit":   {},
	"internal/lazy":    {},
	"internal/procmem": {},

	"internal/legacy":   {ours: archNouns},
	"internal/handover": {ours: joinPackages(archNouns, "eventlog", "internal/flight", "internal/legacy")},

	"internal/subscription": {ours: joinPackages(archNouns, "internal/backoff", "internal/running")},

	"internal/redact":   {ours: []string{"internal/lazy"}},
	"internal/trace":    {ours: []string{".", "internal/redact"}},
	"internal/logfmt":   {},
	"internal/issuer":   {},
	"internal/audit":    {ours: []string{".", "internal/lazy", "internal/backoff", "internal/filelock", "internal/redact"}},
	"internal/tap":      {ours: joinPackages(archNouns, "internal/pattern", "internal/people", "internal/redact")},
	"internal/replay":   {ours: joinPackages(archNouns, "client", "internal/tap", "internal/pattern")},
	"internal/load":     {},
	"internal/outward":  {},
	"internal/running":  {},
	"internal/memnet":   {},
	"internal/sse":      {ours: archNouns},
	"internal/httpx":    {ours: joinPackages(archNouns, "internal/lazy", "internal/redact", "internal/sse", "internal/strict", "internal/timeout")},
	"internal/rpc":      {ours: joinPackages(archNouns, "internal/lazy", "internal/redact")},
	"internal/mux":      {ours: joinPackages(archNouns, "internal/redact", "internal/rpc", "internal/trace")},
	"internal/timeout":  {},
	"internal/strict":   {},
	"internal/direct":   {ours: []string{"internal/limit", "internal/strict", "internal/timeout"}},
	"internal/edge":     {ours: []string{"internal/backoff", "internal/direct", "internal/limit", "internal/reread", "internal/strict"}},
	"internal/schema":   {thirdTests: []string{"github.com/santhosh-tekuri/jsonschema"}},
	"internal/toollist": {ours: joinPackages(archNouns, "internal/flight")},

	"internal/everything": {ours: archNouns},
	"internal/authtest":   {third: []string{"github.com/golang-jwt/jwt"}},
	"internal/certtest":   {},
	"internal/badserver":  {ours: joinPackages(archTransports, "protocol", "internal/everything", "internal/target")},
	"internal/fault":      {ours: joinPackages(archTransports, ".", "protocol", "internal/everything")},
	"internal/peertest":   {ours: joinPackages(archNouns, "internal/everything", "internal/memnet")},

	"transport/stdio":      {ours: joinPackages(forTransports, "internal/program")},
	"transport/streamable": {ours: joinPackages(forTransports, "eventlog", "internal/handover", "internal/legacy")},
	"transport/sse":        {ours: forTransports},
	"transport/ws":         {ours: joinPackages(forTransports, "internal/limit"), third: []string{"github.com/coder/websocket"}},
	"transport/toolhttp":   {ours: forTransports},

	"internal/reread":     {},
	"internal/credential": {ours: []string{"protocol", "internal/lazy", "internal/flight", "internal/httpx", "internal/program", "internal/redact", "internal/reread", "internal/running"}},

	"oauth/internal/wire": {ours: []string{"internal/redact", "internal/issuer", "internal/outward"}},

	"era/internal/adapt": {ours: archNouns},
	"era/internal/up":    {ours: joinPackages(archNouns, "internal/backoff", "internal/flight", "internal/legacy", "internal/subscription", "internal/running", "era/internal/adapt")},
	"era/internal/pool":  {ours: joinPackages(archNouns, "internal/running")},
	"era/internal/down":  {ours: joinPackages(archNouns, "internal/backoff", "internal/limit", "internal/subscription", "internal/running", "era/internal/adapt", "era/internal/pool")},

	"oauth": {ours: joinPackages(archNouns, "oauth/internal/wire", "internal/filelock", "internal/private", "internal/redact")},

	"era":              {ours: joinPackages(archNouns, "internal/flight", "internal/legacy", "internal/subscription", "internal/running", "era/internal/adapt", "era/internal/pool", "era/internal/up", "era/internal/down"), tests: archTransports},
	"internal/target":  {ours: joinPackages(archTransports, ".", "protocol", "era", "internal/redact")},
	"client":           {ours: joinPackages(archTransports, ".", "protocol", "era", "internal/target", "internal/backoff", "internal/subscription", "internal/running", "internal/httpx", "internal/redact")},
	"internal/state":   {ours: []string{"internal/private"}},
	"internal/manager": {ours: joinPackages(archTransports, ".", "protocol", "oauth", "internal/credential", "internal/httpx", "era", "internal/target", "client", "internal/config", "internal/lazy", "internal/limit", "internal/procmem", "internal/program", "internal/state", "internal/backoff", "internal/redact", "internal/trace")},

	"internal/raw":   {ours: joinPackages(archNouns, "internal/httpx", "internal/issuer", "internal/redact", "internal/sse", "internal/target", "transport/stdio"), third: []string{"github.com/coder/websocket"}},
	"internal/probe": {ours: joinPackages(archNouns, "oauth", "internal/httpx", "internal/people", "internal/program", "internal/raw", "internal/redact", "internal/target", "transport/stdio"), tests: []string{"transport/ws"}},
	"internal/check": {ours: joinPackages(archNouns, "internal/lazy", "internal/pattern", "internal/raw", "internal/redact", "internal/schema", "internal/target", "internal/toollist", "transport/stdio"), third: []string{"github.com/coder/websocket"}},

	"internal/aggregate": {ours: joinPackages(archNouns, "internal/backoff", "internal/near", "internal/subscription", "internal/running")},

	"internal/config/internal/syntax": {ours: []string{"internal/lazy", "internal/near", "internal/redact"}, third: []string{"go.yaml.in/yaml", "github.com/pelletier/go-toml"}},
	"internal/config/internal/hosts":  {ours: []string{"protocol", "internal/lazy", "internal/config/internal/syntax"}},

	"internal/config":          {ours: []string{"internal/lazy", "internal/config/internal/syntax", "internal/config/internal/hosts", "internal/limit", "internal/pattern", "internal/program", "internal/rules"}},
	"internal/config/hostfile": {ours: []string{"internal/config", "internal/config/internal/syntax", "internal/config/internal/hosts", "internal/near"}},
	"eventlog":                 {ours: joinPackages(archNouns, "internal/filelock", "internal/private"), third: []string{"github.com/nats-io"}},
	"internal/policy":          {ours: joinPackages(archNouns, "internal/lazy", "internal/httpx", "internal/limit", "internal/redact", "internal/filelock", "internal/flight", "internal/rules", "internal/running", "internal/issuer"), third: []string{"github.com/golang-jwt/jwt"}},
	"internal/authserver": {
		ours: joinPackages(archNouns, "internal/httpx", "internal/limit", "internal/policy", "internal/state", "internal/flight", "internal/issuer", "internal/outward"),
	},
	"internal/gateway": {
		ours: joinPackages(archTransports, ".", "protocol", "era", "oauth", "internal/manager", "internal/aggregate", "internal/config", "eventlog", "internal/state", "internal/policy", "internal/authserver", "internal/rules", "internal/toollist", "internal/httpx",
			"internal/audit", "internal/limit", "internal/near", "internal/pattern", "internal/procmem", "internal/redact", "internal/rpc", "internal/running", "internal/schema", "internal/tap", "internal/trace"),
		tests: []string{"internal/logfmt"},
		third: []string{"github.com/prometheus/client_golang", "go.opentelemetry.io/otel"},
	},
	"gateway": {ours: []string{".", "internal/config", "internal/gateway"}, tests: []string{"transport/streamable"}},
	"console": {ours: joinPackages(archNouns, "internal/manager", "internal/gateway", "internal/config", "internal/policy", "eventlog", "internal/httpx", "internal/redact")},

	"cmd/dragoman/internal/say":     {ours: archLibrary, third: []string{"github.com/spf13"}},
	"cmd/dragoman/internal/control": {ours: joinPackages(archLibrary, archCommands("say")...), third: []string{"github.com/spf13"}},
	"cmd/dragoman/internal/cmdline": {ours: joinPackages(archLibrary, archCommands("say")...), third: []string{"github.com/spf13"}},
	"cmd/dragoman/internal/use":     {ours: joinPackages(archLibrary, archCommands("say", "control", "cmdline")...), third: []string{"github.com/spf13"}},
	"cmd/dragoman/internal/look":    {ours: joinPackages(archLibrary, archCommands("say", "control", "cmdline", "use")...), third: []string{"github.com/spf13"}},
	"cmd/dragoman/internal/serve":   {ours: joinPackages(archLibrary, archCommands("say", "control", "cmdline")...), third: []string{"github.com/spf13"}},
	"cmd/dragoman/internal/admin":   {ours: joinPackages(archLibrary, archCommands("say", "control", "cmdline")...), third: []string{"github.com/spf13"}},
	"cmd/dragoman": {
		ours:  joinPackages(archLibrary, archCommands("say", "cmdline", "use", "look", "serve", "admin")...),
		third: []string{"github.com/spf13", "golang.org/x/term", "github.com/rogpeppe/go-internal"},
	},
	"bench/...": {
		ours:  joinPackages(archLibrary, "internal/mux", "internal/sse", "internal/peertest", "internal/memnet"),
		third: []string{"github.com/coder/websocket"},
	},
	"examples/...": {ours: joinPackages(archTransports, ".", "era", "client")},
	"release":      {ours: []string{"."}, tests: []string{"tests/kit"}, third: []string{"go.yaml.in/yaml"}},
	"tests/...":    {ours: joinPackages(archLibrary, "tests/kit", "internal/fault"), tests: []string{"internal/anchor"}},
}

// public are the packages that other modules may use. What they export names no type
// of an internal package, except as in internalTypes.
var public = joinPackages(archTransports, ".", "protocol", "era", "client", "oauth", "eventlog", "gateway")

// internalTypes are the internal types that public packages export, each as an alias
// with a comment that says what it is: "package.Name".
var internalTypes = []string{}

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
		{"peer_test.go", `import ("` + m + `"; "` + m + `/internal/memnet")`, ""},
		{"net.go", `import "` + m + `/protocol"`, ":2 imports " + m + "/protocol: the root may import nothing of this module"},
		{"protocol/revision.go", `import "` + m + `"; const v = "2025-06-18"`, ""},
		{"internal/memnet/memnet.go", `import "C"`, ":2 imports C: the binary is static, so no package may use cgo"},
		{"transport/sse/a.go", `import "` + m + `/internal/mux"`, ""},
		{"transport/sse/b.go", `import "` + m + `/internal/memnet"`, ":2 imports " + m + "/internal/memnet: " +
			"transport/sse may import of this module only the root, protocol, internal/rpc, internal/mux, internal/sse, internal/httpx, internal/redact, internal/flight, internal/backoff, internal/near, internal/toollist, internal/trace, internal/lazy, internal/timeout"},
		{"transport/sse/c.go", `import "github.com/coder/websocket"`, ":2 imports github.com/coder/websocket: transport/sse may import no other module"},
		{"transport/sse/surface.go", `import "` + m + `/internal/mux"; type Conn struct { *mux.Conn; inner mux.Frame }`,
			":2 exports mux.Conn, which others cannot name: declare a type here, or list an alias in internalTypes"},
		{"transport/sse/hidden.go", `import "` + m + `/internal/mux"; type conn struct { *mux.Conn }; func (c *conn) Frame() mux.Frame { return mux.Frame{} }; func New() *conn { var x mux.Frame; _ = x }`, ""},
		{"transport/sse/result.go", `import other "` + m + `/internal/sse"; func (*Server) Made(a int) (b, c other.Event) { return }`,
			":2 exports other.Event, which others cannot name: declare a type here, or list an alias in internalTypes"},
		{"transport/ws/a.go", `import "github.com/coder/websocket/x"`, ""},
		{"transport/ws/b.go", `import "github.com/coder/websockets"`, ":2 imports github.com/coder/websockets: transport/ws may import of other modules only github.com/coder/websocket"},
		{"internal/legacy/a_test.go", `import "` + m + `/internal/peertest"`, ""},
		{"internal/legacy/b_test.go", `import "` + m + `/transport/ws"`, ":2 imports " + m + "/transport/ws: tests of internal/legacy may import of this module only the root, protocol, " +
			"internal/badserver, internal/peertest, internal/authtest, internal/certtest, internal/everything, internal/fault, internal/memnet, era, internal/target, client"},
		{"internal/schema/a_test.go", `import "github.com/santhosh-tekuri/jsonschema/v6"`, ""},
		{"internal/schema/b.go", `import "github.com/santhosh-tekuri/jsonschema/v6"`, ":2 imports github.com/santhosh-tekuri/jsonschema/v6: internal/schema may import no other module"},
		{"era/era.go", "var old = x == `2024-11-05`", ":2 spells the revision 2024-11-05: only package protocol may; ask its table a question instead"},
		{"era/era_test.go", `var old = "2024-11-05"`, ""},
		{"era/testdata/x.go", `import "` + m + `/gateway"`, ""},
		{"bench/node/a.go", `import "` + m + `/gateway"`, ""},
		{"sidecar/main.go", ``, ":1 is in a package without a row: add one for sidecar to the table in tests/tree/arch_test.go"},
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
	pkg := path.Dir(name)
	r, ok := ruleFor(pkg)
	if !ok {
		complain(file, "is in a package without a row: add one for %s to the table in tests/tree/arch_test.go", pkg)
		return
	}
	who := displayPackage(pkg)
	if strings.HasSuffix(name, "_test.go") {
		r.ours = joinPackages(joinPackages(r.ours, r.tests...), forTests...)
		r.third = joinPackages(r.third, r.thirdTests...)
		who = "tests of " + who
	}
	for _, spec := range file.Imports {
		imp, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
		own, isOurs := strings.CutPrefix(imp+"/", module+"/")
		own = path.Clean(own)
		switch {
		case imp == "C":
			complain(spec, "imports C: the binary is static, so no package may use cgo")
		case isOurs && own != pkg && !slices.Contains(r.ours, own):
			complain(spec, "imports %s: %s may import %s", imp, who, onlyPackages("nothing of this module", "of this module only", r.ours))
		case !isOurs && isThirdParty(imp) && !slices.ContainsFunc(r.third, func(m string) bool { return strings.HasPrefix(imp+"/", m+"/") }):
			complain(spec, "imports %s: %s may import %s", imp, who, onlyPackages("no other module", "of other modules only", r.third))
		}
	}
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

// ruleFor finds the row of pkg, or the nearest "..." row above it.
func ruleFor(pkg string) (importRule, bool) {
	if r, ok := architecture[pkg]; ok {
		return r, true
	}
	for dir := pkg; dir != "."; dir = path.Dir(dir) {
		if r, ok := architecture[dir+"/..."]; ok {
			return r, true
		}
	}
	return importRule{}, false
}

// isThirdParty reports whether imp is outside the standard archLibrary, whose paths
// have no dot in their first element.
func isThirdParty(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return strings.Contains(first, ".")
}

func onlyPackages(none, some string, list []string) string {
	if len(list) == 0 {
		return none
	}
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = displayPackage(p)
	}
	return some + " " + strings.Join(names, ", ")
}

func displayPackage(pkg string) string {
	if pkg == "." {
		return "the root"
	}
	return pkg
}

func joinPackages(list []string, more ...string) []string {
	return slices.Concat(list, more)
}
