package era

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// spares are conversations with the server that nobody uses yet.
type spares struct {
	server *Server

	mu      sync.Mutex
	list    []spare
	filling bool
	closed  bool
}

type spare struct {
	conn   dragoman.Conn
	local  *lent
	era    protocol.Era
	passed string // what of a caller was passed on when it was opened
}

// lent is the local peer of a conversation that was opened before it is known who
// will use it. Until then it hears nothing.
type lent struct{ peer atomic.Pointer[dragoman.Peer] }

func (l *lent) to(p dragoman.Peer) {
	if p != nil {
		l.peer.Store(&p)
	}
}

func (l *lent) get() dragoman.Peer {
	if p := l.peer.Load(); p != nil {
		return *p
	}
	return dragoman.Nobody
}

func (l *lent) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return l.get().Call(ctx, req, from)
}

func (l *lent) Notify(ctx context.Context, note *dragoman.Message) error {
	return l.get().Notify(ctx, note)
}

// take returns a conversation for local, or nil if there is none that does for the
// caller. What was taken is replaced in the background.
func (p *spares) take(era protocol.Era, caller *dragoman.Caller, local dragoman.Peer) dragoman.Conn {
	if era == protocol.Legacy {
		defer p.fill()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = slices.DeleteFunc(p.list, func(v spare) bool { return v.conn.Err() != nil })
	i := slices.IndexFunc(p.list, func(v spare) bool { return v.era == era && v.passed == caller.Passed })
	if i < 0 {
		return nil
	}
	v := p.list[i]
	p.list = slices.Delete(p.list, i, i+1)
	v.local.to(local)
	return v.conn
}

// put keeps a conversation that has not begun.
func (p *spares) put(v spare) {
	p.mu.Lock()
	keep := !p.closed
	if keep {
		p.list = append(p.list, v)
	}
	p.mu.Unlock()
	if !keep {
		p.server.discard(v.conn)
	}
}

// fill opens conversations until there are as many as wanted. It gives up when
// one does not open, until the next one is taken.
func (p *spares) fill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.filling || p.closed || len(p.list) >= p.server.Warm {
		return
	}
	// Ends when there are enough, when one fails, or with the server.
	p.filling = p.server.busy.Start(func() {
		for p.wanting() {
			local := new(lent)
			conn, err := p.server.open(p.server.ctx, local)
			if err != nil {
				p.server.log.Warn("no conversation can be opened in advance", "error", err)
				break
			}
			p.put(spare{conn: conn, local: local, era: protocol.Legacy})
		}
		p.mu.Lock()
		p.filling = false
		p.mu.Unlock()
	})
}

func (p *spares) wanting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.closed && len(p.list) < p.server.Warm
}

// close closes them all.
func (p *spares) close() {
	p.mu.Lock()
	p.closed = true
	list := p.list
	p.list = nil
	p.mu.Unlock()
	var closing sync.WaitGroup
	for _, v := range list {
		closing.Go(func() { _ = v.conn.Close() })
	}
	closing.Wait()
}
