package program

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

func TestServerOfEitherEraIsReachedThroughEveryEndpoint(t *testing.T) {
	t.Parallel()
	for _, era := range []protocol.Era{protocol.Legacy, protocol.Modern} {
		t.Run(era.String()+" server", func(t *testing.T) {
			dir := t.TempDir()
			p := startMain(t, append([]string{
				"run", "--listen", "127.0.0.1:0", "--listen", "tcp:127.0.0.1:0",
				"--listen", "unix:" + filepath.Join(dir, "a"), "--listen", "http+unix:" + filepath.Join(dir, "b"),
			}, builtIn(t, "--era", era.String())...)...)
			if said := p.await("dragoman: ready: "); !strings.Contains(said, "(command, "+era.String()+" era)") {
				t.Errorf("it does not say what is served:\n%s", said)
			}
			base := strings.TrimSuffix(p.place("http://"), "/mcp")
			for name, dialer := range map[string]dragoman.Dialer{
				"mcp":                   &streamable.Client{URL: base + "/mcp"},
				"ws":                    &ws.Client{URL: base + "/ws"},
				"tcp":                   &stdio.Address{Network: "tcp", Address: strings.TrimPrefix(p.place("tcp:"), "tcp:")},
				"unix":                  &stdio.Address{Network: "unix", Address: strings.TrimPrefix(p.place("unix:/"+strings.Trim(dir, "/")), "unix:")},
				"http on a Unix socket": &streamable.Client{URL: p.place("unix://")},
			} {
				t.Run(name, func(t *testing.T) {
					peertest.CheckEcho(t, dialer, protocol.Legacy)
					peertest.CheckEcho(t, dialer, protocol.Modern)
				})
			}
			t.Run("sse", func(t *testing.T) { peertest.CheckEcho(t, &sse.Client{URL: base + "/sse"}, protocol.Legacy) })
			t.Run("call", func(t *testing.T) {
				if got := post(t, base+"/call/echo", `{"text":"hello there"}`); !strings.Contains(got, "hello there") {
					t.Errorf("the tool says %s", got)
				}
				if got := post(t, base+"/call/echo", `{"text":7}`); !strings.Contains(got, "arguments.text") {
					t.Errorf("bad arguments: %s", got)
				}
			})
			t.Run("standard input", func(t *testing.T) {
				if got := p.say(peertest.Echo(t, protocol.Modern).String()); !strings.Contains(got, "hello there") {
					t.Errorf("modern: %s", got)
				}
				if got := p.say(peertest.Hello(t).String()); !strings.Contains(got, "serverInfo") {
					t.Errorf("legacy: %s", got)
				}
			})
		})
	}
}

