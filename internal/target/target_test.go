package target_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

func TestD02_ServersAreReachedByTheirSchemeAndTransport(t *testing.T) {
	secret := http.Header{"X-Key": {"hush"}}
	for _, test := range []struct {
		spec target.Spec
		want string // the dialer, or the error
	}{
		{target.Spec{Command: []string{"x", "y"}, Env: []string{"A=hush", "B="}, Inherit: []string{"C"}, Transport: "stdio"}, "*stdio.Command"},
		{target.Spec{URL: "http://h/mcp", Header: secret}, "*streamable.Client"},
		{target.Spec{URL: "HTTP://h/mcp", Transport: "auto"}, "*streamable.Client"},
		{target.Spec{URL: "https://h/mcp", Transport: "http"}, "*streamable.Client"},
		{target.Spec{URL: "https://h/mcp", Transport: "sse"}, "*sse.Client"},
		{target.Spec{URL: "https://h/mcp", Transport: "sse-first"}, "*target.sseFirst"},
		{target.Spec{URL: "https://h/sse/"}, "*target.sseFirst"},
		{target.Spec{URL: "https://h/sse/", Transport: "http"}, "*streamable.Client"},
		{target.Spec{URL: "https://h/ws", Transport: "ws"}, "*ws.Client"},
		{target.Spec{URL: "wss://h/ws", Header: secret}, "*ws.Client"},
		{target.Spec{URL: "tcp:h:1", Transport: "tcp"}, "*stdio.Address"},
		{target.Spec{URL: "unix:s", Transport: "unix"}, "*stdio.Address"},
		{target.Spec{URL: "unix:///s:/mcp", Transport: "http", Header: secret}, "*streamable.Client"},
		{target.Spec{URL: "http+unix:s"}, "*streamable.Client"},

		{target.Spec{}, "Command: no server is named"},
		{target.Spec{Command: []string{""}}, "Command: the command has no program"},
		{target.Spec{Command: []string{"x"}, URL: "http://hush@h/"}, "URL: a URL and a command"},
		{target.Spec{Command: []string{"x"}, Transport: "ws"}, `Transport: transport "ws" is for URLs`},
		{target.Spec{Command: []string{"x"}, Header: secret}, "Header: headers are for URLs"},
		{target.Spec{Command: []string{"x"}, Env: []string{"A=b", "hush"}}, "Env: variable 2 is not"},
		{target.Spec{Command: []string{"x"}, Env: []string{"=hush"}}, "Env: variable 1 is not"},
		{target.Spec{URL: "ftp://hush@h"}, `URL: unknown scheme "ftp"`},
		{target.Spec{URL: "hush:hush@h"}, "URL: the URL of the server cannot be read"},
		{target.Spec{URL: "http://:hush@/"}, "URL: the URL of the server cannot be read"},
		{target.Spec{URL: "ws://hush\x7f"}, "URL: the URL of the server cannot be read"},
		{target.Spec{URL: "unix:"}, "URL: unix: needs the path"},
		{target.Spec{URL: "http+unix:"}, "URL: http+unix: needs the path"},
		{target.Spec{URL: "unix://relative"}, "URL: unix:// needs an absolute path"},
		{target.Spec{URL: "tcp:h"}, "URL: tcp: needs a host and a port"},
		{target.Spec{URL: "tcp:h:1", Header: secret}, "Header: headers are for HTTP"},
		{target.Spec{URL: "http://h", Env: []string{"A=hush"}}, "Env: variables are for commands"},
		{target.Spec{URL: "http://h", Dir: "/"}, "Dir: "},
		{target.Spec{URL: "http://h", User: "nobody"}, "User: "},
		{target.Spec{URL: "http://h", Limits: stdio.ResourceLimits{OpenFiles: 1}}, "User: "},
		{target.Spec{URL: "http://h", Transport: "pigeon"}, `Transport: unknown transport "pigeon": use http-first`},
		{target.Spec{URL: "http://h", Transport: "tcp"}, `Transport: transport "tcp" does not fit a URL that begins with http:`},
		{target.Spec{URL: "ws://h", Transport: "sse-only"}, `Transport: transport "sse-only" does not fit`},
		{target.Spec{URL: "unix:///s", Transport: "unix"}, `use http`},
	} {
		got, err := target.New(&test.spec)
		text := ""
		if e, ok := errors.AsType[*target.SpecError](err); ok {
			text = e.Field + ": " + e.Reason
		} else if err == nil {
			text = fmt.Sprintf("%T", got.Dialer)
		}
		if !strings.Contains(text, test.want) || strings.Contains(fmt.Sprint(text, err), "hush") {
			t.Errorf("%q%s: %s %v, want %s", test.spec.URL, test.spec.Command, text, err, test.want)
		}
	}
}

