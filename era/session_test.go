package era_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// A forgetfulServer is a legacy server over HTTP that can forget its sessions.
type forgetfulServer struct {
	*httptest.Server
	http streamable.Server

	mu        sync.Mutex
	known     map[string]bool // sessions; false if it was forgotten
	took      map[string]int  // methods of what was not refused
	streams   int             // GETs that were not refused
	forgotten int             // refused with 404
}

func newForgetfulServer(t *testing.T) *forgetfulServer {
	s := &forgetfulServer{known: make(map[string]bool), took: make(map[string]int)}
	s.http.Sessions = builtin.New(&builtin.Options{Revisions: []protocol.Revision{protocol.LatestLegacy}})
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *forgetfulServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if s.refuses(r, body) {
		http.Error(w, "Session not found", http.StatusNotFound)
		return
	}
	s.http.ServeHTTP(w, r)
}

func (s *forgetfulServer) refuses(r *http.Request, body []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id := r.Header.Get(protocol.HeaderSession); id != "" {
		if _, seen := s.known[id]; !seen {
			s.known[id] = true
		}
		if !s.known[id] {
			s.forgotten++
			return true
		}
	}
	if m, err := dragoman.Parse(body); err == nil {
		s.took[m.Method()]++
	}
	if r.Method == http.MethodGet {
		s.streams++
	}
	return false
}

func (s *forgetfulServer) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.known {
		s.known[id] = false
	}
}

func (s *forgetfulServer) count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.took[method]
}

func (s *forgetfulServer) countStreams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams
}

func TestB12_ForgottenSessionIsOpenedAgainAndEveryCallIsCarriedOutOnce(t *testing.T) {
	const calls = 8
	for _, from := range []protocol.Revision{protocol.LatestLegacy, protocol.Latest} {
		t.Run(from.String()+" client", func(t *testing.T) {
			web := newForgetfulServer(t)
			s := start(t, &era.Server{Dialer: &streamable.Client{URL: web.URL}})
			c := join(t, s, from)
			if from.HasSessions() {
				c.must(protocol.MethodSetLevel, `{"level":"error"}`)
				c.must(protocol.MethodSubscribe, `{"uri":"test://watched-resource"}`)
			}
			c.echo()
			opened := web.count(protocol.MethodInitialize)
			web.forget()
			told := callAll(c, calls)
			if got := web.count(protocol.MethodCallTool); got != 1+calls {
				t.Errorf("the server carried out %d calls, want %d", got-1, calls)
			}
			if got := web.count(protocol.MethodInitialize) - opened; got != 1 {
				t.Errorf("%d sessions were opened for the one that was lost", got)
			}
			if told != 1 {
				t.Errorf("%d answers say that the session was renewed, want one", told)
			}
			if !from.HasSessions() {
				return
			}
			if got := web.count(protocol.MethodSetLevel) + web.count(protocol.MethodSubscribe); got != 4 {
				t.Errorf("level and subscription were set %d times, want twice each", got)
			}
			for _, note := range []string{protocol.NoteToolsChanged, protocol.NotePromptsChanged, protocol.NoteResourcesChanged, protocol.NoteResourceUpdated} {
				eventually(t, "the client is told "+note, func() bool { return c.hears(note) })
			}
		})
	}
}

// callAll makes so many calls at once, all of which must succeed. It returns how
// many answers say that the session is a new one.
func callAll(c *client, calls int) (renewed int) {
	var all sync.WaitGroup
	var mu sync.Mutex
	for i := range calls {
		all.Go(func() { // ends with its call
			req, err := dragoman.NewRequest(dragoman.IntID(int64(1000+i)), protocol.MethodCallTool, map[string]any{"name": "echo", "arguments": map[string]string{"text": fmt.Sprint(i)}})
			if err == nil && c.revision.Era() == protocol.Modern {
				req, err = protocol.Envelope{Version: c.revision.String(), Client: []byte(`{"name":"c","version":"1"}`)}.Put(req)
			}
			if err != nil {
				c.t.Error(err)
				return
			}
			resp, err := c.peer.Call(c.t.Context(), req, c)
			if err != nil || resp.IsError() {
				c.t.Errorf("call %d: %v, error %v", i, resp, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if resp.Meta(protocol.MetaRenewed) != nil {
				renewed++
			}
		})
	}
	all.Wait()
	return renewed
}

// A client that waits for news need not ask for anything to have its subscription
// made again: that the background stream cannot be opened any more is enough.
func TestSubscriptionOutlivesASessionThatIsForgottenInSilence(t *testing.T) {
	web := newForgetfulServer(t)
	s := start(t, &era.Server{Dialer: &streamable.Client{URL: web.URL, Retry: &streamable.Retry{Min: 1}}})
	c := join(t, s, protocol.LatestLegacy)
	c.must(protocol.MethodSubscribe, `{"uri":"test://watched-resource"}`)
	eventually(t, "the background stream is open", func() bool { return web.countStreams() > 0 })
	web.forget()
	web.CloseClientConnections()
	eventually(t, "the subscription is made again", func() bool { return web.count(protocol.MethodSubscribe) == 2 })
	eventually(t, "the client is told", func() bool { return c.hears(protocol.NoteResourceUpdated) })
}

// An initialize is kept for as long as its session, so it must not be long.
func TestInitializeThatIsTooLongIsRefused(t *testing.T) {
	for _, server := range []protocol.Revision{protocol.LatestLegacy, protocol.Latest} {
		t.Run(server.String(), func(t *testing.T) {
			u := serving(server)
			c := &client{t: t, revision: protocol.LatestLegacy}
			_, c.conn = dragoman.Pipe(c, nil)
			defer c.conn.Close()
			var err error
			if c.peer, err = start(t, &era.Server{Dialer: u}).Accept(t.Context(), c.conn); err != nil {
				t.Fatal(err)
			}
			hello := func(name string) (*dragoman.Message, error) {
				return c.request(t.Context(), protocol.MethodInitialize, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":%q,"version":"1"}}`, protocol.LatestLegacy, name))
			}
			if code := codeOf(hello(strings.Repeat("x", 300<<10))); code != protocol.CodeInvalidParams {
				t.Errorf("a long one gets %d", code)
			}
			if code := codeOf(hello(strings.Repeat("x", 100<<10))); code != 0 {
				t.Errorf("a shorter one gets %d", code)
			}
			c.echo()
		})
	}
}
