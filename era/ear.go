package era

import (
	"context"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
)

// An ear is the local peer of a conversation that was opened before it is known
// who will use it. Until then it hears nothing.
type ear struct{ peer atomic.Pointer[dragoman.Peer] }

func (e *ear) lend(p dragoman.Peer) {
	if p != nil {
		e.peer.Store(&p)
	}
}

func (e *ear) get() dragoman.Peer {
	if p := e.peer.Load(); p != nil {
		return *p
	}
	return dragoman.Nobody
}

func (e *ear) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return e.get().Call(ctx, req, from)
}

func (e *ear) Notify(ctx context.Context, note *dragoman.Message) error {
	return e.get().Notify(ctx, note)
}
