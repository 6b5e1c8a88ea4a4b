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

// pings detects that the other side is gone. It has a timer instead
// of a goroutine: most sockets are idle most of the time.
type pings struct {
	socket   *socket
	interval time.Duration
	timeout  time.Duration

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

func (p *pings) start(s *socket, interval, timeout time.Duration) {
	p.socket, p.interval, p.timeout = s, interval, timeout
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(interval, p.ping)
}

func (p *pings) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if p.timer != nil {
		p.timer.Stop()
	}
}

// ping sends a ping and closes the connection if nothing is read in time. Anything
// counts as an answer; while Read is not running, none can be seen.
func (p *pings) ping() {
	s := p.socket
	reads, reading := s.wire.reads.Load(), s.reading.Load()
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	err := s.ws.Ping(ctx)
	if err != nil && ctx.Err() != nil && reading && s.reading.Load() && s.wire.reads.Load() == reads {
		_ = s.setReason(closeReason{noCode, "", errNoPong})
		s.wire.cut() // makes Read return
		return
	}
	// If the ping could not be written, another write is under way, which has a
	// limit of its own; or the socket is closed, and stop is called.
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopped {
		p.timer.Reset(p.interval)
	}
}
