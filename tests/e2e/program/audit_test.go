package program

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/observe/audit"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// callTool calls a tool over plain HTTP, and returns the status; 0 means that there is no answer.
func callTool(base, tool, header string) int {
	req, err := http.NewRequest(http.MethodPost, base+"/servers/a/call/"+tool, strings.NewReader(`{"text":"hello there"}`)) //nolint:noctx // it ends with the process
	if err != nil {
		return 0
	}
	req.Header.Set("Content-Type", "application/json")
	if header != "" {
		req.Header.Set("X-Request-Id", header)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp.StatusCode
}

// A process that is killed in the middle leaves a log that the next one continues with, and what
// was answered some time before the kill is in it.
func TestAuditLogOutlivesAKill(t *testing.T) {
	t.Parallel()
	f := newFile(t, "audit: {file: audit.log, maxSize: 64KiB, keep: 1000}\nservers:\n  a: "+child(t, "modern")+"\n")
	log := filepath.Join(filepath.Dir(f.path), "audit.log")
	answered := 0
	for range 3 {
		p := startMain(t, "serve", f.path, "--listen", "127.0.0.1:0")
		base := strings.TrimSuffix(p.place("http://"), gateway.MCPPath)
		ready(t, base, "a")
		for range 20 {
			if callTool(base, "echo", "") == http.StatusOK {
				answered++
			}
		}
		_, before := countAudit(t, log)
		for limit := time.Now().Add(soon); before < answered && time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
			_, before = countAudit(t, log)
		}
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() { // ends with the process
				for callTool(base, "echo", "") != 0 {
				}
			})
		}
		for limit := time.Now().Add(soon); time.Now().Before(limit); time.Sleep(time.Millisecond) {
			if _, n := countAudit(t, log); n > before+50 {
				break
			}
		}
		_ = p.cmd.Process.Kill()
		<-p.ended
		callers.Wait()
		_, answered = countAudit(t, log)
		if answered < before+50 {
			t.Errorf("%d calls are written down, at least %d were", answered, before+50)
		}
	}
	p := startMain(t, "serve", f.path, "--listen", "127.0.0.1:0")
	p.place("http://")
	p.stop(os.Interrupt)
	out, errs, status := runMain(t, "", "audit", "verify", log)
	if status != 0 || !strings.Contains(out, "nothing is wrong") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
	starts, calls := countAudit(t, log)
	if starts != 4 || calls < 200 {
		t.Errorf("%d starts and %d calls", starts, calls)
	}
	if old, _ := filepath.Glob(log + ".0*"); len(old) == 0 {
		t.Error("no file was put aside")
	}
}

// countAudit returns how many starts and calls of a tool are written down.
func countAudit(t *testing.T, path string) (starts, calls int) {
	t.Helper()
	err := audit.Read(func(r *audit.Record) bool {
		switch {
		case r.Kind == audit.Start:
			starts++
		case r.Kind == audit.Call && r.Name == "echo":
			calls++
		}
		return true
	}, path)
	if err != nil && !os.IsNotExist(err) { // between two files there is none for a moment
		t.Fatal(err)
	}
	return starts, calls
}

func TestTwoGatewaysCannotHaveOneAuditLog(t *testing.T) {
	t.Parallel()
	f := newFile(t, "audit: audit.log\nservers:\n  a: "+child(t, "modern")+"\n")
	p := startMain(t, "serve", f.path, "--listen", "127.0.0.1:0")
	p.place("http://")
	_, errs, status := runMain(t, "", "serve", f.path, "--listen", "127.0.0.1:0")
	if status != 1 || !strings.Contains(errs, "audit.log: another process writes it; give each its own file") {
		t.Errorf("status %d: %s", status, errs)
	}
}