func post(t *testing.T, url, body string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestConnectBringsAServerToStandardInputAndOutput(t *testing.T) {
	t.Parallel()
	for _, era := range []protocol.Era{protocol.Legacy, protocol.Modern} {
		server := startMain(t, "run", "--era", era.String(), "--listen", "127.0.0.1:0", "--listen", "tcp:127.0.0.1:0")
		base := strings.TrimSuffix(server.place("http://"), "/mcp")
		targets := [][]string{
			{base + "/mcp"}, {base + "/mcp", "--transport", "http-only"}, {base + "/ws"}, {server.place("tcp:")}, builtIn(t, "--era", era.String()),
		}
		targets[2][0] = "ws" + strings.TrimPrefix(targets[2][0], "http")
		if era == protocol.Legacy {
			targets = append(targets, []string{base + "/sse"}, []string{base, "--transport", "sse-only"}, []string{base + "/mcp", "9696", "--transport", "sse-first"})
		}
		for _, target := range targets {
			t.Run(era.String()+" "+strings.Join(target, " "), func(t *testing.T) {
				p := startMain(t, append([]string{"connect"}, target...)...)
				if got := p.say(peertest.Hello(t).String()); !strings.Contains(got, "serverInfo") {
					t.Errorf("initialize: %s", got)
				}
				p.tell(t, protocol.NoteInitialized)
				if got := p.say(peertest.Echo(t, protocol.Legacy).String()); !strings.Contains(got, "hello there") {
					t.Errorf("legacy: %s", got)
				}
				if got := p.say(peertest.Echo(t, protocol.Modern).String()); !strings.Contains(got, "hello there") {
					t.Errorf("modern: %s", got)
				}
				_ = p.stdin.Close()
				if status := p.wait(); status != 0 {
					t.Errorf("it ends with status %d", status)
				}
				if rest, _ := io.ReadAll(p.stdout); len(rest) > 0 {
					t.Errorf("it also writes %q", rest)
				}
			})
		}
	}
}

func (p *process) tell(t *testing.T, method string) {
	t.Helper()
	note, err := dragoman.NewNotification(method, nil)
	if err == nil {
		_, err = io.WriteString(p.stdin, note.String()+"\n")
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestConnectAnswersWithTheReasonIfTheServerIsNotThere(t *testing.T) {
	t.Parallel()
	for _, target := range [][]string{{"tcp:127.0.0.1:1"}, {"http://127.0.0.1:1/mcp?key=hush"}} {
		p := startMain(t, append([]string{"connect"}, target...)...)
		if got := p.say(peertest.Hello(t).String()); !strings.Contains(got, `"error"`) || !strings.Contains(got, "refused") && !strings.Contains(got, "not found") {
			t.Errorf("%q: initialize is answered %s", target, got)
		}
		if said := p.await("server is down"); !strings.Contains(said, "refused") && !strings.Contains(said, "not found") {
			t.Errorf("%q: it does not say why: %s", target, said)
		} else if strings.Contains(said, "hush") {
			t.Errorf("it repeats what may be a secret: %s", said)
		}
		_ = p.stdin.Close()
		if status := p.wait(); status != 0 {
			t.Errorf("%q: it ends with status %d", target, status)
		}
	}
}

func TestRunSaysWhyAServerDoesNotComeUp(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"run", "--listen", "127.0.0.1:0", "--", "sh", "-c", "echo no licence >&2; exit 3"},
			[]string{"[sh] no licence\n", `dragoman: the server did not come up: server "sh" exited with status 3`, "run with --debug to see every step"}},
		{[]string{"run", "--listen", "127.0.0.1:0", "--era", "modern", "--", "sh", "-c", "exit 4"},
			[]string{"did not come up", "status 4"}},
		{[]string{"run", "--listen", "127.0.0.1:0", "--era", "legacy", "--", "sh", "-c", "exit 5"},
			[]string{"did not come up", "status 5"}},
		{[]string{"run", "--listen", "127.0.0.1:0", "--", "sh", "-c", "read line; exit 6"},
			[]string{"did not come up", "status 6"}},
		{[]string{"run", "--listen", "127.0.0.1:0", "does-not-exist-anywhere", "--x"},
			[]string{`dragoman: cannot start "does-not-exist-anywhere": executable file not found`, "give the absolute path of the executable"}},
		{[]string{"run", "--listen", "127.0.0.1:0", "localhost:3000/mcp"}, []string{"if it is a URL, begin it with http://"}},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			stdout, stderr, status := runMain(t, "", test.args...)
			if status != term.ExitUnreachable || stdout != "" {
				t.Errorf("status %d, standard output %q", status, stdout)
			}
			for _, want := range test.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("standard error lacks %q:\n%s", want, stderr)
				}
			}
			if strings.Contains(stderr, "ready") {
				t.Errorf("it says that it is ready:\n%s", stderr)
			}
		})
	}
}

func TestURLThatDoesNotAnswerIsServedAllTheSame(t *testing.T) {
	t.Parallel()
	p := startMain(t, "run", "--listen", "127.0.0.1:0", "http://127.0.0.1:1/mcp")
	base := strings.TrimSuffix(p.place("http://127.0.0.1:"), "/mcp")
	if !strings.Contains(p.said(), "warning: localhost cannot be reached") {
		t.Errorf("it does not warn:\n%s", p.said())
	}
	if got := post(t, base+"/mcp", peertest.Hello(t).String()); !strings.Contains(got, "refused") {
		t.Errorf("initialize is answered %s", got)
	}
}

func TestServerThatWaitsIsAnnounced(t *testing.T) {
	t.Parallel()
	p := startMain(t, "run", "--listen", "127.0.0.1:0", "--connectionTimeout", "4000", "--era", "legacy", "--", "sh", "-c", "exec sleep 100")
	p.await("dragoman: sleep: no answer yet after 2s; waiting for up to 4s")
	if status := p.wait(); status != term.ExitUnreachable || !strings.Contains(p.said(), "did not come up") {
		t.Errorf("status %d: %s", status, p.said())
	}
}

func TestSignalEndsTheWaitForAServer(t *testing.T) {
	t.Parallel()
	p := startMain(t, "run", "--listen", "127.0.0.1:0", "--", "sh", "-c", "exec sleep 100")
	p.await("process started")
	if status := p.stop(syscall.SIGTERM); status != 0 {
		t.Errorf("status %d", status)
	}
}

