package ws

import (
	"context"
	"sync"
	"time"
)

// Defaults of Server and Client.
const (
	// DefaultPingInterval is how often the other side is pinged.
	DefaultPingInterval = 25 * time.Second

	// DefaultWriteTimeout is how long one write may take, and how long the other
	// side may be silent after a ping.
	DefaultWriteTimeout = 30 * time.Second
)

// pings is what finds out that the other side is gone. It has a timer instead
// of a goroutine: most sockets are idle most of the time.
type pings struct {
	socket *socket
	every  time.Duration
	within time.Duration

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

func (p *pings) start(s *socket, every, within time.Duration) {
	p.socket, p.every, p.within = s, every, within
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(every, p.ping)
}

func (p *pings) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if p.timer != nil {
		p.timer.Stop()
	}
}

// ping asks for a sign of life. Anything that comes is one; and where nobody
// reads, none can be seen.
func (p *pings) ping() {
	s := p.socket
	heard, reading := s.wire.heard.Load(), s.reading.Load()
	ctx, cancel := context.WithTimeout(context.Background(), p.within)
	defer cancel()
	err := s.ws.Ping(ctx)
	if err != nil && ctx.Err() != nil && reading && s.reading.Load() && s.wire.heard.Load() == heard {
		_ = s.because(verdict{lost, "", errSilent})
		s.wire.cut() // makes Read return
		return
	}
	// That the ping could not be written means that somebody else writes, and
	// that has a limit of its own; or that the socket is closed, and then stop
	// comes.
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopped {
		p.timer.Reset(p.every)
	}
}
