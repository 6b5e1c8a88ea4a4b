package program

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
)

func TestGatewaysAreToldApartByTheirFiles(t *testing.T) {
	f := newFile(t, "servers: {one: "+child(t, "modern")+"}")
	other := &servedFile{t, filepath.Join(filepath.Dir(f.path), "other.yaml")}
	other.write("servers: {two: " + child(t, "modern") + "}")
	for _, path := range []string{f.path, other.path} {
		p := startMain(t, "serve", path, "--listen", "127.0.0.1:0")
		p.place("http://")
	}
	t.Chdir(t.TempDir())
	for _, args := range [][]string{{"status"}, {"reload"}, {"restart", "one"}, {"logs", "one"}, {"tap"}, {"tap", "one"}} {
		if len(args) > 1 { // one of them has the server
			if args[0] != "tap" {
				if _, stderr, status := runMain(t, "", args...); status != 0 {
					t.Errorf("%q: status %d, %s", args, status, stderr)
				}
			}
		} else if _, stderr, status := runMain(t, "", args...); status != term.ExitUsage || !strings.Contains(stderr, "2 gateways are running; name the file or the server of one, or its socket:\n  ") || !strings.Contains(stderr, "\n  "+f.path+" (process ") || !strings.Contains(stderr, "\n  "+other.path+" (process ") || !strings.Contains(stderr, "  --socket /") {
			t.Errorf("%q: status %d, %s", args, status, stderr)
		}
		if args[0] == "tap" { // which continues
			p := startMain(t, append(args, f.path, "--record", filepath.Join(t.TempDir(), "record"))...)
			p.await("looking on")
			if status := p.stop(os.Interrupt); status != 0 {
				t.Errorf("%q of a file: status %d, %s", args, status, p.said())
			}
			continue
		}
		stdout, stderr, status := runMain(t, "", append(args, f.path)...)
		if status != 0 || args[0] == "status" && (!strings.Contains(stdout, "serves "+f.path) || strings.Contains(stdout, "two")) {
			t.Errorf("%q of a file: status %d, %s%s", args, status, stdout, stderr)
		}
	}
	for _, args := range [][]string{{"logs", "twoo"}, {"restart", "twoo"}, {"tap", "twoo"}} {
		if _, stderr, status := runMain(t, "", append(args, other.path)...); status != term.ExitUsage || !strings.Contains(stderr, "there is no server twoo; did you mean") {
			t.Errorf("%q: status %d, %s", args, status, stderr)
		}
	}
	none := filepath.Join(t.TempDir(), "none.yaml")
	writeAt(t, none, "servers: {}")
	if _, stderr, status := runMain(t, "", "tap", none); status != term.ExitUnreachable || !strings.Contains(stderr, "no gateway of yours serves "+none) {
		t.Errorf("tap of a file that none serves: status %d, %s", status, stderr)
	}
	// Two that serve the same file are told apart by their sockets.
	p := startMain(t, "serve", f.path, "--listen", "127.0.0.1:0")
	p.place("http://")
	if _, stderr, status := runMain(t, "", "status", f.path); status == 0 || !strings.Contains(stderr, "2 gateways serve "+f.path+"; name the socket of one:") {
		t.Errorf("two of one file: status %d, %s", status, stderr)
	}
}

