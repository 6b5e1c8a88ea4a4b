//go:build sdk

package gosdk_test

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Why tests of the SDK are left out. Those of a transport are in leftOut, those that cannot run on any
// in everywhere.
const (
	modernOnly  = "it wants 2026-07-28, which this transport does not carry"
	legacyWords = "it sends a request of the legacy era without a session"
	asksClient  = "its server asks or tells the client outside of any request, which 2026-07-28 does not know over HTTP"
	tellsServer = "its client tells the server that roots have changed, which 2026-07-28 does not know over HTTP"
	noEnd       = "the end of the server is seen by the next request, not before"
	ownOrder    = "it wants a notification handled before the request behind it, which is promised around initialize alone"
	strayCancel = "now and then a ping of its server is cancelled on the way: not yet explained"
	nullParams  = "it has params of null, which JSON-RPC does not know: they go out as none"
	codeZero    = "an error without a code has 0 there; here it is an internal error"
	newSession  = "a second initialize is a second session"
)

var everywhere = map[string]string{
	"TestServerConformance/bad_requests.txtar": nullParams,
	"TestServerConformance/lifecycle.txtar":    codeZero,
	"TestSynchronousNotifications":             ownOrder,
}

var leftOut = map[string]map[string]string{
	"lines":          nil,
	"content-length": nil,
	"websocket":      nil,
	"sse": with(ofModern, map[string]string{
		"TestKeepAlive": strayCancel,
	}),
	"streamable-sessions": with(ofModern, map[string]string{
		"TestServerClosing":                    noEnd,
		"TestServerRejectsDuplicateInitialize": newSession,
	}),
	"streamable": {
		"Example_logging":                    legacyWords,
		"TestClientListChangedNotifications": tellsServer,
		"TestCustomMethods":                  legacyWords,
		"TestKeepAlive":                      asksClient,
		"TestKeepAliveFailure":               asksClient,
		"TestKeepAliveMethodNotFound":        asksClient,
		"TestServerClosing":                  noEnd,
		"TestServerRunContextCancel":         legacyWords,
		"TestToolErrorMiddleware":            asksClient,
		"TestURLElicitationRequired":         asksClient,
	},
}

// ofModern are the tests that need 2026-07-28.
var ofModern = map[string]string{
	"ExampleLoggingTransport":                                                       modernOnly,
	"TestClientConnectDiscover":                                                     modernOnly,
	"TestClientConnectDiscover_RequestContents":                                     modernOnly,
	"TestClientConnectDiscover_UnsupportedVersionNegotiation":                       modernOnly,
	"TestInMemory_E2E_DiscoverSuccess":                                              modernOnly,
	"TestListenIDsLeakViaPublicSubscribeUnsubscribe":                                modernOnly,
	"TestMultiRoundTrip_GetPrompt_ManualRetry":                                      modernOnly,
	"TestMultiRoundTrip_ManualRetry":                                                modernOnly,
	"TestMultiRoundTrip_MaxRetries":                                                 modernOnly,
	"TestMultiRoundTrip_ReadResource_AutoRetry":                                     modernOnly,
	"TestMultiRoundTrip_ReadResource_AutoRetryDoesNotMutateCallerParams":            modernOnly,
	"TestMultiRoundTrip_ReadResource_ManualRetry":                                   modernOnly,
	"TestResourceSubscriptions_InMemory":                                            modernOnly,
	"TestResourceSubscriptions_MultipleURIs":                                        modernOnly,
	"TestResourceSubscriptions_Subscribe_Idempotent":                                modernOnly,
	"TestServerConformance/discover.txtar":                                          modernOnly,
	"TestServerConformance/mrtr.txtar":                                              modernOnly,
	"TestServerSessionCloseWithActiveListen":                                        modernOnly,
	"TestServerSession_RejectsServerInitiated/2026-07-28":                           modernOnly,
	"TestServerSupportedProtocolVersions/discover_advertises_the_configured_subset": modernOnly,
	"TestSubscriptionsListen_DisconnectScrubsMaps":                                  modernOnly,
	"TestSubscriptionsListen_InMemory":                                              modernOnly,
	"TestSubscriptionsListen_MultipleSessions":                                      modernOnly,
	"TestSubscriptionsListen_ResourceListChanged":                                   modernOnly,
	"TestSubscriptionsListen_RespectsServerCapabilities":                            modernOnly,
}