func TestATargetSaysWhatItIsWithoutSecrets(t *testing.T) {
	for _, test := range []struct {
		spec      target.Spec
		name, how string
		process   bool
	}{
		{target.Spec{Command: []string{"npx", "-y", "weather@1"}}, "weather", "command", true},
		{target.Spec{Name: "mine", Command: []string{"x", "--key=hush"}}, "mine", "command", true},
		{target.Spec{URL: "https://me:hush@mcp.example.com/mcp?key=hush"}, "mcp-example-com", "https", false},
		{target.Spec{Name: "mine", URL: "unix:///run/a.sock:/hush"}, "mine", "http on a Unix socket", false},
		{target.Spec{URL: "tcp:127.0.0.1:1"}, "localhost", "tcp", false},
	} {
		got, err := target.New(&test.spec)
		if err != nil {
			t.Fatal(err)
		}
		if got.Name != test.name || got.How != test.how || got.Process != test.process {
			t.Errorf("%+v: %q %q %v", test.spec, got.Name, got.How, got.Process)
		}
	}
}

func TestErrorsOfDialsDoNotRepeatURLsAndHeaders(t *testing.T) {
	refuse := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }))
	defer refuse.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, base := range []string{refuse.URL, gone.URL} {
		for _, scheme := range []string{"http", "ws"} {
			transports := append([]string{"http", "sse"}, target.Orders...)
			if scheme == "ws" {
				transports = []string{""}
			}
			for _, transport := range transports {
				spec := &target.Spec{URL: scheme + "://me:hush@" + strings.TrimPrefix(base, "http://") + "/mcp?key=hush", Header: http.Header{"X-Key": {"hush"}}, Transport: transport}
				got, err := target.New(spec)
				if err != nil {
					t.Fatal(err)
				}
				if got.Probe != nil {
					if _, err := got.Probe(t.Context()); err == nil || strings.Contains(err.Error(), "hush") {
						t.Errorf("%s %s: the error of a probe is %v", spec.URL, transport, err)
					}
				}
				conn, err := got.Dialer.Dial(t.Context(), nil)
				if err == nil {
					req, _ := dragoman.NewRequest(dragoman.StringID("1"), protocol.MethodPing, nil)
					_, err = conn.Call(t.Context(), req, nil)
					_ = conn.Close()
				}
				if err == nil || strings.Contains(err.Error(), "hush") {
					t.Errorf("%s %s: the error of a call is %v", spec.URL, transport, err)
				}
			}
		}
	}
}

func TestAServerThatSaysNothingIsNotProbedForever(t *testing.T) {
	silent := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-silent:
		case <-r.Context().Done():
		}
	}))
	defer web.Close()
	defer close(silent)
	got, err := target.New(&target.Spec{URL: web.URL, DialTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := got.Probe(t.Context()); err == nil {
		t.Error("silence is taken for an answer")
	}
}

// Servers of Python SDK 1.8 and 1.9 end when a session is deleted. Finding out the
// era opens none where the answer to server/discover tells, and deletes none.
func TestProbeDeletesNoSession(t *testing.T) {
	const python = `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request: Missing session ID"}}`
	for _, test := range []struct {
		name, refusal, transport string
		handshakes               int64
	}{
		{"a refusal in JSON-RPC", python, "", 1},
		{"a refusal in JSON-RPC, after HTTP+SSE", python, "sse-first", 1},
		{"a refusal in plain text", "Missing session ID", "", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			var handshakes, deletes atomic.Int64
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body) // what cannot be read is no message
				m, err := dragoman.Parse(body)
				switch {
				case r.Method == http.MethodDelete:
					deletes.Add(1)
				case err != nil:
					w.WriteHeader(http.StatusMethodNotAllowed)
				case m.Method() == protocol.MethodInitialize:
					handshakes.Add(1)
					w.Header().Set(protocol.HeaderSession, fmt.Sprint("s", handshakes.Load()))
					w.Header().Set("Content-Type", "application/json")
					resp, _ := m.Reply(map[string]any{"protocolVersion": protocol.LatestLegacy.String(), "capabilities": struct{}{}, "serverInfo": struct{}{}})
					_, _ = w.Write(resp.Bytes())
				case r.Header.Get(protocol.HeaderSession) == "":
					http.Error(w, test.refusal, http.StatusBadRequest)
				default:
					w.WriteHeader(http.StatusAccepted)
				}
			}))
			defer web.Close()
			got, err := target.New(&target.Spec{URL: web.URL + "/mcp", Transport: test.transport})
			if err != nil {
				t.Fatal(err)
			}
			if found, err := got.Probe(t.Context()); err != nil || found != protocol.Legacy {
				t.Fatalf("got %v, %v", found, err)
			}
			if n := deletes.Load(); n != 0 {
				t.Errorf("the probe has deleted %d sessions", n)
			}
			s := &era.Server{Dialer: got.Dialer, Probe: got.Probe}
			defer s.Close()
			req, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodDiscover, map[string]any{"_meta": map[string]any{
				protocol.MetaProtocolVersion: protocol.Latest.String(), protocol.MetaClientCapabilities: struct{}{},
			}})
			if err != nil {
				t.Fatal(err)
			}
			if resp, err := s.Requests().Call(t.Context(), req, nil); err != nil || resp.IsError() {
				t.Fatalf("got %v, %v", resp, err)
			}
			if n := handshakes.Load(); n != test.handshakes {
				t.Errorf("probe and first session take %d handshakes, want %d", n, test.handshakes)
			}
			if n := deletes.Load(); n != 0 {
				t.Errorf("%d sessions are deleted before the end", n)
			}
		})
	}
}