func TestStatusIsPrintedAgainWhileItIsWatched(t *testing.T) {
	t.Parallel()
	f := newFile(t, "servers: {one: "+child(t, "modern")+", bad: {comand: x}}")
	p := startMain(t, "serve", f.path, "--listen", "127.0.0.1:0")
	base := strings.TrimSuffix(p.place("http://"), gateway.MCPPath)
	ready(t, base, "one")
	get(t, base+"/call")
	w := startMain(t, "status", f.path, "-w", "-o", "json", "--interval", "10ms")
	for range 3 {
		var s gateway.Status
		line, err := w.stdout.ReadString('\n')
		if err != nil || json.Unmarshal([]byte(line), &s) != nil || len(s.Servers) != 2 {
			t.Fatalf("%v, %s", err, line)
		}
		one, bad := s.Servers[0], s.Servers[1]
		if s.PID != p.cmd.Process.Pid || s.Files[0] != f.path || len(one.Processes) == 0 || bad.State != upstream.Stopped || !strings.Contains(bad.LastError, "did you mean") {
			t.Errorf("the status is %s", line)
		}
		if runtime.GOOS == "linux" && (s.Memory < 1<<20 || one.Memory < 1<<20) {
			t.Errorf("the memory is %d and %d", s.Memory, one.Memory)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, w.stdout) }() // ends with the process, which waits to be read
	if status := w.stop(os.Interrupt); status != 0 {
		t.Errorf("the status is %d", status)
	}
	if text, _, _ := runMain(t, "", "status", f.path); !strings.Contains(text, ", process ") || !strings.Contains(text, ", up ") || !strings.Contains(text, "bad   stopped") {
		t.Errorf("status prints\n%s", text)
	}
	if _, stderr, status := runMain(t, "", "status", "-o", "xml"); status == 0 || !strings.Contains(stderr, "use text, json, ndjson") {
		t.Errorf("-o xml: %d, %s", status, stderr)
	}
}

func TestAGatewayThatCannotBeControlledServes(t *testing.T) {
	t.Parallel()
	f := newFile(t, "servers: {one: "+child(t, "modern")+"}")
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	setenv(t, "XDG_RUNTIME_DIR", blocked)
	p := startMain(t, "serve", f.path, "--listen", "127.0.0.1:0")
	p.await("warning: this gateway cannot be controlled: ")
	ready(t, strings.TrimSuffix(p.place("http://"), gateway.MCPPath), "one")
}

func TestDebugShowsBothSidesInTheOrderOfTheWire(t *testing.T) {
	t.Parallel()
	p := startMain(t, append([]string{"run", "--debug", "--listen", "127.0.0.1:0"}, builtIn(t, "--era", "modern")...)...)
	base := strings.TrimSuffix(p.place("http://"), gateway.MCPPath)
	resp, err := http.Post(base+"/call/echo", "application/json", strings.NewReader(`{"text":"hi","password":"hush"}`)) //nolint:noctx // it ends with the process
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	_, text, _ := strings.Cut(p.await("debug: dragoman → client kind=result id=1 bytes=2"), "method=tools/call")
	text = "debug: client → dragoman method=tools/call" + text
	for _, want := range []string{"client → dragoman method=tools/call name=echo id=", "dragoman → server server=", "server → dragoman server=", "dragoman → client kind=result"} {
		before, after, ok := strings.Cut(text, want)
		if !ok {
			t.Fatalf("no %q behind what came before:\n%s", want, p.said())
		}
		if n := strings.Count(before, "→"); n > 1 {
			t.Errorf("%d other messages before %q:\n%s", n, want, before)
		}
		text = after
	}
	if said := p.logged(); strings.Contains(said, "hush") || strings.Contains(said, "msg=recv") || strings.Contains(said, "msg=send") {
		t.Errorf("it says\n%s", said)
	}
}

