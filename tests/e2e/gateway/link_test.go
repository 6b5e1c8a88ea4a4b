//go:build unix

package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// A flakyServer is a fault server over HTTP that does something else with calls of
// tools, on demand.
type flakyServer struct {
	*fault.Handler
	server *fault.Server
	web    *httptest.Server
	mode   atomic.Pointer[func(http.ResponseWriter)]
	calls  atomic.Int64 // of tools, that arrived
}

func newFlakyServer(t *testing.T, mode string, j fault.Journal) *flakyServer {
	t.Helper()
	m := &flakyServer{server: fault.New(&fault.Options{Revisions: fault.Revisions(mode), Journal: j})}
	m.Handler = m.server.Handler()
	m.web = httptest.NewServer(m)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = m.Shutdown(ctx)
		_ = m.server.Close()
		m.web.CloseClientConnections()
		m.web.Close()
	})
	return m
}

// ServeHTTP implements http.Handler.
func (m *flakyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		m.Handler.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	if msg, err := dragoman.Parse(body); err == nil && msg.Method() == protocol.MethodCallTool {
		m.calls.Add(1)
		if mode := m.mode.Load(); mode != nil {
			(*mode)(w)
			return
		}
	}
	m.Handler.ServeHTTP(w, r)
}

// status returns a mode: an answer with a status.
func status(code int, kind, body string, headers ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// cut breaks the connection with a reset, after the header of an answer or before.
func cut(header bool) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		if header {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}
}

// TestS43_FailedCallsEndAndAreNotSentAgain has an HTTP server answer calls in every
// wrong way.
func TestS43_FailedCallsEndAndAreNotSentAgain(t *testing.T) {
	t.Parallel() // it mostly waits
	modes := map[string]struct {
		do    func(http.ResponseWriter)
		codes []int
	}{
		"reset before the answer": {cut(false), []int{protocol.CodeLost}},
		"reset in the answer":     {cut(true), []int{protocol.CodeLost}},
		"500":                     {status(500, "text/plain", "oops"), nil},
		"502":                     {status(502, "text/html", "<h1>Bad Gateway</h1>"), nil},
		"503 with Retry-After":    {status(503, "text/plain", "later", "Retry-After", "1"), nil},
		"429 with Retry-After":    {status(429, "text/plain", "later", "Retry-After", "1"), nil},
		"401":                     {status(401, "text/plain", "who are you", "WWW-Authenticate", "Bearer"), nil},
		"a web page":              {status(200, "text/html", "<html>hello</html>"), nil},
		"nothing":                 {status(200, "application/json", ""), []int{protocol.CodeLost}},
		"no JSON":                 {status(200, "application/json", "{oops"), nil},
		"a stream that ends":      {status(200, "text/event-stream", ": hello\n\n"), []int{protocol.CodeLost}},
	}
	for _, mode := range []string{fault.Legacy, fault.Modern} {
		t.Run(mode+" server", func(t *testing.T) {
			t.Parallel()
			j := newJournal(t)
			m := newFlakyServer(t, mode, j)
			g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": object{
				server: object{"url": m.web.URL + "/mcp", "timeout": "10s"}, "other": child(t, fault.Legacy, j),
			}}})
			ctx := gatewaytest.Hurry(t, 2*gatewaytest.Patience)
			for name, mode := range modes {
				for _, era := range gatewaytest.Eras {
					t.Run(name+", "+era.String()+" client", func(t *testing.T) {
						c := enter(ctx, t, g, server, gatewaytest.HTTP, era)
						echoes(ctx, t, c, "before")
						before := m.calls.Load()
						m.mode.Store(&mode.do)
						defer m.mode.Store(nil) // also if the test ends here
						done := begin(ctx, c, "count", object{"key": t.Name()})
						var e ending
						select {
						case e = <-done:
						case <-time.After(gatewaytest.Patience):
							t.Fatal("the call has no answer")
						}
						m.mode.Store(nil)
						code, outcome := gatewaytest.Outcome(e.err)
						if code == 0 || outcome == "" && code > -32700 {
							t.Errorf("the call comes to %q, error %v, outcome %q", e.text, e.err, outcome)
						}
						for _, want := range mode.codes {
							if code != want {
								t.Errorf("the call comes to %v, want %d", e.err, want)
							}
						}
						if sent := m.calls.Load() - before; sent != 1 {
							t.Errorf("the call was sent %d times", sent)
						}
						recovers(ctx, t, c)
					})
				}
			}
		})
	}
}

