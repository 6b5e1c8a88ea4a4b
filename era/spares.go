package era

import (
	"sync"

	"github.com/dragoman-mcp/dragoman"
)

// spares are conversations with a legacy server that nobody uses yet.
type spares struct {
	server *Server

	mu      sync.Mutex
	list    []spare
	filling bool
	closed  bool
}

type spare struct {
	conn dragoman.Conn
	ear  *ear
}

// take returns a conversation for local, or nil if there is none. What was taken
// is replaced in the background.
func (p *spares) take(local dragoman.Peer) dragoman.Conn {
	defer p.fill()
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.list) > 0 {
		v := p.list[0]
		p.list = p.list[1:]
		if v.conn.Err() == nil {
			v.ear.lend(local)
			return v.conn
		}
	}
	return nil
}

// put keeps a conversation that has not begun.
func (p *spares) put(conn dragoman.Conn, ear *ear) {
	p.mu.Lock()
	keep := !p.closed
	if keep {
		p.list = append(p.list, spare{conn, ear})
	}
	p.mu.Unlock()
	if !keep {
		p.server.discard(conn)
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
			ear := new(ear)
			conn, err := p.server.open(p.server.ctx, ear)
			if err != nil {
				p.server.log.Warn("no conversation can be opened in advance", "error", err)
				break
			}
			p.put(conn, ear)
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
