package gateway_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/observe"
	"github.com/dragoman-mcp/dragoman/internal/observe/audit"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// beginAudited starts a gateway of one server that writes down what happens. more are further keys of audit.
func beginAudited(t *testing.T, more string) (g *running, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "audit.log")
	return begin(t, auditedFile(path, startBuiltin(t, protocol.Latest), more)), path
}

func auditedFile(path, url, more string) string {
	return fmt.Sprintf("audit: {file: %q%s}\nservers: {a: {url: %q, tools: {exclude: [add]}}}\n", path, more, url)
}

// written waits for a record, and returns the first one. All that there is must be whole.
func written(t *testing.T, path string, is func(*audit.Record) bool) (found *audit.Record) {
	t.Helper()
	eventually(t, "a record", func() bool {
		if err := audit.Read(func(r *audit.Record) bool {
			if is(r) {
				found = r
			}
			return found == nil
		}, path); err != nil {
			t.Fatal(err)
		}
		return found != nil
	})
	if _, err := audit.Verify(path); err != nil {
		t.Error(err)
	}
	return found
}

func isCall(name string) func(*audit.Record) bool {
	return func(r *audit.Record) bool { return r.Kind == audit.Call && r.Name == name }
}

func TestCallsAreWrittenDownOnEveryPathInBothEras(t *testing.T) {
	for _, era := range eras {
		for path, tool := range map[string]string{"/mcp": "a_echo", "/servers/a/mcp": "echo"} {
			t.Run(era.String()+path, func(t *testing.T) {
				g, file := beginAudited(t, "")
				c := g.join(path, era)
				echo(t, c, tool)
				r := written(t, file, isCall("echo"))
				if r.Method != protocol.MethodCallTool || r.Server != "a" || r.Outcome != audit.Answered || r.Address != "127.0.0.1" || r.Transport != "http" ||
					r.Duration <= 0 || r.In < 50 || r.Out < 50 || r.Request == "" || r.Arguments != "" || time.Since(r.Time) > time.Minute {
					t.Errorf("got %+v", r)
				}
				if r.Client != "guest" || (r.Session == "") != (era == protocol.Modern) {
					t.Errorf("client and session: %+v", r.Caller)
				}
				text, _ := os.ReadFile(file)
				if bytes.Contains(text, []byte("hello")) {
					t.Errorf("it has arguments or results:\n%s", text)
				}
			})
		}
	}
}

// callsIn returns how many calls of tools are written down.
func callsIn(file string) (n int) {
	_ = audit.Read(func(r *audit.Record) bool { // what cannot be read is not counted
		if r.Method == protocol.MethodCallTool {
			n++
		}
		return true
	}, file)
	return n
}

func TestWhatARuleDeniesIsWrittenDownWithTheRule(t *testing.T) {
	g, file := beginAudited(t, "")
	c := g.join("/servers/a/mcp", protocol.Modern)
	if _, err := c.CallTool(within(t), "add", map[string]int{"a": 1, "b": 2}, nil); err == nil || !strings.Contains(err.Error(), "Unknown tool") {
		t.Fatalf("got %v", err)
	}
	if r := written(t, file, isCall("add")); r.Outcome != audit.Denied || r.Rule != "not offered" || r.Code != protocol.CodeInvalidParams {
		t.Errorf("got %+v", r)
	}
	if _, err := c.CallTool(within(t), "nothing", nil, nil); err == nil {
		t.Fatal("there is such a tool")
	}
	if r := written(t, file, isCall("nothing")); r.Outcome != audit.Failed || r.Rule != "" || r.Code == 0 || r.Reason != "" {
		t.Errorf("got %+v", r)
	}
}

