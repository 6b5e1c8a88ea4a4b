package program

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
)

// A served file is one that a gateway serves.
type servedFile struct {
	t    *testing.T
	path string
}

// newFile writes a configuration, and keeps what the gateway leaves behind away
// from the user's.
func newFile(t *testing.T, text string) *servedFile {
	t.Helper()
	dir := t.TempDir()
	setenv(t, "XDG_RUNTIME_DIR", filepath.Join(dir, "run"))
	setenv(t, "XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	f := &servedFile{t, filepath.Join(dir, "dragoman.yaml")}
	f.write(text)
	return f
}

func (f *servedFile) write(text string) {
	f.t.Helper()
	if err := os.WriteFile(f.path, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// child is the configuration of the built-in server in one era.
func child(t *testing.T, era string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("{command: %q, args: [everything, --era, %s], inherit: [%s, %s, GORACE]}", self, era, mainVariable, markVariable)
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url) //nolint:noctx,gosec // it ends with the process
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// ready waits until the gateway says that a server is, and returns how all are.
func ready(t *testing.T, base string, names ...string) gateway.Status {
	t.Helper()
	for limit := time.Now().Add(soon); ; time.Sleep(20 * time.Millisecond) {
		var s gateway.Status
		_, text := get(t, base+gateway.StatusPath)
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		up := 0
		for _, server := range s.Servers {
			for _, name := range names {
				if server.Name == name && server.State == "ready" {
					up++
				}
			}
		}
		if up == len(names) {
			return s
		}
		if time.Now().After(limit) {
			t.Fatalf("%v are not ready: %s", names, text)
		}
	}
}

func TestServeServesAFileAndIsControlledOverItsSocket(t *testing.T) {
	t.Parallel()
	f := newFile(t, "servers:\n  old: "+child(t, "legacy")+"\n  new: "+child(t, "modern")+"\n  gone: {command: /does/not/exist}\n")
	p := startMain(t, "serve", f.path, "--listen", "127.0.0.1:0")
	base := strings.TrimSuffix(p.place("http://"), gateway.MCPPath)
	ready(t, base, "old", "new")
	if status, text := get(t, base+"/call"); status != http.StatusOK || !strings.Contains(text, "old_echo") || !strings.Contains(text, "new_echo") {
		t.Errorf("the tools of all: %d %.200s", status, text)
	}
	run := func(args ...string) string {
		t.Helper()
		stdout, stderr, status := runMain(t, "", args...)
		if status != 0 {
			t.Errorf("%q: status %d: %s", args, status, stderr)
		}
		return stdout
	}
	if text := run("status", f.path); !strings.Contains(text, "old   ready") || !strings.Contains(text, "cannot start") {
		t.Errorf("status prints\n%s", text)
	}
	if text := run("status", "--json"); !strings.Contains(text, `"name": "gone"`) {
		t.Errorf("status --json prints\n%s", text)
	}
	if text := run("restart", "old"); !strings.Contains(text, "ready") {
		t.Errorf("restart prints\n%s", text)
	}
	if text := run("logs", "gone"); !strings.Contains(text, "cannot start") {
		t.Errorf("logs prints\n%s", text)
	}
	f.write("servers:\n  old: " + child(t, "legacy") + "\n  more: " + child(t, "modern") + "\n")
	if text := run("reload", f.path); !strings.Contains(text, "added: more\nremoved: new, gone\n1 server unchanged") {
		t.Errorf("reload prints\n%s", text)
	}
	f.write("servers: {old: {comand: x}, more: " + child(t, "modern") + "}")
	text, stderr, status := runMain(t, "", "reload", f.path)
	if !strings.Contains(text, "old continues as it was configured before") || !strings.Contains(text, `did you mean "command"`) {
		t.Errorf("with an error of a server, reload prints\n%s", text)
	}
	if status != term.ExitOther || !strings.Contains(stderr, "the configuration of 1 server has errors; the rest is in force") {
		t.Errorf("with an error of a server, reload has the status %d and says %s", status, stderr)
	}
	f.write("server: {}")
	if _, stderr, status := runMain(t, "", "reload", f.path); status == 0 || !strings.Contains(stderr, `did you mean "servers"`) {
		t.Errorf("a bad reload: status %d, %s", status, stderr)
	}
	if _, stderr, status := runMain(t, "", "restart", "nobody"); status == 0 || !strings.Contains(stderr, "there is no server nobody") {
		t.Errorf("a bad restart: status %d, %s", status, stderr)
	}
	info, err := os.Stat(filepath.Join(getenv(t, "XDG_RUNTIME_DIR"), "dragoman"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory of the socket: %v, %v", info, err)
	}
	if status := p.stop(syscall.SIGTERM); status != 0 {
		t.Errorf("the status is %d", status)
	}
	noneLeft(t)
	if _, stderr, status := runMain(t, "", "status", f.path); status == 0 || !strings.Contains(stderr, "no gateway of yours serves") {
		t.Errorf("status afterwards: status %d, %s", status, stderr)
	}
}

func TestServeOnStandardInputBringsAllServers(t *testing.T) {
	t.Parallel()
	f := newFile(t, "servers:\n  old: "+child(t, "legacy")+"\n  new: "+child(t, "modern")+"\n")
	p := startMain(t, "serve", "--stdio", f.path)
	p.await("ready: standard input and output")
	answer := p.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"me","version":"1"}}}`)
	if !strings.Contains(answer, `"protocolVersion":"2025-11-25"`) {
		t.Fatalf("initialize: %s", answer)
	}
	if _, err := io.WriteString(p.stdin, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"old_echo", "new_echo"} {
		answer = p.say(`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"` + tool + `","arguments":{"text":"hello"}}}`)
		for strings.Contains(answer, `"method":"notifications/`) { // a server came up meanwhile
			answer = p.say("")
		}
		if !strings.Contains(answer, `"text":"hello"`) {
			t.Errorf("%s: %s", tool, answer)
		}
	}
	_ = p.stdin.Close()
	if status := p.wait(); status != 0 {
		t.Errorf("at the end of standard input the status is %d", status)
	}
	noneLeft(t)
}

