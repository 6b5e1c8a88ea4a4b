package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// addressHeader says in these tests where a request comes from.
const addressHeader = "X-Test-Address"

// A limitedGateway is a gateway before a server that counts the calls of tools which come
// to it.
type limitedGateway struct {
	*running
	calls *atomic.Int64
	at    string // its URL, where callers come from where they say
}

// beginLimited starts one. Text is the configuration, in which %s stands for the keys of
// the server "a".
func beginLimited(t *testing.T, text string) *limitedGateway {
	t.Helper()
	built := builtin.New(nil)
	t.Cleanup(func() { _ = built.Close() })
	calls := new(atomic.Int64)
	inner := built.Requests()
	endpoint := &streamable.Server{Requests: dragoman.Funcs{
		OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			if req.Method() == protocol.MethodCallTool {
				calls.Add(1)
			}
			return inner.Call(ctx, req, from)
		},
	}}
	t.Cleanup(func() { _ = endpoint.Close() })
	g := &limitedGateway{running: begin(t, fmt.Sprintf(text, "url: "+serveHTTP(t, endpoint))), calls: calls}
	handler := g.Handler(nil)
	g.at = serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if address := r.Header.Get(addressHeader); address != "" {
			r.RemoteAddr = address + ":1"
		}
		handler.ServeHTTP(w, r)
	}))
	g.ready()
	return g
}

// A reply is what a request over HTTP has come to.
type reply struct {
	status  int
	header  http.Header
	body    string
	code    int
	outcome string
	limit   string
}

// post posts a request from an address.
func (g *limitedGateway) post(path, address, body string, header ...string) (r reply) {
	g.t.Helper()
	req, err := http.NewRequestWithContext(within(g.t), http.MethodPost, g.at+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set(addressHeader, address)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	r = reply{status: resp.StatusCode, header: resp.Header, body: string(text)}
	var m struct {
		Error struct {
			Code int
			Data struct{ Outcome, Limit string }
		}
	}
	if json.Unmarshal(text, &m) == nil {
		r.code, r.outcome, r.limit = m.Error.Code, m.Error.Data.Outcome, m.Error.Data.Limit
	}
	return r
}

const (
	echoParams = `"name":"echo","arguments":{"text":"hello"}`
	hello      = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
)

// open opens a session, and returns its id.
func (g *limitedGateway) open(path, address string) (session string, r reply) {
	g.t.Helper()
	r = g.post(path, address, hello)
	return r.header.Get(protocol.HeaderSession), r
}

// callers are how a tool is called at each endpoint of the server "a" over HTTP, from an
// address.
func (g *limitedGateway) callers(address string) map[string]func() reply {
	g.t.Helper()
	session, r := g.open("/servers/a/mcp", address)
	if session == "" {
		g.t.Fatalf("initialize gets %d %s", r.status, r.body)
	}
	legacy := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{` + echoParams + `}}`
	modern := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{` + echoParams + `,"_meta":{"` + protocol.MetaProtocolVersion + `":"` + protocol.Latest.String() + `","` +
		protocol.MetaClientCapabilities + `":{},"` + protocol.MetaClientInfo + `":{"name":"c","version":"1"}}}}`
	headers := []string{protocol.HeaderVersion, protocol.Latest.String(), protocol.HeaderMethod, "tools/call", protocol.HeaderName, "echo"}
	return map[string]func() reply{
		"legacy": func() reply {
			return g.post("/servers/a/mcp", address, legacy, protocol.HeaderSession, session)
		},
		"modern":            func() reply { return g.post("/servers/a/mcp", address, modern, headers...) },
		"plain":             func() reply { return g.post("/servers/a/call", address, legacy, "Accept", "application/json") },
		"without a session": func() reply { return g.post("/servers/a/messages", address, legacy) },
	}
}

// wantRefused fails the test unless a call was refused in every respect.
func (r reply) wantRefused(t *testing.T, status int, scope, retryAfter string) {
	t.Helper()
	if r.status != status || r.code != protocol.CodeOverloaded || r.outcome != protocol.OutcomeNotSent || r.limit != scope || r.header.Get("Retry-After") != retryAfter {
		t.Errorf("a call gets %d, Retry-After %q, %s; want %d, %q, and a limit of the %s", r.status, r.header.Get("Retry-After"), r.body, status, retryAfter, scope)
	}
	if !strings.Contains(r.body, `"id":7`) {
		t.Errorf("the refusal does not name the request: %s", r.body)
	}
}