func with(lists ...map[string]string) map[string]string {
	all := make(map[string]string)
	for _, l := range lists {
		maps.Copy(all, l)
	}
	return all
}

// changes are what is written otherwise in the sources of the SDK: its pair of transports in memory
// is one of ours, and is told who connects.
var changes = []struct{ file, old, new string }{
	{"mcp/transport.go", "\trwc io.ReadWriteCloser\n}\n\n// Connect", "\tTransport\n}\n\nvar Pair func() (Transport, Transport)\n\n// Connect"},
	{"mcp/transport.go", "return newIOConn(t.rwc), nil\n}\n\n// NewInMemory", "return t.Transport.Connect(ctx)\n}\n\n// NewInMemory"},
	{"mcp/transport.go", "func (t *InMemoryTransport) Connect(context.Context)", "func (t *InMemoryTransport) Connect(ctx context.Context)"},
	{"mcp/transport.go", "c1, c2 := net.Pipe()", "c1, c2 := Pair()"},
	{"mcp/transport.go", "\t\"net\"\n", ""},
	{"mcp/transport.go", "mcpConn, err := t.Connect(ctx)", `mcpConn, err := t.Connect(context.WithValue(ctx, "side of the connection", b))`},
	// Progress for tokens that no request has is dropped on the way, because there must be none.
	{"mcp/mcp_test.go", `waitForNotification(t, "progress_client")`, ""},
	{"mcp/mcp_test.go", `waitForNotification(t, "progress_server")`, ""},
}

// glue has the tests of the SDK use our transports. It is outside of the package that they are in,
// which gosdk needs itself.
const glue = `package mcp_test

import (
	"os"

	"github.com/dragoman-mcp/dragoman/gosdk"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func init() {
	mcp.Pair = func() (mcp.Transport, mcp.Transport) { return gosdk.Pair(os.Getenv("DRAGOMAN_TRANSPORT")) }
}
`

// TestTheTestsOfTheSDKPassOverEveryTransport runs all tests of the SDK that join a client and a server
// in memory, with each of our transports between the two.
func TestTheTestsOfTheSDKPassOverEveryTransport(t *testing.T) {
	dir := patchedSDK(t)
	program := filepath.Join(t.TempDir(), "sdk.test")
	command(t, dir, "go", "test", "-mod=mod", "-vet=off", "-tags", "sdk", "-c", "-o", program, "./mcp")
	names := strings.Fields(command(t, dir, program, "-test.list", pattern(testsInMemory(t, filepath.Join(dir, "mcp")))))
	for carrier, reasons := range leftOut {
		t.Run(carrier, func(t *testing.T) {
			t.Parallel()
			out := with(everywhere, reasons)
			run := func(ctx context.Context, args ...string) ([]byte, error) {
				cmd := exec.CommandContext(ctx, program, append(args, "-test.v")...)
				cmd.Dir = filepath.Join(dir, "mcp")
				cmd.Env = append(os.Environ(), "DRAGOMAN_TRANSPORT="+carrier)
				return cmd.CombinedOutput()
			}
			skip := pattern(slices.Collect(maps.Keys(out)))
			text, err := run(t.Context(), "-test.run", pattern(names), "-test.skip", skip, "-test.timeout", "2m")
			if err != nil {
				t.Errorf("%v\n%s", err, failures(text))
			}
			passed := regexp.MustCompile(`(?m)^--- PASS: `).FindAll(text, -1)
			t.Logf("%d of %d tests of the SDK pass over %s; %d or parts of them are left out", len(passed), len(names), carrier, len(out))
			stillNeeded(t, out, run)
		})
	}
}

