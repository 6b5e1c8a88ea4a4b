package program

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/observe/tap"
)

const (
	sayHello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"host","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
	callEcho = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi","password":"canary"}}}` + "\n"
	callNone = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"nonesuch"}}` + "\n"
)

// self is the command that this program is in a test.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// answers reads so many lines that a process writes.
func (p *process) answers(n int) (lines []string) {
	p.t.Helper()
	for range n {
		line, err := p.stdout.ReadString('\n')
		if err != nil {
			p.t.Fatalf("after %q: %v", lines, err)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestATapPassesAllOnAndWritesItDown(t *testing.T) {
	t.Chdir(t.TempDir())
	web := startMain(t, "run", "--listen", "127.0.0.1:0")
	for name, server := range map[string][]string{
		"command": {"--", self(t), "everything"},
		"url":     {web.place("http://")},
	} {
		t.Run(name, func(t *testing.T) {
			lines, record := name+".log", name+".ndjson"
			p := startMain(t, append([]string{"tap", "--to", lines, "--record", record}, server...)...)
			for _, text := range []string{sayHello, callEcho, callNone} {
				if _, err := p.stdin.Write([]byte(text)); err != nil {
					t.Fatal(err)
				}
				p.answers(1)
			}
			_ = p.stdin.Close()
			<-p.ended
			if status := p.cmd.ProcessState.ExitCode(); status != 0 {
				t.Errorf("it ends with %d", status)
			}
			shown, err := os.ReadFile(lines)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"→  #1  initialize", "←  #1  initialize  ", "→  notifications/initialized", "→  #2  tools/call  echo", "←  #2  tools/call  echo", "error -32602", "[host]"} {
				if !strings.Contains(string(shown), want) {
					t.Errorf("%q is missing in\n%s", want, shown)
				}
			}
			text, err := os.ReadFile(record)
			if info, e := os.Stat(record); err != nil || e != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v, %v", info.Mode(), err, e)
			}
			if strings.Contains(string(shown)+string(text), "canary") || strings.Count(string(text), "\n") != 7 {
				t.Errorf("the recording is\n%s", text)
			}
			if out, said, status := runMain(t, "", "replay", record, web.place("http://")); status != 0 || out != "" || !strings.Contains(said, "2 requests sent: 0 answered otherwise") || !strings.Contains(said, "masked in 1 request") {
				t.Errorf("replay: status %d\n%s\n%s", status, out, said)
			}
			changed := strings.Replace(string(text), `{"text":"hi","type"`, `{"text":"ho","type"`, 1)
			writeAt(t, record+".changed", changed)
			if out, said, status := runMain(t, "", "replay", record+".changed", "-e", mainVariable+"=1", "--", self(t), "everything"); status != term.ExitFindings || !strings.Contains(out, "result.content[0].text\n    - \"ho\"\n    + \"hi\"") {
				t.Errorf("replay of a changed recording: status %d\n%s\n%s", status, out, said)
			}
			if out, said, status := runMain(t, "", "replay", record+".changed", "--ignore", "result.content[*].text", "-o", "ndjson", "-e", mainVariable+"=1", "--", self(t), "everything"); status != 0 || strings.Count(out, `"method":"tools/call"`) != 2 {
				t.Errorf("replay with --ignore: status %d\n%s\n%s", status, out, said)
			}
			if _, said, status := runMain(t, "", append([]string{"tap", "--record", record}, server...)...); status != term.ExitOther || !strings.Contains(said, "exists") {
				t.Errorf("a recording is written over: %d %s", status, said)
			}
		})
	}
}

func TestTapInAPipeShowsWhatIsWantedOnStandardError(t *testing.T) {
	t.Parallel()
	out, said, status := runMain(t, sayHello+callEcho+callNone, "tap", "--errors", "--body", "--", self(t), "everything")
	if status != 0 || strings.Count(out, "\n") != 3 || strings.Contains(said, "echo") || !strings.Contains(said, "←  #3  tools/call  nonesuch") || !strings.Contains(said, `"code": -32602`) || strings.Contains(said, "\x1b") {
		t.Errorf("status %d\n%s\n%s", status, out, said)
	}
	out, said, status = runMain(t, sayHello, "tap", "-o", "ndjson", "--method", "init*", "--", self(t), "everything")
	var e tap.Event
	if err := json.NewDecoder(strings.NewReader(said)).Decode(&e); status != 0 || err != nil || e.Method != "initialize" || strings.Count(said, "\n") != 2 || out == "" {
		t.Errorf("status %d, %v\n%s", status, err, said)
	}
	if _, said, status = runMain(t, "", "tap", "--", self(t), "everything", "--nope"); status != term.ExitUsage || !strings.Contains(said, "unknown flag") {
		t.Errorf("the status of the command is %d\n%s", status, said)
	}
	if _, said, status = runMain(t, "", "tap", "--", "/no/such/command"); status != term.ExitUnreachable || !strings.Contains(said, "full path") {
		t.Errorf("no command: status %d\n%s", status, said)
	}
	for _, args := range [][]string{{"tap", "--unmasked"}, {"tap", "a", "b"}, {"tap", "--"}, {"tap", "-o", "xml"}, {"replay", "none.ndjson", "x"}, {"replay"}} {
		if _, said, status = runMain(t, "", args...); status != term.ExitUsage {
			t.Errorf("%q: status %d\n%s", args, status, said)
		}
	}
}

func TestTapInATerminalHasColors(t *testing.T) {
	t.Parallel()
	m := newTerminal(t)
	m.types("clear; (echo '" + strings.TrimSpace(callNone) + "'; sleep 1) | dragoman tap -- dragoman everything >/dev/null; echo status $?")
	m.shows("status 0")
	screen := m.tmux("capture-pane", "-p", "-e")
	if !regexp.MustCompile(`\x1b\[36m→.*  #3  tools/call  nonesuch`).MatchString(screen) || !regexp.MustCompile(`\x1b\[31m←.*  #3  tools/call  nonesuch`).MatchString(screen) {
		t.Errorf("it shows\n%q", screen)
	}
}

func TestAServerIsReplacedIfTheUserSaysSo(t *testing.T) {
	t.Parallel()
	m := newTerminal(t)
	file := filepath.Join(t.TempDir(), "mcp.json")
	writeAt(t, file, `{"mcpServers": {"a": {"command": "old"}}}`)
	for _, answer := range []string{"n", "y"} {
		m.types("clear; dragoman export cursor --file " + file + " --name a --write -- new; echo status $?")
		m.shows("Replace it? [y/N]")
		m.types(answer)
		m.shows(map[string]string{"n": "status 1", "y": "status 0"}[answer])
		if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "new") != (answer == "y") {
			t.Errorf("after %s it is %s, %v", answer, text, err)
		}
	}
}