func TestCallerOverItsRateIsRefusedAtEveryEndpoint(t *testing.T) {
	g := beginLimited(t, "limits: {ratePerCaller: 20/h}\nservers: {a: {%s}}\n")
	mine, others := g.callers("192.0.2.1"), g.callers("192.0.2.2")
	for range 20 {
		g.post("/servers/a/mcp", "192.0.2.1", hello)
	}
	before := g.calls.Load()
	for name, call := range mine {
		t.Run(name, func(t *testing.T) {
			call().wantRefused(t, http.StatusTooManyRequests, protocol.LimitCaller, "180")
			if r := others[name](); r.status != http.StatusOK || r.code != 0 {
				t.Errorf("another caller gets %d %s", r.status, r.body)
			}
		})
	}
	if n := g.calls.Load() - before; n != int64(len(others)) {
		t.Errorf("%d calls have come to the server, want the %d of the other caller", n, len(others))
	}
	r := g.post("/servers/a/mcp", "192.0.2.1", `{"jsonrpc":"2.0","id":7,"method":"x","params":{"pad":"`+strings.Repeat("x", 100<<10)+`"}}`)
	if r.status != http.StatusTooManyRequests || r.code != protocol.CodeOverloaded || r.header.Get("Retry-After") != "180" {
		t.Errorf("a large request gets %d %s", r.status, r.body)
	}
}

func TestServerAndToolOverTheirRateAre503AtEveryEndpoint(t *testing.T) {
	for _, test := range []struct{ keys, scope, retryAfter string }{
		{"rate: 10/h", protocol.LimitServer, "360"},
		{`tools: {limits: {"e?ho": {rate: 2/h, burst: 10}}}`, protocol.LimitTool, "1800"},
	} {
		t.Run(test.scope, func(t *testing.T) {
			g := beginLimited(t, "servers: {a: {%s, "+test.keys+"}}\n")
			calls := g.callers("192.0.2.1")
			for i := range 10 {
				if r := calls["modern"](); r.status != http.StatusOK || r.code != 0 {
					t.Fatalf("call %d gets %d %s", i, r.status, r.body)
				}
			}
			for _, call := range calls {
				call().wantRefused(t, http.StatusServiceUnavailable, test.scope, test.retryAfter)
			}
			if n := g.calls.Load(); n != 10 {
				t.Errorf("%d calls have come to the server, want 10", n)
			}
			// On sockets, and in the union, it is the same limit.
			for _, era := range eras {
				socket, err := client.Connect(within(t), &client.Server{URL: "ws" + strings.TrimPrefix(g.url, "http") + "/ws"}, &client.Options{Era: &era})
				if err != nil {
					t.Fatal(err)
				}
				defer socket.Close()
				for path, c := range map[string]*client.Client{"ws": socket, "/mcp": g.join("/mcp", era)} {
					if len(toolNames(t, c)) == 0 {
						t.Errorf("%s, %s era: no tools are listed", path, era)
					}
					_, err := c.CallTool(within(t), "a_echo", map[string]string{"text": "x"}, nil)
					if err == nil || !strings.Contains(err.Error(), "too often") {
						t.Errorf("%s, %s era: a call gets %v", path, era, err)
					}
				}
			}
			if n := g.calls.Load(); n != 10 {
				t.Errorf("%d calls have come to the server, want 10", n)
			}
		})
	}
}

func TestSessionOverItsRateIsRefusedAndOthersAreNot(t *testing.T) {
	g := beginLimited(t, "limits: {rate: 5/h}\nservers: {a: {%s}}\n")
	first, second := g.callers("192.0.2.1")["legacy"], g.callers("192.0.2.1")["legacy"]
	for i := range 4 { // and the handshake
		if r := first(); r.code != 0 {
			t.Fatalf("call %d gets %d %s", i, r.status, r.body)
		}
	}
	first().wantRefused(t, http.StatusTooManyRequests, protocol.LimitSession, "720")
	if r := second(); r.code != 0 {
		t.Errorf("a call of another session gets %d %s", r.status, r.body)
	}
}

func TestS38_SessionsOfOneCallerAreBoundedAtEveryEndpoint(t *testing.T) {
	g := beginLimited(t, "limits: {sessions: 20, sessionsPerCaller: 3}\nservers: {a: {%s}}\n")
	var ids []string
	for range 10 {
		id, r := g.open("/servers/a/mcp", "192.0.2.1")
		if id != "" {
			ids = append(ids, id)
		} else if r.status != http.StatusTooManyRequests || r.code != protocol.CodeOverloaded || r.limit != protocol.LimitCaller || r.header.Get("Retry-After") == "" {
			t.Errorf("a session too many gets %d %s", r.status, r.body)
		}
	}
	if len(ids) != 3 {
		t.Fatalf("one caller has %d sessions, want 3", len(ids))
	}
	for _, path := range []string{"/mcp", "/servers/a/sse", "/sse", "/ws"} {
		method := http.MethodGet
		if path == "/mcp" {
			method = http.MethodPost
		}
		req, err := http.NewRequestWithContext(within(t), method, g.at+path, strings.NewReader(hello))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(addressHeader, "192.0.2.1")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
			t.Errorf("a session too many at %s gets %s", path, resp.Status)
		}
	}
	const ping = `{"jsonrpc":"2.0","id":7,"method":"ping"}`
	for _, id := range ids {
		if r := g.post("/servers/a/mcp", "192.0.2.1", ping, protocol.HeaderSession, id); r.status != http.StatusOK || r.code != 0 {
			t.Errorf("a session that there is gets %d %s", r.status, r.body)
		}
	}
	for i := range 5 {
		if id, r := g.open("/mcp", fmt.Sprint("192.0.2.", 10+i)); id == "" {
			t.Errorf("another caller gets %d %s", r.status, r.body)
		}
	}
	req, err := http.NewRequestWithContext(within(t), http.MethodDelete, g.at+"/servers/a/mcp", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(protocol.HeaderSession, ids[0])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	eventually(t, "there is room when a session has ended", func() bool {
		id, _ := g.open("/mcp", "192.0.2.1")
		return id != ""
	})
}

