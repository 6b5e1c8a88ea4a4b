package gatewaytest

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// A Proxy is a link to an address, which can be cut, or be a bad one.
type Proxy struct {
	listener net.Listener
	to       string
	done     chan struct{}

	mu    sync.Mutex
	conns map[net.Conn]struct{} // guarded by mu
	mode  LinkMode              // guarded by mu
	all   sync.WaitGroup
}

// A LinkMode is how a link behaves.
type LinkMode struct {
	Refuse bool // connections are hung up on
	Hole   bool // connections are accepted, and nothing passes any more

	// Delay is how long a piece of data is held up at most; each takes a random
	// part of it. Piece is how many bytes pass at once, and Rate how many in a
	// second; zero means any number.
	Delay       time.Duration
	Piece, Rate int

	// Idle is how long a connection may be silent in both directions before it is
	// cut; zero means no limit. It holds for connections that begin in this mode.
	Idle time.Duration
}

// NewProxy opens a link to an address, which is there until the end of the test.
func NewProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, to: to, conns: map[net.Conn]struct{}{}, done: make(chan struct{})}
	p.all.Go(p.accept) // ends with the listener
	t.Cleanup(p.close)
	return p
}

// Address is where the link begins.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Set changes how the link behaves from now on.
func (p *Proxy) Set(m LinkMode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = m
}

// Cut breaks all connections there are, with a reset, and returns their number.
func (p *Proxy) Cut() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
		n++
	}
	return n
}

func (p *Proxy) close() {
	close(p.done)
	_ = p.listener.Close()
	p.Cut()
	p.all.Wait()
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		mode := p.mode
		p.mu.Unlock()
		if mode.Refuse {
			_ = c.Close()
			continue
		}
		p.all.Go(func() { p.link(c, mode.Idle) }) // ends with the connection
	}
}

func (p *Proxy) link(c net.Conn, idle time.Duration) {
	defer c.Close()
	far, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.to)
	if err != nil {
		return
	}
	defer far.Close()
	p.mu.Lock()
	p.conns[c], p.conns[far] = struct{}{}, struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, c)
		delete(p.conns, far)
	}()
	select {
	case <-p.done: // it came too late for close to see it
		return
	default:
	}
	alive := func() {}
	if idle > 0 {
		silent := time.AfterFunc(idle, func() {
			_ = c.Close()
			_ = far.Close()
		})
		defer silent.Stop()
		alive = func() { silent.Reset(idle) }
	}
	var ways sync.WaitGroup
	for _, pair := range [][2]net.Conn{{c, far}, {far, c}} {
		// Ends when either side is closed.
		ways.Go(func() {
			p.pass(pair[0], pair[1], alive)
			_ = pair[1].(*net.TCPConn).CloseWrite() // the other way may continue
		})
	}
	ways.Wait()
}

// pass copies what comes, as the link's mode is, and says that something came.
func (p *Proxy) pass(from io.Reader, to io.Writer, alive func()) {
	buffer := make([]byte, 64<<10)
	for {
		p.mu.Lock()
		mode := p.mode
		p.mu.Unlock()
		piece := len(buffer)
		if mode.Piece > 0 {
			piece = min(piece, 1+rand.IntN(mode.Piece)) // #nosec G404 -- a bad link, no secret
		}
		n, err := from.Read(buffer[:piece])
		if n > 0 && !p.hold(n) {
			return
		}
		if n > 0 {
			alive()
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// hold keeps a piece of data for as long as the link takes, and reports whether it is
// to be passed on at all.
func (p *Proxy) hold(n int) bool {
	for {
		p.mu.Lock()
		mode := p.mode
		p.mu.Unlock()
		wait := time.Duration(0)
		switch {
		case mode.Hole:
			wait = 10 * time.Millisecond
		default:
			if mode.Delay > 0 {
				wait = rand.N(mode.Delay) // #nosec G404 -- a bad link, no secret
			}
			if mode.Rate > 0 {
				wait += time.Duration(n) * time.Second / time.Duration(mode.Rate)
			}
		}
		if wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-p.done:
				timer.Stop()
				return false
			}
		}
		if !mode.Hole {
			return true
		}
	}
}