// Each gateway with one server has a control socket that is found by the server's name.
func TestRunAndConnectAreFoundByTheirServers(t *testing.T) {
	t.Parallel()
	p := startMain(t, append([]string{"run", "--listen", "127.0.0.1:0"}, builtIn(t, "--era", "modern")...)...)
	url := p.place("http://")
	var s gateway.Status
	read := func(args ...string) {
		t.Helper()
		s = gateway.Status{}
		stdout, stderr, status := runMain(t, "", append([]string{"status", "-o", "json"}, args...)...)
		if err := json.Unmarshal([]byte(stdout), &s); err != nil || status != 0 || len(s.Servers) != 1 {
			t.Fatalf("status %q: %d, %v, %s%s", args, status, err, stdout, stderr)
		}
	}
	read()
	name := s.Servers[0].Name
	if s.PID != p.cmd.Process.Pid || !s.Servers[0].Unlisted {
		t.Errorf("before a client has listed anything: %+v", s)
	}
	c := startMain(t, "connect", url)
	c.say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	if _, stderr, status := runMain(t, "", "status"); status != term.ExitUsage || !strings.Contains(stderr, "2 gateways are running; name the file or the server of one") || !strings.Contains(stderr, "\n  "+name+" (process ") || !strings.Contains(stderr, "/server-"+name+"-") {
		t.Errorf("two: status %d, %s", status, stderr)
	}
	if stdout, stderr, status := runMain(t, "", "tools", name, "echo"); status != 0 || !strings.Contains(stdout, "echo(text:str)") {
		t.Errorf("tools: status %d, %s%s", status, stdout, stderr)
	}
	read(name)
	if s.PID != p.cmd.Process.Pid || s.Servers[0].Unlisted || s.Servers[0].Tools < 10 || s.Servers[0].Cached {
		t.Errorf("after a client has listed the tools: %+v", s)
	}
	for _, args := range [][]string{{"logs", name}, {"restart", name}} {
		if _, stderr, status := runMain(t, "", args...); status != 0 {
			t.Errorf("%q: status %d, %s", args, status, stderr)
		}
	}
	if _, stderr, status := runMain(t, "", "logs", "other"); status != term.ExitUsage || !strings.Contains(stderr, `no running gateway has a server "other"`) {
		t.Errorf("logs of another: status %d, %s", status, stderr)
	}
	w := startMain(t, "tap", name, "--record", filepath.Join(t.TempDir(), "record"))
	w.await("looking on")
	if status := w.stop(os.Interrupt); status != 0 {
		t.Errorf("tap: status %d, %s", status, w.said())
	}
	// What a killed gateway leaves behind is removed.
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	if status := c.stop(os.Interrupt); status != 0 {
		t.Errorf("connect: status %d, %s", status, c.said())
	}
	if _, stderr, status := runMain(t, "", "status"); status != term.ExitUnreachable {
		t.Errorf("none: status %d, %s", status, stderr)
	}
	if left, _ := filepath.Glob(filepath.Join(environ(t)[0][len("XDG_RUNTIME_DIR="):], "dragoman", "*")); len(left) > 0 && runtime.GOOS != "windows" {
		t.Errorf("left behind: %q", left)
	}
}

func TestOwnerLearnsThatTheRulesHideServersAndTools(t *testing.T) {
	t.Parallel()
	f := newFile(t, "auth: {tokens: 0123456789abcdef}\nrules: [allow token:1]\nservers: {one: "+child(t, "modern")+"}")
	p := startMain(t, "serve", f.path, "--listen", "127.0.0.1:0")
	p.await("server is ready")
	check := func(want string, commands ...[]string) {
		t.Helper()
		for _, args := range commands {
			_, stderr, status := runMain(t, "", args...)
			if status != term.ExitAuthorization || !strings.Contains(stderr, want) || !strings.Contains(stderr, "dragoman policy explain --as local:") || !strings.Contains(stderr, "-f "+f.path+" one/TOOL") {
				t.Errorf("%q: status %d, %s", args, status, stderr)
			}
		}
	}
	check(" none of the tools of one", []string{"tools"}, []string{"tools", "-o", "json"})
	check("the rules do not allow local:", []string{"tools", "one"}, []string{"call", "one", "echo", "text=x"}, []string{"prompts", "one"})
	f.write("auth: {tokens: 0123456789abcdef}\nrules: [allow token:1, \"allow local:* tools ech*\"]\nservers: {one: " + child(t, "modern") + "}")
	if _, stderr, status := runMain(t, "", "reload", f.path); status != 0 {
		t.Fatalf("reload: %s", stderr)
	}
	if stdout, stderr, status := runMain(t, "", "tools", "one"); status != 0 || !strings.Contains(stdout, "echo(") || strings.Contains(stdout, "sleep") {
		t.Errorf("tools that are allowed: status %d, %s%s", status, stdout, stderr)
	}
	if _, stderr, status := runMain(t, "", "call", "one", "sleep", "ms=1"); status == 0 || !strings.Contains(stderr, "rules may hide it from local:") {
		t.Errorf("a tool that is hidden: status %d, %s", status, stderr)
	}
}
