package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
)

// observe reports an event that belongs to no request.
func (g *Gateway) observe(e *event.Event) { g.observers.Event(context.Background(), e) }

// close closes the state and the observers, after everything else.
func (g *Gateway) close(cut error) error {
	g.observe(&event.Event{Kind: event.Stop, Reason: reasonOf(cut)})
	err := g.closeState()
	if g.opts.Closed != nil {
		err = errors.Join(err, g.opts.Closed())
	}
	return err
}

// observeReload reports the result of a reload.
func (g *Gateway) observeReload(r *Reloaded) {
	e := &event.Event{Kind: event.Reload, Time: r.At, Failed: r.Failed}
	if r.Failed {
		e.Reason = "the configuration has errors, the previous one stays in force"
	} else {
		c := &r.Changes
		e.Reason = fmt.Sprintf("added %q, replaced %q, removed %q, left out because of errors %d", c.Added, c.Replaced, c.Removed, len(r.LeftOut))
	}
	g.observe(e)
}

func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// deny reports that a request was refused before it came to an endpoint's transport. rule names
// what refused it.
func (g *Gateway) deny(r *http.Request, endpoint, rule string, err error) {
	if len(g.observers) == 0 {
		return
	}
	e := &event.Event{
		Kind: event.Denied, Request: httpframe.RequestID(r.Context()), Method: r.Method, Name: r.URL.Path,
		Rule: rule, Code: http.StatusForbidden, Reason: reasonOf(err), Caller: &dragoman.Caller{},
	}
	if c, err := httpserver.ByAddress(r); err == nil {
		e.Caller = c
	}
	e.Caller.Transport = endpoint
	if refusal, ok := errors.AsType[*httpserver.Refusal](err); ok {
		e.Reason = refusal.Message
		if refusal.Status != 0 {
			e.Code = refusal.Status
		}
	}
	g.observers.Event(r.Context(), e)
}

// openSessions reports when sessions are opened and closed.
type openSessions struct {
	by   event.Observers
	last atomic.Int64 // number of a session

	mu  sync.Mutex
	all map[*event.Event]struct{} // how each was opened; guarded by mu
}

// number returns the number of the next session, which identifies it in output for people.
func (s *openSessions) number() string { return strconv.FormatInt(s.last.Add(1), 10) }

// open reports that a session was opened, and its end when the client is done.
func (s *openSessions) open(ctx context.Context, server string, client dragoman.Conn) {
	if len(s.by) == 0 {
		return
	}
	e := &event.Event{Kind: event.SessionOpened, Time: time.Now(), Request: httpframe.RequestID(ctx), Caller: dragoman.CallerOf(ctx), Server: server}
	s.by.Event(ctx, e)
	s.mu.Lock()
	s.all[e] = struct{}{}
	s.mu.Unlock()
	jsonrpc.AfterDone(client, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.end(e)
	})
}

// end reports the end of a session, once. s.mu is locked, so that nothing is reported after close.
func (s *openSessions) end(e *event.Event) {
	if _, open := s.all[e]; !open {
		return
	}
	delete(s.all, e)
	closed := *e
	closed.Kind, closed.Time, closed.Duration = event.SessionClosed, time.Now(), time.Since(e.Time)
	s.by.Event(context.Background(), &closed)
}

// close reports the end of the sessions whose clients are not done, such as that of a caller's own
// connection.
func (s *openSessions) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.all {
		s.end(e)
	}
}
