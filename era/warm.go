package era

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// warmConns are conversations with the server that nobody uses yet.
type warmConns struct {
	server *Server

	mu      sync.Mutex
	list    []warmConn
	filling bool
	closed  bool
}

type warmConn struct {
	conn   dragoman.Conn
	local  *lateBoundPeer
	era    protocol.Era
	passed string // what of a caller was passed on when it was opened
}

// lateBoundPeer is the local peer of a conversation that was opened before it is known who
// will use it. Until then it hears nothing.
type lateBoundPeer struct{ peer atomic.Pointer[dragoman.Peer] }

func (l *lateBoundPeer) set(p dragoman.Peer) {
	if p != nil {
		l.peer.Store(&p)
	}
}

func (l *lateBoundPeer) get() dragoman.Peer {
	if p := l.peer.Load(); p != nil {
		return *p
	}
	return dragoman.NoPeer
}

func (l *lateBoundPeer) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return l.get().Call(ctx, req, from)
}

func (l *lateBoundPeer) Notify(ctx context.Context, note *dragoman.Message) error {
	return l.get().Notify(ctx, note)
}

// take returns a conversation for local, or nil if there is none that does for the
// caller. What was taken is replaced in the background.
func (p *warmConns) take(era protocol.Era, caller *dragoman.Caller, local dragoman.Peer) dragoman.Conn {
	if era == protocol.Legacy {
		defer p.fill()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = slices.DeleteFunc(p.list, func(v warmConn) bool { return v.conn.Err() != nil })
	i := slices.IndexFunc(p.list, func(v warmConn) bool { return v.era == era && v.passed == caller.Passed })
	if i < 0 {
		return nil
	}
	v := p.list[i]
	p.list = slices.Delete(p.list, i, i+1)
	v.local.set(local)
	return v.conn
}

// put keeps a conversation that has not begun.
func (p *warmConns) put(v warmConn) {
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
func (p *warmConns) fill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.filling || p.closed || len(p.list) >= p.server.Warm {
		return
	}
	// Ends when there are enough, when one fails, or with the server.
	p.filling = p.server.busy.Start(func() {
		for p.needsMore() {
			local := new(lateBoundPeer)
			conn, err := p.server.open(p.server.ctx, local)
			if err != nil {
				p.server.log.Warn("no conversation can be opened in advance", "error", err)
				break
			}
			p.put(warmConn{conn: conn, local: local, era: protocol.Legacy})
		}
		p.mu.Lock()
		p.filling = false
		p.mu.Unlock()
	})
}

func (p *warmConns) needsMore() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.closed && len(p.list) < p.server.Warm
}

// close closes them all.
func (p *warmConns) close() {
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