// A socket's conversations count as long as they are open.
func TestSocketsCountAsSessions(t *testing.T) {
	g := beginLimited(t, "limits: {sessionsPerCaller: 2}\nservers: {a: {%s}}\n")
	dial := func() (dragoman.Conn, error) {
		return (&ws.Client{URL: "ws" + strings.TrimPrefix(g.at, "http") + "/ws"}).Dial(within(t), dragoman.NoPeer)
	}
	var open []dragoman.Conn
	for range 2 {
		c, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		// It counts when it is accepted, which is behind the upgrade, and before anything
		// is answered.
		ping, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodPing, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Call(within(t), ping, nil); err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	if c, err := dial(); err == nil || !strings.Contains(err.Error(), "429") {
		t.Errorf("a third one: %v, %v", c, err)
	}
	_ = open[0].Close()
	eventually(t, "there is room when one has ended", func() bool {
		c, err := dial()
		if err == nil {
			defer c.Close()
		}
		return err == nil
	})
}

func TestMemoryThatIsShortRefusesNewWorkOverHTTP(t *testing.T) {
	g := beginLimited(t, "limits: {memory: 1B}\nservers: {a: {%s}}\n")
	id, r := g.open("/mcp", "192.0.2.1")
	if id != "" || r.status != http.StatusServiceUnavailable || r.code != protocol.CodeOverloaded || r.limit != protocol.LimitGateway || r.header.Get("Retry-After") == "" {
		t.Errorf("a session gets %d %s", r.status, r.body)
	}
	if r := g.post("/call", "192.0.2.1", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{`+echoParams+`}}`, "Accept", "application/json"); r.status != http.StatusServiceUnavailable || g.calls.Load() != 0 {
		t.Errorf("a request gets %d %s", r.status, r.body)
	}
	for _, path := range []string{"/healthz", "/readyz", "/status"} {
		if status, body := g.get(path); status != http.StatusOK {
			t.Errorf("%s gets %d %s", path, status, body)
		}
	}
}

// announceBody sends the head of a POST from an address with a body of that length, and returns the
// status that it gets: 100 if the body is to be sent.
func (g *limitedGateway) announceBody(path, address string, length int, header ...string) (int, net.Conn) {
	g.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(g.at, "http://"))
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = c.Close() })
	header = append(header, "Accept: application/json, text/event-stream", "Content-Type: application/json", "Expect: 100-continue", fmt.Sprintf("Content-Length: %d", length))
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\n%s: %s\r\n%s\r\n\r\n", path, addressHeader, address, strings.Join(header, "\r\n"))
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		g.t.Fatal(err)
	}
	status, err := strconv.Atoi(strings.Fields(line)[1])
	if err != nil {
		g.t.Fatal(line)
	}
	return status, c
}

func TestS14_BodiesForWhichThereIsNoRoomAreRefusedAtEveryEndpoint(t *testing.T) {
	const mib = 1 << 20
	g := beginLimited(t, "limits: {memory: 1GiB, message: 200MiB}\nservers:\n  a: {%s}\n")
	paths := []string{"/mcp", "/servers/a/mcp", "/servers/a/messages", "/servers/a/call", "/servers/a/call/echo"}
	for _, path := range paths {
		if status, _ := g.announceBody(path, "192.0.2.9", 150*mib); status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: a body that never fits gets %d", path, status)
		}
	}
	status, first := g.announceBody("/servers/a/mcp", "192.0.2.1", 100*mib)
	if status != http.StatusContinue {
		t.Fatalf("the first gets %d", status)
	}
	for _, path := range paths {
		if status, _ := g.announceBody(path, "192.0.2.1", 50*mib); status != http.StatusTooManyRequests {
			t.Errorf("%s: another of this caller gets %d", path, status)
		}
	}
	if status, _ := g.announceBody("/servers/a/mcp", "192.0.2.2", 128*mib); status != http.StatusContinue {
		t.Errorf("one of another caller gets %d", status)
	}
	for _, path := range paths {
		if status, _ := g.announceBody(path, "192.0.2.3", 50*mib); status != http.StatusServiceUnavailable {
			t.Errorf("%s: one of a third caller gets %d", path, status)
		}
	}
	for name, call := range g.callers("192.0.2.1") {
		if r := call(); r.status != http.StatusOK {
			t.Errorf("%s: a small one gets %d %s", name, r.status, r.body)
		}
	}
	_ = first.Close()
	eventually(t, "the room of one who has left is free", func() bool {
		status, c := g.announceBody("/servers/a/mcp", "192.0.2.1", 50*mib)
		_ = c.Close()
		return status == http.StatusContinue
	})
}