func TestAuditCommandsShowRecordsAndFindWhatIsWrong(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	l, err := audit.Open(path, &audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ada := audit.Caller{Principal: "ada", Address: "192.0.2.1"}
	l.Record(audit.Event{Kind: audit.Call, Caller: ada, Server: "files", Method: "tools/call", Name: "read", Outcome: audit.Answered, Duration: 1500 * time.Microsecond, In: 5})
	l.Record(audit.Event{Kind: audit.Call, Caller: ada, Server: "search", Name: "x\n\x1b[2J\u202ey", Outcome: audit.Denied, Rule: "not offered", Code: -32602})
	l.Record(audit.Event{Kind: audit.Call, Time: time.Now().Add(-48 * time.Hour), Caller: audit.Caller{Address: "192.0.2.2"}, Server: "files", Name: "old", Outcome: audit.Unknown})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args  string
		lines int
		want  string
	}{
		{"", 4, ` call answered server=files method=tools/call name=read principal=ada address=192.0.2.1 took=1.5ms in=5`},
		{"", 4, ` call denied server=search name="x\n\x1b[2J\u202ey" principal=ada address=192.0.2.1 code=-32602 rule="not offered"`},
		{"--who ada", 2, "name=read"},
		{"--who 192.0.2.2", 1, "name=old"},
		{"--server files", 2, "name=old"},
		{"--server files --since 24h", 1, "name=read"},
		{"--outcome denied", 1, "search"},
		{"--outcome denied --json", 1, `"name":"x\n\u001b[2J\u202ey"`},
		{"--since 2999-01-01", 0, ""},
	} {
		out, errs, status := runMain(t, "", append([]string{"audit", "show", path}, strings.Fields(test.args)...)...)
		if status != 0 || strings.Count(out, "\n") != test.lines || !strings.Contains(out, test.want) {
			t.Errorf("%s: status %d, want %s:\n%s%s", test.args, status, test.want, out, errs)
		}
	}
	for args, want := range map[string]string{"--since yesterday": "--since is no time", "--outcome good": "--outcome is one of answered"} {
		if _, errs, status := runMain(t, "", append([]string{"audit", "show", path}, strings.Fields(args)...)...); status != 1 || !strings.Contains(errs, want) {
			t.Errorf("%s: status %d: %s", args, status, errs)
		}
	}
	out, errs, status := runMain(t, "", "audit", "verify", path)
	if status != 0 || !strings.Contains(out, "4 records in 1 file, nothing is wrong") || !strings.Contains(out, "hash ") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte(`"answered"`), []byte(`"denied"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, status = runMain(t, "", "audit", "verify", path)
	if status != 1 || out != "" || !strings.Contains(errs, path+", line 2: it was changed") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
	if _, errs, status = runMain(t, "", "audit", "verify", path+".none"); status != 1 || !strings.Contains(errs, "no such file") && runtime.GOOS != "windows" {
		t.Errorf("status %d: %s", status, errs)
	}
}

// hostileText would be a line of its own, or do something to a terminal, if it were written
// as it is.
const hostileText = "x\x1b[2J\x1b]0;t\x07\x7f\u0085\u009b31m\u2028\u2029\u202e\u2066\u200b"

// Whatever clients and servers say, logs of both formats, the audit log and what the
// commands print have nothing in them that cannot be seen.
func TestS56_NobodyCanWriteToTheTerminalOfWhoReadsTheLogs(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if err != nil || runtime.GOOS == "windows" {
		t.Skip("no sh to write to standard error")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "server")
	if err := os.WriteFile(script, []byte("printf '%s\\n' '"+hostileText+"stderr' >&2\nexec '"+self+"' everything --era modern\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := fmt.Sprintf("{command: %q, args: [%q], inherit: [%s, %s, GORACE]}", sh, script, mainVariable, markVariable)
	quoted, _ := json.Marshal(hostileText)
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			f := newFile(t, "log: {level: debug, format: "+format+"}\naudit: {file: audit.log, arguments: true}\nservers:\n  a: "+server+"\n")
			p := startMain(t, "serve", f.path, "--listen", "127.0.0.1:0")
			base := strings.TrimSuffix(p.place("http://"), gateway.MCPPath)
			ready(t, base, "a")
			body := strings.ReplaceAll(peertest.Echo(t, protocol.Modern).String(), `"echo"`, string(quoted))
			body = strings.ReplaceAll(body, `"hello there"`, string(quoted))
			for _, name := range []string{"X-Request-Id", "Mcp-Session-Id", "Authorization", "User-Agent", "Mcp-Method", "Origin"} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/servers/a/mcp", strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
				req.Header.Set(protocol.HeaderVersion, protocol.Latest.String())
				req.Header.Set(protocol.HeaderMethod, protocol.MethodCallTool)
				req.Header.Set(protocol.HeaderName, "=?base64?"+base64.StdEncoding.EncodeToString([]byte(hostileText))+"?=")
				req.Header.Set(name, "\u009b31m\u202ex")
				if resp, err := http.DefaultClient.Do(req); err == nil {
					resp.Body.Close()
				}
			}
			_ = callTool(base, "%1b%5b2J%e2%80%ae", "")
			out, errs, _ := runMain(t, "", "logs", "a", "--socket", socketOf(t))
			status, more, _ := runMain(t, "", "status", f.path)
			p.stop(os.Interrupt)
			log := filepath.Join(filepath.Dir(f.path), "audit.log")
			shown, _, _ := runMain(t, "", "audit", "show", log)
			text, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out, "stderr") || !strings.Contains(p.said(), "stderr") || !strings.Contains(string(text), "202e") {
				t.Errorf("it was never said: %s%s", out, text)
			}
			for what, text := range map[string]string{"logs": out + errs, "status": status + more, "serve": p.logged(), "audit.log": string(text), "audit show": shown} {
				for _, r := range text {
					if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
						t.Errorf("%s: %q is in\n%q", what, r, text)
						break
					}
				}
			}
		})
	}
}

// socketOf returns the control socket of the only gateway of a test.
func socketOf(t *testing.T) string {
	t.Helper()
	list, _ := filepath.Glob(filepath.Join(getenv(t, "XDG_RUNTIME_DIR"), "dragoman", "*.sock"))
	if len(list) != 1 {
		t.Fatalf("sockets: %q", list)
	}
	return list[0]
}