// stillNeeded fails for tests that are left out although they pass.
func stillNeeded(t *testing.T, out map[string]string, run func(context.Context, ...string) ([]byte, error)) {
	var all sync.WaitGroup
	slots := make(chan struct{}, 2)
	for name, reason := range out {
		if reason == ownOrder || reason == newSession || reason == strayCancel {
			continue // it passes now and then
		}
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // some wait forever
			defer cancel()
			if text, err := run(ctx, "-test.run", pattern([]string{name})); err == nil {
				t.Errorf("%s is left out because %s, but it passes, or is not there:\n%s", name, reason, text)
			}
		})
	}
	all.Wait()
}

// pattern matches tests, or parts of tests behind a slash, by their names. All that have parts must
// be of the same depth, as -run and -skip want.
func pattern(names []string) string {
	var list []string
	for _, name := range names {
		parts := strings.Split(name, "/")
		for i, p := range parts {
			parts[i] = "^" + regexp.QuoteMeta(p) + "$"
		}
		list = append(list, strings.Join(parts, "/"))
	}
	slices.Sort(list)
	return strings.Join(list, "|")
}

// failures returns what go test prints of those that failed.
func failures(text []byte) string {
	if i := bytes.Index(text, []byte("panic: ")); i >= 0 {
		text = text[i:]
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, "=== ") && !strings.Contains(line, "--- PASS") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[:min(len(lines), 200)], "")
}

// patchedSDK returns a copy of the SDK whose tests use our transports.
func patchedSDK(t *testing.T) string {
	t.Helper()
	from := strings.TrimSpace(command(t, ".", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/modelcontextprotocol/go-sdk"))
	dir := t.TempDir()
	for _, part := range []string{"mcp", "internal", "jsonrpc", "auth", "oauthex", "go.mod", "go.sum"} {
		copyTree(t, filepath.Join(from, part), filepath.Join(dir, part))
	}
	for _, c := range changes {
		file := filepath.Join(dir, c.file)
		text := readFile(t, file)
		if strings.Count(text, c.old) != 1 {
			t.Fatalf("%s of the SDK has %q %d times", c.file, c.old, strings.Count(text, c.old))
		}
		writeFile(t, file, strings.Replace(text, c.old, c.new, 1))
	}
	writeFile(t, filepath.Join(dir, "mcp", "dragoman_test.go"), glue)
	writeFile(t, filepath.Join(dir, "go.sum"), readFile(t, filepath.Join(dir, "go.sum"))+readFile(t, "go.sum"))
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	edit := []string{"mod", "edit"}
	for module, path := range map[string]string{"github.com/dragoman-mcp/dragoman": filepath.Dir(here), "github.com/dragoman-mcp/dragoman/gosdk": here} {
		edit = append(edit, fmt.Sprintf("-require=%s@v0.0.0", module), fmt.Sprintf("-replace=%s=%s", module, path))
	}
	command(t, dir, "go", edit...)
	return dir
}

// testsInMemory returns the tests and examples of a package that use NewInMemoryTransports, by whatever
// functions of theirs.
func testsInMemory(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	mentions := make(map[string]map[string]bool) // by function
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil {
				continue
			}
			names := make(map[string]bool)
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					names[id.Name] = true
				}
				return true
			})
			mentions[f.Name.Name] = names
		}
	}
	uses := map[string]bool{"NewInMemoryTransports": true}
	for before := 0; before < len(uses); {
		before = len(uses)
		for f, names := range mentions {
			for name := range names {
				if uses[name] {
					uses[f] = true
				}
			}
		}
	}
	var tests []string
	for f := range uses {
		if strings.HasPrefix(f, "Test") || strings.HasPrefix(f, "Example") {
			tests = append(tests, f)
		}
	}
	if len(tests) < 100 {
		t.Fatalf("the SDK has %d tests in memory", len(tests))
	}
	return tests
}

func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, &problems)
	}
	return string(out)
}

// copyTree copies a file or a directory, so that it can be written.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
