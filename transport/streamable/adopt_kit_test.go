package streamable_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// A ledger is a store of sessions in memory, which counts. A Server that has died does
// not reach it any more.
type ledger struct {
	mu      sync.Mutex
	records map[string]string
	puts    int
	fails   error
}

func newLedger() *ledger { return &ledger{records: make(map[string]string)} }

func (l *ledger) Put(_ context.Context, id string, record []byte, _ uint64) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records[id] = string(record)
	l.puts++
	return 1, l.fails
}

func (l *ledger) Get(_ context.Context, id string) (record []byte, revision uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text, ok := l.records[id]; ok {
		return []byte(text), 1, l.fails
	}
	return nil, 0, l.fails
}

func (l *ledger) Delete(_ context.Context, id string, _ uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.records, id)
	return l.fails
}

func (l *ledger) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fails = err
}

// written returns how often something was put, and the ids of what is there.
func (l *ledger) written() (puts int, ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.puts, slices.Sorted(maps.Keys(l.records))
}

// edit changes a record.
func (l *ledger) edit(id, old, with string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records[id] = strings.Replace(l.records[id], old, with, 1)
}

// A mortal is what a Server that is killed has of a log: from then on nothing of
// what it does is kept.
type mortal struct {
	eventlog.Log
	mu   sync.Mutex
	dead bool
}

func (m *mortal) die() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
}

func (m *mortal) isDead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

func (m *mortal) Append(ctx context.Context, stream string, after int64, event []byte) (int64, error) {
	if m.isDead() {
		return after + 1, nil
	}
	return m.Log.Append(ctx, stream, after, event)
}

func (m *mortal) Drop(ctx context.Context, stream string) error {
	if m.isDead() {
		return nil
	}
	return m.Log.Drop(ctx, stream)
}

// A hotel is a server whose every guest is heard: it keeps what each conversation
// received. Its tool waits until it is released, or cancelled.
type hotel struct {
	mu      sync.Mutex
	guests  [][]string
	away    error
	closed  bool // refuses to accept
	rev     protocol.Revision
	proceed chan struct{}
	hold    chan struct{} // Accept waits for it, if it is not nil
}

func newHotel() *hotel { return &hotel{proceed: make(chan struct{})} }

func (h *hotel) set(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// heard returns what a conversation was told and asked, by when it began.
func (h *hotel) heard(guest int) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if guest >= len(h.guests) {
		return nil
	}
	return slices.Clone(h.guests[guest])
}

func (h *hotel) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.guests)
}

func (h *hotel) Accept(ctx context.Context, _ dragoman.Conn) (dragoman.Peer, error) {
	h.mu.Lock()
	hold := h.hold
	h.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errors.New("no room")
	}
	guest := len(h.guests)
	h.guests = append(h.guests, nil)
	hear := func(text string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.guests[guest] = append(h.guests[guest], text)
	}
	return dragoman.Funcs{
		OnNotify: func(_ context.Context, note *dragoman.Message) error {
			hear(note.Method())
			return nil
		},
		OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			hear(strings.TrimSpace(req.Method() + " " + req.URI() + strings.Trim(string(req.Get("level")), `"`)))
			return h.call(ctx, req, from)
		},
	}, nil
}

func (h *hotel) call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	h.mu.Lock()
	away, rev := h.away, h.rev
	h.mu.Unlock()
	switch {
	case away != nil:
		return req.Fail(protocol.Unavailable(away)), nil
	case req.Method() == protocol.MethodInitialize:
		version := strings.Trim(string(req.Get("protocolVersion")), `"`)
		if rev != protocol.Unknown {
			version = rev.String()
		}
		return req.Reply(map[string]any{
			"protocolVersion": version, "serverInfo": map[string]string{"name": "x", "version": "1"},
			"capabilities": map[string]any{"tools": map[string]bool{"listChanged": true}, "resources": map[string]bool{"subscribe": true}},
		})
	case req.Name() == "ask":
		q, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodListRoots, nil)
		if err != nil {
			return nil, err
		}
		answer, err := from.Call(ctx, q, nil)
		if err != nil {
			return nil, err
		}
		return req.Reply(map[string]any{"roots": answer.Get("roots")})
	case req.Name() == "talk":
		for _, text := range []string{"one", "two", "three"} {
			note, err := dragoman.NewNotification(protocol.NoteMessage, map[string]string{"level": "info", "data": text})
			if err != nil {
				return nil, err
			}
			if err := from.Notify(ctx, note); err != nil {
				return nil, err
			}
			select {
			case <-h.proceed:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}
	return req.Reply(map[string]string{"said": req.Method()})
}

// serve serves s until the test ends, or stop is called.
func serve(t *testing.T, s *streamable.Server) (*site, func()) {
	t.Helper()
	server := httptest.NewServer(s)
	stop := sync.OnceFunc(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // nobody is waited for
		_ = s.Shutdown(ctx)
		http.DefaultClient.CloseIdleConnections()
		server.CloseClientConnections()
		server.Close()
	})
	t.Cleanup(stop)
	return &site{t: t, url: server.URL}, stop
}

// at returns the client of a session, as it speaks to another site.
func (s *site) at(other *site) *site {
	c := *s
	c.url = other.url
	return &c
}

// until waits until something is so.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}

// streamables calls f for each revision that has sessions over Streamable HTTP.
func streamables(t *testing.T, f func(t *testing.T, rev protocol.Revision)) {
	t.Helper()
	for _, rev := range protocol.Revisions() {
		if rev.HasSessions() && rev.HasStreamableHTTP() {
			t.Run(rev.String(), func(t *testing.T) { f(t, rev) })
		}
	}
}
