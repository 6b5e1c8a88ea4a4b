package checklist

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/toolhttp"
)

const jsonType = "application/json"

// An exchange is what came back for a plain HTTP request.
type exchange struct {
	status int
	header http.Header
	body   string
}

// send makes a request that is not our client's. header are pairs.
func send(t *testing.T, method, url, body string, header ...string) exchange {
	t.Helper()
	a, err := try(t.Context(), method, url, body, header...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// try is send for goroutines that cannot end the test.
func try(ctx context.Context, method, url, body string, header ...string) (exchange, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return exchange{}, err
	}
	req.Close = true
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return exchange{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return exchange{resp.StatusCode, resp.Header, string(text)}, err
}

// post posts JSON.
func post(t *testing.T, url, body string) exchange {
	t.Helper()
	return send(t, http.MethodPost, url, body, "Content-Type", jsonType)
}

// scripted is a server that answers everything in one way.
func scripted(t *testing.T, status int, contentType, body string) string {
	t.Helper()
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}), nil)
}

func callIsOnePost(t *testing.T) {
	type seen struct {
		*http.Request
		body string
	}
	got := make(chan seen, 8)
	tools := &toolhttp.Server{Requests: builtIn()}
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- seen{r.Clone(context.Background()), string(body)}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		tools.ServeHTTP(w, r)
	}), tools.Shutdown)
	header := http.Header{"Authorization": {"Bearer t0ken"}, "X-Tenant": {"a", "b"}, "Content-Type": {"text/plain"}}
	for _, stream := range []bool{false, true} {
		conn := dial(t, &toolhttp.Client{URL: url, Header: header, Stream: stream})
		for _, id := range []string{`1`, `"two"`} {
			req := request(t, id, "echo", `{"text":"x"}`)
			wantText(t, ask(t, conn, req), id, "x")
			r := wait(t, got, "the request")
			if len(got) > 0 {
				t.Fatalf("the call is %d requests, want one", len(got)+1)
			}
			if r.Method != http.MethodPost || len(r.Header.Values("Content-Type")) != 1 || r.Header.Get("Content-Type") != jsonType {
				t.Errorf("%s with Content-Type %q, want POST with %s", r.Method, r.Header.Values("Content-Type"), jsonType)
			}
			if r.Header.Get("Authorization") != "Bearer t0ken" || strings.Join(r.Header.Values("X-Tenant"), ",") != "a,b" {
				t.Errorf("the configured headers are missing: %v", r.Header)
			}
			if wantFit(t, toolRequestSchema, r.body); r.body != req.String() {
				t.Errorf("the body is %s, want %s", r.body, req)
			}
		}
	}
	if a := send(t, http.MethodPost, url, request(t, `1`, "echo", `{"text":"x"}`).String(), "Content-Type", "text/plain"); a.status != http.StatusUnsupportedMediaType {
		t.Errorf("a POST that is not JSON gets %d %s", a.status, a.body)
	}
}

func statusesBecomeErrors(t *testing.T) {
	// The server's side: what it says has the status that fits.
	url := serveTools(t, builtIn())
	for _, c := range []struct {
		body   string
		status int
	}{
		{request(t, `1`, "echo", `{"text":"x"}`).String(), http.StatusOK},
		{request(t, `1`, "test_error_handling", `{}`).String(), http.StatusOK}, // a result that says isError
		{`not JSON`, http.StatusBadRequest},
		{request(t, `1`, "echo", `{"text":7}`).String(), http.StatusBadRequest},
		{request(t, `1`, "no_such", `{}`).String(), http.StatusNotFound},
		{request(t, `1`, "raise", `{"code":4711,"message":"x"}`).String(), http.StatusInternalServerError},
		{request(t, `1`, "raise", `{"code":-31004,"message":"x"}`).String(), http.StatusServiceUnavailable},
	} {
		a, want := post(t, url, c.body), toolErrorSchema
		if c.status == http.StatusOK {
			want = toolResponseSchema
		}
		if a.status != c.status || a.header.Get("Content-Type") != jsonType || !fits(want, a.body) {
			t.Errorf("%s gets %d %s, want %d", c.body, a.status, a.body, c.status)
		}
	}

	// The client's: a tool error passes, and where there is none it makes one.
	own := `{"jsonrpc":"2.0","id":1,"error":{"code":-5,"message":"no such printer","data":{"a":1.0}}}`
	for _, c := range []struct {
		status     int
		kind, body string
		code       int
		says       string
	}{
		{404, jsonType, own, -5, "no such printer"},
		{500, jsonType, own, -5, "no such printer"},
		{400, "text/plain", "bad day", protocol.CodeUnavailable, "400 Bad Request: bad day"},
		{401, jsonType, `{"error":"who are you"}`, protocol.CodeUnavailable, "401 Unauthorized"},
		{404, "text/html", "<h1>gone</h1>", protocol.CodeUnavailable, "404 Not Found"},
		{429, "", "", protocol.CodeOverloaded, "429 Too Many Requests"},
		{500, "text/html", "<h1>oops</h1>", protocol.CodeLost, "500 Internal Server Error"},
		{503, "", "", protocol.CodeOverloaded, "503 Service Unavailable"},
		{504, "", "", protocol.CodeTimeout, "504 Gateway Timeout"},
		{301, "", "", protocol.CodeUnavailable, "301"},
		{200, "text/html", "<h1>hello</h1>", protocol.CodeLost, "cannot be read"},
		{200, jsonType, `{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"x"}]}}`, protocol.CodeLost, "another request"},
		{200, jsonType, own, -5, "no such printer"},
	} {
		for _, stream := range []bool{false, true} {
			resp := ask(t, dial(t, &toolhttp.Client{URL: scripted(t, c.status, c.kind, c.body), Stream: stream}), request(t, `1`, "t", `{}`))
			wantError(t, resp, c.code, c.says)
			if c.code == -5 && resp.String() != own {
				t.Errorf("the server's error became %s", resp)
			}
			var data struct{ Status int }
			if _ = json.Unmarshal(resp.RPCError().Data, &data); c.status != http.StatusOK && c.code != -5 && data.Status != c.status {
				t.Errorf("the status %d is told as %s", c.status, resp.RPCError().Data)
			}
		}
	}
}

