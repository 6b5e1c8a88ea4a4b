package era_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// A bothEras is a server of both eras over HTTP, as the official SDKs make one: its legacy side
// may keep no sessions, and then it has no way to ask or tell a client anything.
type bothEras struct {
	*httptest.Server
	http     streamable.Server
	sessions bool

	mu    sync.Mutex
	calls map[protocol.Era]int // of tools
}

func newBothEras(t *testing.T, sessions bool) *bothEras {
	built := builtin.New(nil)
	s := &bothEras{sessions: sessions, calls: make(map[protocol.Era]int)}
	s.http.Sessions, s.http.Requests = built, built.Requests()
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		_ = s.http.Close()
	})
	return s
}

func (s *bothEras) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	req, _ := dragoman.Parse(body)
	modern := req != nil && protocol.IsModern(req)
	if req != nil && req.Method() == protocol.MethodCallTool {
		s.mu.Lock()
		if modern {
			s.calls[protocol.Modern]++
		} else {
			s.calls[protocol.Legacy]++
		}
		s.mu.Unlock()
	}
	switch {
	case modern || s.sessions:
		s.http.ServeHTTP(w, r)
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case req.Kind() != dragoman.Request:
		w.WriteHeader(http.StatusAccepted)
	default:
		w.Header().Set("Content-Type", "application/json")
		resp, err := req.Reply(map[string]any{
			"protocolVersion": protocol.LatestLegacy.String(), "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo": map[string]any{"name": "s", "version": "1"}, "content": []any{},
		})
		if err == nil {
			_, _ = w.Write(resp.Bytes())
		}
	}
}

func (s *bothEras) called(e protocol.Era) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[e]
}

func TestLegacyClientOfAModernServerThatKeepsNoLegacySessionsIsServedInTheModernEra(t *testing.T) {
	legacy, modern := protocol.Legacy, protocol.Modern
	for name, c := range map[string]struct {
		sessions bool
		era      *protocol.Era
		want     protocol.Era
	}{
		"no sessions":                    {false, nil, protocol.Modern},
		"no sessions, but legacy wanted": {false, &legacy, protocol.Legacy},
		"no sessions, and modern wanted": {false, &modern, protocol.Modern},
		"sessions":                       {true, nil, protocol.Legacy},
	} {
		accept := func(s *era.Server) dragoman.Acceptor { return s }
		aggregate := func(s *era.Server) dragoman.Acceptor {
			f := era.NewFrontend(s.Requests(), nil)
			t.Cleanup(func() { _ = f.Close() })
			return f
		}
		for way, endpoint := range map[string]func(*era.Server) dragoman.Acceptor{"alone": accept, "in an aggregate": aggregate} {
			t.Run(name+", "+way, func(t *testing.T) {
				web := newBothEras(t, c.sessions)
				dialer := &streamable.Client{URL: web.URL}
				s := start(t, &era.Server{Dialer: dialer, Era: c.era, Stateless: true, Probe: func(ctx context.Context) (protocol.Era, error) {
					found, err := dialer.Probe(ctx)
					return found.Era, err
				}})
				d := endpoint(s)
				for i := range 3 {
					join(t, d, protocol.LatestLegacy).echo()
					if got := web.called(c.want); got != i+1 {
						t.Errorf("%d calls in the %v era after %d", got, c.want, i+1)
					}
				}
			})
		}
	}
}