func TestTapOfARunningGateway(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	socket := filepath.Join(dir, "s")
	writeAt(t, "dragoman.yaml", `{"listen": "127.0.0.1:0", "commands": {"writable": true}, "servers": {"all": {"command": "`+self(t)+`", "args": ["everything"], "env": {"`+mainVariable+`": "1"}}}}`)
	g := startMain(t, "serve", "dragoman.yaml", "--socket", socket)
	g.place("http://")
	p := startMain(t, "tap", "all", "--socket", socket, "--record", "r.ndjson", "--unmasked", "--method", "tools/call")
	p.await("looking on")
	if out, said, status := runMain(t, "", "call", "all", "echo", "--socket", socket, "text=hi"); status != 0 {
		t.Fatalf("status %d\n%s\n%s", status, out, said)
	}
	lines := p.answers(2)
	if !strings.Contains(lines[0], "→  all  #") || !strings.Contains(lines[0], "tools/call  echo") || !strings.Contains(lines[1], "←  all  #") || !strings.Contains(lines[1], "[dragoman]") {
		t.Errorf("it shows %q", lines)
	}
	if said := p.said(); !strings.Contains(said, "warning: r.ndjson will have all secrets") {
		t.Errorf("it says %s", said)
	}
	_ = p.cmd.Process.Signal(os.Interrupt)
	<-p.ended
	if status := p.cmd.ProcessState.ExitCode(); status != 0 {
		t.Errorf("it ends with %d", status)
	}
	if out, said, status := runMain(t, "", "replay", "r.ndjson", "all", "--socket", socket); status != 0 || !strings.Contains(said, "0 answered otherwise, 0 not") {
		t.Errorf("replay: status %d\n%s\n%s", status, out, said)
	}
	if _, said, status := runMain(t, "", "tap", "none", "--socket", socket); status != term.ExitUsage || !strings.Contains(said, "no server none") {
		t.Errorf("nobody: status %d\n%s", status, said)
	}
}