func TestWhatARuleDeniesIsWrittenDownAtTheEndpointOfPlainCalls(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	g := begin(t, fmt.Sprintf("audit: {file: %q}\nrules: [allow anyone, deny anyone tools add]\nservers: {a: {url: %q, tools: {exclude: [sum]}}}\n", path, startBuiltin(t, protocol.Latest)))
	for endpoint, name := range map[string]string{"/servers/a/call/": "add", "/call/": "a_add"} {
		for _, accept := range []string{"application/json", "text/event-stream"} {
			req, err := http.NewRequestWithContext(within(t), http.MethodPost, g.url+endpoint+name, strings.NewReader(`{"a":1,"b":2}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", accept)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusNotFound || !strings.Contains(string(body), "unknown tool: "+name) {
				t.Errorf("%s%s gets %s %s", endpoint, name, resp.Status, body)
			}
		}
	}
	if r := written(t, path, isCall("add")); r.Outcome != audit.Denied || r.Rule != "deny anyone tools add" || r.Code != protocol.CodeInvalidParams || r.Transport != "call" || r.Server != "a" {
		t.Errorf("got %+v", r)
	}
	if r := written(t, path, isCall("a_add")); r.Outcome != audit.Refused || r.Transport != "call" {
		t.Errorf("got %+v", r)
	}
	_ = g.Shutdown(within(t))
	if n := callsIn(path); n != 4 {
		t.Errorf("%d calls are written down, want 4", n)
	}
}

func TestWhatNoServerOffersIsWrittenDownOnceWithoutAServer(t *testing.T) {
	for _, era := range eras {
		g, file := beginAudited(t, "")
		c := g.join("/mcp", era)
		for _, name := range []string{"a_add", "nothing"} {
			if _, err := c.CallTool(within(t), name, nil, nil); err == nil {
				t.Fatalf("there is a tool %s", name)
			}
			if r := written(t, file, isCall(name)); r.Outcome != audit.Refused || r.Code != protocol.CodeInvalidParams || !strings.Contains(r.Reason, name) || r.Server != "" || r.Client != "guest" {
				t.Errorf("got %+v", r)
			}
		}
		// What a server answers with an error is not written down twice.
		if _, err := c.CallTool(within(t), "a_echo", map[string]int{"text": 1}, nil); err == nil {
			t.Log("the server takes it")
		}
		_ = g.Shutdown(within(t))
		if n := callsIn(file); n != 3 {
			t.Errorf("%d calls are written down", n)
		}
	}
}

func TestServerThatIsAwayIsWrittenDownAsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	g := begin(t, fmt.Sprintf("audit: %q\nservers: {a: {url: 'http://127.0.0.1:1/mcp', retry: {attempts: 1}}}\n", path))
	s := &session{}
	s.post(t, g.url+"/servers/a/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"`+protocol.MetaProtocolVersion+`":"`+protocol.Latest.String()+`","`+protocol.MetaClientCapabilities+`":{},"`+protocol.MetaClientInfo+`":{"name":"raw","version":"1"}}}}`)
	c, err := client.Connect(within(t), &client.Server{URL: g.url + "/servers/a/mcp", Transport: "http-only"}, &client.Options{Name: "guest", Version: "1"})
	if err == nil {
		_ = c.Close()
	}
	if r := written(t, path, func(r *audit.Record) bool { return r.Kind == audit.Call && r.Outcome != audit.Answered }); r.Outcome != audit.Refused || r.Code != protocol.CodeUnavailable || r.Reason == "" {
		t.Errorf("got %+v", r)
	}
}

func TestSessionsStartStopReloadAndDenialsAreWrittenDown(t *testing.T) {
	g, file := beginAudited(t, "")
	s := open(t, g.url+"/mcp")
	opened := written(t, file, func(r *audit.Record) bool { return r.Kind == audit.SessionOpened })
	if opened.Session == "" || opened.Session == s.id || opened.Transport != "http" {
		t.Errorf("got %+v", opened)
	}
	req, err := http.NewRequestWithContext(within(t), http.MethodDelete, g.url+"/mcp", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(protocol.HeaderSession, s.id)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if r := written(t, file, func(r *audit.Record) bool { return r.Kind == audit.SessionClosed }); r.Session != opened.Session || r.Duration <= 0 {
		t.Errorf("got %+v", r)
	}

	req, err = http.NewRequestWithContext(within(t), http.MethodPost, g.url+"/mcp?token=canary", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", "https://evil.example")
	if resp, err = http.DefaultClient.Do(req); err != nil || resp.StatusCode != http.StatusForbidden {
		t.Fatalf("%v, %v", resp, err)
	}
	resp.Body.Close()
	if r := written(t, file, func(r *audit.Record) bool { return r.Kind == audit.DeniedAtEndpoint }); r.Code != http.StatusForbidden || r.Rule != "host and origin" || r.Name != "/mcp" ||
		r.Method != http.MethodPost || !strings.Contains(r.Reason, "evil.example") || r.Address != "127.0.0.1" {
		t.Errorf("got %+v", r)
	}

	if _, err := g.Reload(); err != nil {
		t.Fatal(err)
	}
	if r := written(t, file, func(r *audit.Record) bool { return r.Kind == audit.Reload }); r.Outcome != audit.Answered {
		t.Errorf("got %+v", r)
	}
	g.write("nonsense: true\n")
	if _, err := g.Reload(); err == nil {
		t.Fatal("it is reloaded")
	}
	written(t, file, func(r *audit.Record) bool { return r.Kind == audit.Reload && r.Outcome == audit.Failed })
	if err := g.Shutdown(within(t)); err != nil {
		t.Fatal(err)
	}
	var first, last *audit.Record
	_ = audit.Read(func(r *audit.Record) bool {
		if r.Kind == audit.Start {
			first = r
		}
		last = r
		return true
	}, file)
	if first == nil || first.Seq != 2 || last.Kind != audit.Stop {
		t.Errorf("it begins with %+v and ends with %+v", first, last)
	}
	text, _ := os.ReadFile(file)
	if bytes.Contains(text, []byte("canary")) || bytes.Contains(text, []byte(s.id)) {
		t.Errorf("there is a secret in it:\n%s", text)
	}
}

func TestArgumentsAreWrittenDownIfThatIsWantedAndSecretsNever(t *testing.T) {
	url, file := startBuiltin(t, protocol.Latest), filepath.Join(t.TempDir(), "audit.log")
	g := begin(t, auditedFile(file, url, ""))
	g.write(auditedFile(file, url, ", arguments: true"))
	if _, err := g.Reload(); err != nil { // takes effect by that
		t.Fatal(err)
	}
	if later := g.Status().Later; len(later) > 0 {
		t.Errorf("%q need a restart", later)
	}
	c, err := client.Connect(within(t), &client.Server{
		URL: g.url + "/servers/a/mcp", Transport: "http-only", Header: http.Header{"Authorization": {"Bearer canary-header"}, "X-Api-Key": {"canary-key"}, "Cookie": {"a=canary-cookie"}},
	}, &client.Options{Name: "guest", Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.CallTool(within(t), "echo", map[string]any{"text": "hello", "password": "canary-1", "nested": map[string]any{"clientSecret": []string{"canary-2"}}}, nil); err != nil {
		t.Fatal(err)
	}
	r := written(t, file, isCall("echo"))
	var arguments map[string]any
	if err := json.Unmarshal([]byte(r.Arguments), &arguments); err != nil || arguments["text"] != "hello" || arguments["password"] != "[redacted]" {
		t.Errorf("%v: %s", err, r.Arguments)
	}
	text, _ := os.ReadFile(file)
	if bytes.Contains(text, []byte("canary")) {
		t.Errorf("there is a secret in it:\n%s", text)
	}
}

func TestCallsAreRefusedWhileTheyCannotBeWrittenDown(t *testing.T) {
	g, file := beginAudited(t, ", onFailure: refuse")
	c := g.join("/servers/a/mcp", protocol.Modern)
	echo(t, c, "echo")
	var started *audit.Record
	written(t, file, func(r *audit.Record) bool {
		if r.Kind == audit.CallStarted && r.Name == "echo" {
			started = r
		}
		return isCall("echo")(r)
	})
	if started == nil || started.Server != "a" || started.Client != "guest" || started.Outcome != "" || started.In == 0 {
		t.Errorf("before the call is written: %+v", started)
	}
	// A directory in the place of the file is an error on every system, for everybody.
	if err := os.Rename(file, file+".moved"); err != nil {
		t.Skip(err)
	}
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	var refusal *dragoman.Error
	if _, err := c.CallTool(within(t), "echo", map[string]string{"text": "x"}, nil); !errors.As(err, &refusal) {
		t.Fatalf("the first call gets %v", err)
	}
	if refusal.Code != protocol.CodeOverloaded || !strings.Contains(string(refusal.Data), protocol.OutcomeNotSent) {
		t.Errorf("got %+v", refusal)
	}
	s := g.Status()
	if state, ok := s.Audit.(*audit.Status); !ok || state.Failure == nil || state.Failure.Error == "" {
		t.Errorf("the status is %+v", s.Audit)
	} else if s.Public(func(string) bool { return true }).Audit != nil {
		t.Error("everybody is told")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an answer", func() bool {
		_, err := c.CallTool(within(t), "echo", map[string]string{"text": "x"}, nil)
		return err == nil
	})
	if err := g.Shutdown(within(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := audit.Verify(file, file+".moved"); err != nil {
		t.Error(err)
	}
}

func TestGatewayDoesNotStartWithAnAuditLogThatItCannotWrite(t *testing.T) {
	peertest.NoLeak(t)
	path := filepath.Join(t.TempDir(), "audit.log")
	g := &running{t: t, path: filepath.Join(t.TempDir(), "dragoman.yaml")}
	g.write(auditedFile(path, "http://127.0.0.1:1", ""))
	other, err := audit.Open(path, &audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	file, _ := g.load()
	if _, err := observe.NewGateway(&gateway.Options{}, file, slog.LevelInfo); err == nil || !strings.Contains(err.Error(), "another process writes it") {
		t.Errorf("got %v", err)
	}
}

// requestsIn returns the requests that are written in a log, as kinds, servers, methods and names.
func requestsIn(t *testing.T, file string) (list []string) {
	t.Helper()
	ids := make(map[string]string)
	if err := audit.Read(func(r *audit.Record) bool {
		if r.Kind == audit.Call || r.Kind == audit.CallStarted {
			list = append(list, strings.Join(strings.Fields(strings.Join([]string{r.Kind, r.Server, r.Method, r.Name, r.Outcome}, " ")), " "))
			if r.Request == "" || ids[r.Request] != "" && ids[r.Request] != r.Method {
				t.Errorf("%s has the request id %q", list[len(list)-1], r.Request)
			}
			ids[r.Request] = r.Method
		}
		return true
	}, file); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestOneRequestToSeveralServersIsOneRecord(t *testing.T) {
	for _, era := range eras {
		for onFailure, want := range map[string][]string{
			"continue": {"call tools/list answered", "call b tools/call echo answered", "call tools/call b_nothing refused"},
			"refuse": {
				"call-started tools/list", "call tools/list answered", "call-started tools/call b_echo", "call b tools/call echo answered",
				"call-started tools/call b_nothing", "call tools/call b_nothing refused",
			},
		} {
			t.Run(era.String()+" "+onFailure, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "audit.log")
				g := begin(t, fmt.Sprintf("audit: {file: %q, onFailure: %s}\nservers: {a: {url: %q}, b: {url: %q}, c: {url: %q}}\n",
					path, onFailure, startBuiltin(t, protocol.Latest), startBuiltin(t, protocol.Latest), startBuiltin(t, protocol.Latest)))
				c := g.join("/mcp", era)
				if _, err := c.Tools(within(t)); err != nil {
					t.Fatal(err)
				}
				echo(t, c, "b_echo")
				if _, err := c.CallTool(within(t), "b_nothing", nil, nil); err == nil {
					t.Error("there is such a tool")
				}
				_ = c.Close()
				_ = g.Shutdown(within(t))
				if got := requestsIn(t, path); !slices.Equal(got, want) {
					t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			})
		}
	}
}

func TestHousekeepingOfASessionIsNotWritten(t *testing.T) {
	for _, era := range eras {
		g, file := beginAudited(t, "")
		c := g.join("/servers/a/mcp", era)
		if err := c.Ping(within(t)); err != nil {
			t.Fatal(err)
		}
		echo(t, c, "echo")
		_ = c.Close()
		_ = g.Shutdown(within(t))
		got := slices.DeleteFunc(requestsIn(t, file), func(r string) bool { return strings.Contains(r, protocol.MethodListTools) }) // which a client may need
		if !slices.Equal(got, []string{"call a tools/call echo answered"}) {
			t.Errorf("%v: got %q", era, got)
		}
	}
}