func TestServeReadsItsFileAgainOnSIGHUP(t *testing.T) {
	t.Parallel()
	f := newFile(t, "servers: {one: "+child(t, "modern")+"}")
	p := startMain(t, "serve", f.path, "--listen", "127.0.0.1:0", "--no-watch")
	base := strings.TrimSuffix(p.place("http://"), gateway.MCPPath)
	ready(t, base, "one")
	f.write("listen: 127.0.0.1:1\nlog: {level: debug, format: json}\nservers: {two: " + child(t, "modern") + "}")
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.await("dragoman: debug: ")
	p.await("configuration reloaded")
	if s := ready(t, base, "two"); len(s.Servers) != 1 {
		t.Errorf("the servers are %+v", s.Servers)
	}
	// What is listened on says --listen, so that the file does not matter.
	if text, stderr, _ := runMain(t, "", "status", f.path); !strings.Contains(text, "a restart of the gateway is needed for changes of: log.format\n") {
		t.Errorf("the status is\n%s%s", text, stderr)
	}
}

func TestServeExplainsWhatIsWrong(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"servers: {}", "there is no server to serve"},
		{"server: {}", `did you mean \"servers\"`},
		{"listen: {address: '127.0.0.1:0', auth: secret}\nservers: {a: {url: http://127.0.0.1:1}}", "use required or none"},
		{"listen: nowhere:port\nservers: {a: {url: http://127.0.0.1:1}}", "nowhere:port"},
	} {
		f := newFile(t, c.text)
		if _, stderr, status := runMain(t, "", "serve", f.path); status == 0 || !strings.Contains(stderr, c.want) || strings.Contains(stderr, "secret") {
			t.Errorf("%s: status %d, %s, want %q", c.text, status, stderr, c.want)
		}
	}
	t.Chdir(t.TempDir())
	if _, stderr, status := runMain(t, "", "serve"); status == 0 || !strings.Contains(stderr, "name a file") {
		t.Errorf("without a file: status %d, %s", status, stderr)
	}
}

// A server that cannot be understood does not keep the others from starting.
func TestServeLeavesOutWhatItCannotUnderstand(t *testing.T) {
	t.Parallel()
	f := newFile(t, "servers:\n  good: "+child(t, "modern")+"\n  bad: {command: x, env: {A: \"${NOT_SET_ANYWHERE}\"}}\n")
	p := startMain(t, "serve", f.path, "--listen", "127.0.0.1:0")
	p.await("NOT_SET_ANYWHERE")
	p.await("left out because of errors: bad")
	ready(t, strings.TrimSuffix(p.place("http://"), gateway.MCPPath), "good")
}