// TestS43_ServersThatCannotBeReached has servers at addresses of every wrong kind.
// Callers are told at once, or when the server has had its time.
func TestS43_ServersThatCannotBeReached(t *testing.T) {
	t.Parallel()                                               // with a gateway of its own
	private := httptest.NewTLSServer(fault.New(nil).Handler()) // signed by nobody whom we know
	defer private.Close()
	j := newJournal(t)
	servers := object{
		"refused": object{"url": "http://" + nobody(t) + "/mcp"},
		"unnamed": object{"url": "http://no-such-host.invalid/mcp"},
		"foreign": object{"url": private.URL + "/mcp"},
		"hole":    object{"url": "http://" + hole(t) + "/mcp", "connectTimeout": "3s"},
		"page":    object{"url": webPage(t) + "/mcp"},
		"other":   child(t, fault.Legacy, j),
	}
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": servers}})
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	for name, limit := range map[string]time.Duration{
		"refused": time.Second, "unnamed": time.Second, "foreign": time.Second, "page": time.Second, "hole": 4 * time.Second,
	} {
		for _, era := range gatewaytest.Eras {
			t.Run(name+", "+era.String()+" client", func(t *testing.T) {
				done := make(chan ending, 1)
				go func() { // ends with the answer, which ctx bounds
					c, err := gatewaytest.Dial(ctx, g.Dialer(name, gatewaytest.HTTP), "guest", era) // a legacy client needs the server for that
					if err == nil {
						_, err = c.Tool(ctx, "echo", object{"text": "hello"})
						_ = c.Conn.Close()
					}
					done <- ending{err: err}
				}()
				fails(t, done, limit, protocol.CodeUnavailable, protocol.OutcomeNotSent)
				echoes(ctx, t, enter(ctx, t, g, "other", gatewaytest.HTTP, era), "meanwhile")
			})
		}
	}
}

// webPage is a web server that has nothing to do with MCP.
func webPage(t *testing.T) string {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		status(200, "text/html", "<html>hello</html>")(w)
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// TestS43_LostSessionIsOpenedAgain has an HTTP server forget its sessions. What only
// reads does not notice, and nothing is carried out twice.
func TestS43_LostSessionIsOpenedAgain(t *testing.T) {
	t.Parallel() // with a gateway of its own
	j := newJournal(t)
	first, second := remote(t, fault.Legacy, j), remote(t, fault.Legacy, j)
	var now atomic.Pointer[http.Handler]
	now.Store(&first.Config.Handler)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*now.Load()).ServeHTTP(w, r) }))
	defer web.Close()
	defer web.CloseClientConnections()
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": object{server: object{"url": web.URL + "/mcp"}, "other": child(t, fault.Legacy, j)}}})
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	for _, era := range gatewaytest.Eras {
		now.Store(&first.Config.Handler)
		c := enter(ctx, t, g, server, gatewaytest.HTTP, era)
		echoes(ctx, t, c, "in the first session")
		now.Store(&second.Config.Handler)
		if _, err := c.Tools(ctx); err != nil {
			t.Errorf("the list of tools of a %s client: %v", era, err)
		}
		recovers(ctx, t, c)
	}
	g.Leave()
}

// TestS46_BadLinksLoseNothing has slow, halting links on both sides.
func TestS46_BadLinksLoseNothing(t *testing.T) {
	t.Parallel() // it mostly waits
	const clients, calls = 10, 10
	bad := gatewaytest.LinkMode{Delay: 20 * time.Millisecond, Piece: 700, Rate: 128 << 10}
	j := newJournal(t)
	upstream := gatewaytest.NewProxy(t, remote(t, fault.Legacy, j).Listener.Addr().String())
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": object{
		server: object{"url": "http://" + upstream.Address() + "/mcp"}, "other": child(t, fault.Legacy, j),
	}}})
	link := gatewaytest.NewProxy(t, strings.TrimPrefix(g.Base, "http://"))
	upstream.Set(bad)
	link.Set(bad)
	ctx, cancel := context.WithTimeout(t.Context(), 3*gatewaytest.Patience)
	defer cancel()
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() { // ends with its calls
			era := gatewaytest.Eras[i%2]
			url := strings.Replace(g.URL(server, "mcp"), strings.TrimPrefix(g.Base, "http://"), link.Address(), 1)
			c, err := gatewaytest.Dial(ctx, &streamable.Client{URL: url, Timeout: -1}, fmt.Sprint("client ", i), era)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Conn.Close()
			for n := range calls {
				key := fmt.Sprintf("bad link, client %d, call %d", i, n)
				if got, err := c.Tool(ctx, "count", object{"key": key}); err != nil || got != key {
					t.Errorf("%s: %q, error %v", key, got, err)
				}
			}
			if got := len(c.Notes(protocol.NoteProgress)); got != calls {
				t.Errorf("client %d was told of progress %d times, want %d", i, got, calls)
			}
		})
	}
	all.Wait()
	if got := len(j.Of(fault.Ran, "")); got != clients*calls {
		t.Errorf("%d calls were carried out, want %d", got, clients*calls)
	}
}