func TestSnippetIsAConfigurationThatWorks(t *testing.T) {
	t.Parallel()
	p := startMain(t, append([]string{"run", "--listen", "127.0.0.1:0"}, builtIn(t)...)...)
	said := p.await("for the configuration of a client: ")
	_, text, _ := strings.Cut(said, "for the configuration of a client: ")
	text, _, _ = strings.Cut(text, "\n")
	var config struct {
		Servers map[string]struct{ Type, URL string } `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(text), &config); err != nil || len(config.Servers) != 1 {
		t.Fatalf("%s: %v", text, err)
	}
	for name, server := range config.Servers {
		if name == "" || server.Type != "http" {
			t.Errorf("%q is %+v", name, server)
		}
		peertest.CheckEcho(t, &streamable.Client{URL: server.URL, Timeout: time.Minute}, protocol.Legacy)
	}
}

func TestConnectStartsTheServerOnceWhenTheHostSpeaks(t *testing.T) {
	t.Parallel()
	for _, era := range []string{"legacy", "both"} {
		p := startMain(t, append([]string{"connect"}, builtIn(t, "--era", era)...)...)
		if got := p.say(peertest.Hello(t).String()); !strings.Contains(got, "serverInfo") {
			t.Fatalf("%s: initialize is answered %s", era, got)
		}
		p.tell(t, protocol.NoteInitialized)
		if got := p.say(peertest.Echo(t, protocol.Legacy).String()); !strings.Contains(got, "hello there") {
			t.Errorf("%s: the echo is %s", era, got)
		}
		_ = p.stdin.Close()
		if status := p.wait(); status != 0 {
			t.Errorf("%s: it ends with status %d", era, status)
		}
		if n := strings.Count(p.said(), "process started"); n != 1 {
			t.Errorf("%s: %d processes were started, want 1:\n%s", era, n, p.said())
		}
	}
}

func TestIgnoredToolsAreNotThere(t *testing.T) {
	t.Parallel()
	args := append([]string{"--ignore-tool", "test_*", "--ignore-tool", "echo"}, builtIn(t)...)
	run := startMain(t, append([]string{"run", "--listen", "127.0.0.1:0"}, args...)...)
	base := strings.TrimSuffix(run.place("http://"), "/mcp")
	if got := post(t, base+"/call/echo", `{"text":"x"}`); !strings.Contains(got, "nknown tool") && !strings.Contains(got, "no tool") {
		t.Errorf("run: the echo is %s", got)
	}
	connect := startMain(t, append([]string{"connect"}, args...)...)
	for _, p := range []*process{run, connect} {
		list := p.say(peertest.Request(t, protocol.Modern, protocol.MethodListTools, map[string]any{}).String())
		if !strings.Contains(list, `"tools":[`) || strings.Contains(list, `"name":"echo"`) || strings.Contains(list, `"name":"test_`) {
			t.Errorf("the tools are %s", list)
		}
		if got := p.say(peertest.Echo(t, protocol.Modern).String()); !strings.Contains(got, "nknown tool") {
			t.Errorf("the echo is %s", got)
		}
	}
}

func TestRunTellsHowItsServerIs(t *testing.T) {
	t.Parallel()
	p := startMain(t, append([]string{"run", "--listen", "127.0.0.1:0"}, builtIn(t)...)...)
	base := strings.TrimSuffix(p.place("http://"), "/mcp")
	resp, err := http.Get(base + gateway.StatusPath)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var status gateway.Status
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil || len(status.Servers) != 1 {
		t.Fatalf("the status is %+v, %v", status, err)
	}
	if s := status.Servers[0]; s.State != upstream.Ready || s.Era != "modern" {
		t.Errorf("the server is %+v", s)
	}
	peertest.CheckEcho(t, &streamable.Client{URL: base + "/servers/" + status.Servers[0].Name + "/mcp"}, protocol.Modern)
}

// A person at a terminal sees what is wrong before a host has sent anything; standard output stays empty.
func TestConnectReportsAtOnceWhatIsWrongWithItsURL(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	for _, test := range []struct{ url, want string }{
		{web.URL + "/mcp", "404 Not Found"},
		{"http://127.0.0.1:1/mcp", "nothing listens at 127.0.0.1:1"},
	} {
		p := startMain(t, "connect", test.url)
		p.await("connecting to " + strings.TrimSuffix(test.url, "/mcp"))
		p.await(test.want)
		if status := p.stop(os.Interrupt); status != 0 {
			t.Errorf("%s: status %d, %s", test.url, status, p.said())
		}
		if out, _ := io.ReadAll(p.stdout); len(out) > 0 {
			t.Errorf("%s: standard output has %q", test.url, out)
		}
	}
}
