package down

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// maxLosses is how many sessions a subscription may lose in a row before it
	// ends, and steady is how long one must last for that to start over.
	maxLosses = 5
	steady    = time.Minute

	// lossPause is the wait before the third session in a row; it doubles.
	lossPause = 100 * time.Millisecond
)

// A filter says of which changes a client wants to hear.
type filter struct {
	Tools     bool     `json:"toolsListChanged,omitempty"`
	Prompts   bool     `json:"promptsListChanged,omitempty"`
	Resources bool     `json:"resourcesListChanged,omitempty"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
}

func (f *filter) empty() bool { return !f.Tools && !f.Prompts && !f.Resources && len(f.URIs) == 0 }

// wants tells whether a notification is one of those. An updated resource may be
// a part of the one that was subscribed to.
func (f *filter) wants(note *dragoman.Message) bool {
	switch note.Method() {
	case protocol.NoteToolsChanged:
		return f.Tools
	case protocol.NotePromptsChanged:
		return f.Prompts
	case protocol.NoteResourcesChanged:
		return f.Resources
	}
	uri := note.URI()
	return slices.ContainsFunc(f.URIs, func(whole string) bool {
		rest, ok := strings.CutPrefix(uri, whole)
		return ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(whole, "/"))
	})
}

// A listen is one subscription. What it is to tell waits here until its own
// request tells it, since the client may be told nothing after that has returned.
type listen struct {
	wanted filter
	kept   filter        // what the session it is in has honoured
	wake   chan struct{} // holds one token when something waits

	mu      sync.Mutex
	waiting []*dragoman.Message
	at      map[event]int // where each stands in waiting
	dropped int
}

// An event is a change that a notification tells of.
type event struct{ method, uri string }

// listen serves a subscription on the goroutine that brought it.
func (s *Server) listen(ctx context.Context, r *request) (*dragoman.Message, error) {
	var params struct {
		Notifications *filter `json:"notifications"`
	}
	if !decodes(r.Message, &params) || params.Notifications == nil {
		return r.Fail(invalid("params.notifications must be an object that says of which changes to tell, such as " +
			`{"toolsListChanged":true}`)), nil
	}
	l := &listen{wanted: *params.Notifications, wake: make(chan struct{}, 1)}
	if r.from == nil {
		l.wanted = filter{} // nobody would hear it
	}
	v, err := s.pool.get(ctx, r, false)
	if err != nil {
		return s.failed(ctx, r, err)
	}
	if err := v.enlist(ctx, l); err != nil {
		s.pool.release(v, false)
		return s.failed(ctx, r, err)
	}
	info := v.info
	s.acknowledge(ctx, r, l)
	for opened, losses := time.Now(), 0; !l.kept.empty() && v != nil; {
		select {
		case <-l.wake:
			l.deliver(ctx, r, v)
			continue
		case <-v.conn.Done():
		case <-ctx.Done():
		case <-s.ctx.Done():
		}
		v.dismiss(l)
		s.pool.release(v, false)
		v = nil
		if time.Since(opened) > steady {
			losses = 0
		}
		for losses < maxLosses && v == nil && ctx.Err() == nil && s.ctx.Err() == nil {
			losses++
			v = s.listenAgain(ctx, r, l, losses)
		}
		opened = time.Now()
	}
	if v != nil {
		v.dismiss(l)
		s.pool.release(v, false)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	meta := map[string]any{protocol.MetaSubscriptionID: r.ID()}
	if info != nil {
		meta[protocol.MetaServerInfo] = info
	}
	return r.Reply(map[string]any{"resultType": protocol.ResultComplete, "_meta": meta})
}

// acknowledge tells the client what it will hear of.
func (s *Server) acknowledge(ctx context.Context, r *request, l *listen) {
	note, err := dragoman.NewNotification(protocol.NoteAcknowledged, map[string]any{
		"notifications": l.kept, "_meta": map[string]any{protocol.MetaSubscriptionID: r.ID()},
	})
	if err == nil && r.from != nil {
		_ = r.from.Notify(ctx, note) // who cannot be told has gone, which ctx will say
	}
}

// listenAgain moves a subscription whose session is lost to another. What may have
// changed meanwhile is told as changed. It returns nil if that failed.
func (s *Server) listenAgain(ctx context.Context, r *request, l *listen, losses int) *session {
	if losses > 1 {
		select {
		case <-time.After(lossPause << (losses - 2)):
		case <-ctx.Done():
			return nil
		case <-s.ctx.Done():
			return nil
		}
	}
	before := l.kept
	v, err := s.pool.get(ctx, r, false)
	if err != nil {
		return nil
	}
	if err := v.enlist(ctx, l); err != nil {
		s.pool.release(v, false)
		return nil
	}
	hint := func(method string, params any) {
		if note, err := dragoman.NewNotification(method, params); err == nil {
			l.put(note)
		}
	}
	if l.kept.Tools = l.kept.Tools && before.Tools; l.kept.Tools {
		hint(protocol.NoteToolsChanged, nil)
	}
	if l.kept.Prompts = l.kept.Prompts && before.Prompts; l.kept.Prompts {
		hint(protocol.NotePromptsChanged, nil)
	}
	if l.kept.Resources = l.kept.Resources && before.Resources; l.kept.Resources {
		hint(protocol.NoteResourcesChanged, nil)
	}
	for _, uri := range l.kept.URIs {
		hint(protocol.NoteResourceUpdated, map[string]string{"uri": uri})
	}
	return v
}