func connectionsAreKept(t *testing.T) {
	const calls = 20
	call := func(t *testing.T, conn dragoman.Conn) {
		t.Helper()
		for range calls / 2 {
			wantText(t, ask(t, conn, request(t, `1`, "echo", `{"text":"x"}`)), `1`, "x")
			wantError(t, ask(t, conn, request(t, `1`, "raise", `{"code":1,"message":"x"}`)), 1)
		}
	}
	for _, stream := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			opened := 0 // guarded by the calls, which come one after the other
			client := inMemory(t, &toolhttp.Server{Requests: builtIn()})
			transport := client.Transport.(*http.Transport)
			dialMemory := transport.DialContext
			transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				opened++
				return dialMemory(ctx, network, address)
			}
			if call(t, dial(t, &toolhttp.Client{URL: memoryURL, HTTP: client, Stream: stream})); opened != 1 {
				t.Errorf("stream %v: %d calls took %d connections, want one", stream, calls, opened)
			}
		})
		// So it is with the connections that our client makes itself. On a busy
		// machine net/http may give one up: it waits 50 ms for its own goroutine.
		var opened atomic.Int32
		server := httptest.NewUnstartedServer(&toolhttp.Server{Requests: builtIn()})
		server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				opened.Add(1)
			}
		}
		server.Start()
		t.Cleanup(server.Close)
		conn := dial(t, &toolhttp.Client{URL: server.URL, Stream: stream})
		if call(t, conn); opened.Load() > calls/2 {
			t.Errorf("stream %v: %d calls took %d connections", stream, calls, opened.Load())
		}
	}
}

func otherMethodsGet405(t *testing.T) {
	url := serveTools(t, builtIn())
	for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodDelete, "BREW"} {
		for path, allow := range map[string]string{"/": "GET, POST", "/echo": "POST"} {
			a := send(t, method, url+path, `{}`, "Content-Type", jsonType)
			if a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != allow || !fits(toolErrorSchema, a.body) {
				t.Errorf("%s %s gets %d, Allow %q: %s", method, path, a.status, a.header.Get("Allow"), a.body)
			}
		}
	}
	if a := send(t, http.MethodGet, url+"/echo", ""); a.status != http.StatusMethodNotAllowed {
		t.Errorf("GET of a tool gets %d", a.status)
	}
}

func certificatesAreVerified(t *testing.T) {
	var served atomic.Int32
	tools := &toolhttp.Server{Requests: builtIn(), Hosts: []string{"*"}}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		tools.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = quiet()
	server.StartTLS()
	t.Cleanup(server.Close)
	req := request(t, `1`, "echo", `{"text":"x"}`)

	// Nobody vouches for the certificate.
	wantError(t, ask(t, dial(t, &toolhttp.Client{URL: server.URL}), req), protocol.CodeUnavailable, "certificate")
	// It is trusted, but for another name.
	trusting := server.Client().Transport.(*http.Transport).Clone()
	trusting.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}
	t.Cleanup(trusting.CloseIdleConnections)
	client := &http.Client{Transport: trusting}
	wantError(t, ask(t, dial(t, &toolhttp.Client{URL: "https://other.invalid", HTTP: client}), req), protocol.CodeUnavailable, "other.invalid")
	if n := served.Load(); n != 0 {
		t.Fatalf("%d calls reached a server that was not to be trusted", n)
	}
	// It is trusted for this one.
	wantText(t, ask(t, dial(t, &toolhttp.Client{URL: "https://example.com", HTTP: client}), req), `1`, "x")

	if runtime.GOOS != "linux" {
		return // elsewhere the system is asked, not the environment
	}
	roots := filepath.Join(t.TempDir(), "roots.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(roots, text, 0o600); err != nil {
		t.Fatal(err)
	}
	wantText(t, calledFrom(t, server.URL, "SSL_CERT_FILE="+roots), `1`, "x")
	wantError(t, calledFrom(t, server.URL), protocol.CodeUnavailable, "certificate")
}

// calledFrom is the answer that a process with this environment gets.
func calledFrom(t *testing.T, url string, env ...string) *dragoman.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, executable(t), url)
	cmd.Env = append(roleEnvironment("caller"), env...)
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("%v: %s", err, exit.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, strings.TrimSpace(string(out)))
}
