package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/cmd/dragoman/internal/say"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/manager"
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
		_, stderr, status := runMain(t, "", args...)
		if status != say.ExitUsage || !strings.Contains(stderr, "2 gateways are running; name the file of one, or its socket:\n  ") || !strings.Contains(stderr, "\n  "+f.path+" (process ") || !strings.Contains(stderr, "\n  "+other.path+" (process ") || !strings.Contains(stderr, "  --socket /") {
			t.Errorf("%q: status %d, %s", args, status, stderr)
		}
		if args[0] == "tap" { // which goes on
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
		if _, stderr, status := runMain(t, "", append(args, other.path)...); status != say.ExitUsage || !strings.Contains(stderr, "there is no server twoo; did you mean") {
			t.Errorf("%q: status %d, %s", args, status, stderr)
		}
	}
	none := filepath.Join(t.TempDir(), "none.yaml")
	writeAt(t, none, "servers: {}")
	if _, stderr, status := runMain(t, "", "tap", none); status != say.ExitUnreachable || !strings.Contains(stderr, "no gateway of yours serves "+none) {
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
		if s.PID != p.cmd.Process.Pid || s.Files[0] != f.path || len(one.Processes) == 0 || bad.State != manager.Stopped || !strings.Contains(bad.LastError, "did you mean") {
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
