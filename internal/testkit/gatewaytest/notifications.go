package gatewaytest

import (
	"context"
	"fmt"
	"sync"

	"github.com/dragoman-mcp/dragoman"
)

// Notifications remembers the notifications that a client is told. The zero value has
// heard nothing. Its Notify is that of a dragoman.Peer.
type Notifications struct {
	mu    sync.Mutex
	heard []*dragoman.Message // in order; guarded by mu
	news  chan struct{}       // closed by the next notification; nil if nobody waits; guarded by mu
}

// Notify implements dragoman.Peer.
func (e *Notifications) Notify(_ context.Context, note *dragoman.Message) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, note)
	if e.news != nil {
		close(e.news)
		e.news = nil
	}
	return nil
}

// News returns what the next notification closes. Who looks at the notes after
// this misses none.
func (e *Notifications) News() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.news == nil {
		e.news = make(chan struct{})
	}
	return e.news
}

// Notes returns what was heard of a method.
func (e *Notifications) Notes(method string) (notes []*dragoman.Message) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, n := range e.heard {
		if n.Method() == method {
			notes = append(notes, n)
		}
	}
	return notes
}

// Forget begins a new chapter: what was heard before does not count.
func (e *Notifications) Forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = nil
}

// Add waits until something of a method was heard.
func (e *Notifications) Add(ctx context.Context, method string) error {
	_, err := e.ReceiveAll(ctx, method, 1)
	return err
}

// ReceiveAll waits until enough notifications of a method were received, and returns them. It reads each one once:
// there may be thousands of others.
func (e *Notifications) ReceiveAll(ctx context.Context, method string, enough int) (notes []*dragoman.Message, err error) {
	for seen := 0; ; {
		news := e.News()
		e.mu.Lock()
		if seen > len(e.heard) { // they were forgotten
			seen, notes = 0, nil
		}
		for _, n := range e.heard[seen:] {
			if n.Method() == method {
				notes = append(notes, n)
			}
		}
		seen = len(e.heard)
		e.mu.Unlock()
		if len(notes) >= enough {
			return notes, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return notes, fmt.Errorf("heard %s %d times, not %d times: %w", method, len(notes), enough, context.Cause(ctx))
		}
	}
}
