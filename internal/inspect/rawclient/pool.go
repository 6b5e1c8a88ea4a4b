package rawclient

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// maxAhead is how many processes wait to be used. They take their time to start, and a server
// that is in use meanwhile needs the processor.
const maxAhead = 3

// A Pool starts the processes of a command, those that are expected ahead of time. One
// goroutine uses it and its PoolConns.
//
// Some servers allow no second process beside the first: they listen on a port, or lock a file. Such
// a process ends before it answers, and answers when it is alone. From then on no two run at once: a
// conversation that is gone on with gets a process of its own again.
type Pool struct {
	// Processes are all that were started, in the order in which they were used.
	Processes []*Process

	command  *stdio.Command
	expected int         // conversations that will be opened
	spare    []*Process  // that nobody has used
	conns    []*PoolConn // that have a process
	running  int         // processes that were started since all were ended
	alone    bool        // no two processes can run at once

	ending sync.WaitGroup // processes whose conversations are closed
}

// NewPool returns a Pool of a command. Nothing is started.
func NewPool(c *stdio.Command) *Pool { return &Pool{command: c} }

// Expect says how many more conversations will be opened. They are begun by Open all the same if
// their processes cannot be started yet. Call it when the first process has answered: a command may
// install the server, which two cannot do at once.
func (p *Pool) Expect(n int) {
	p.expected += n
	p.fill()
}

// Allow says how long processes that are started from now on may take to end.
func (p *Pool) Allow(grace time.Duration) { p.command.Grace = grace }

// Last returns the process that was used last, once those are over that are being ended.
func (p *Pool) Last() *Process {
	p.ending.Wait()
	return p.Processes[len(p.Processes)-1]
}

// Settle waits for the processes whose conversations are closed.
func (p *Pool) Settle() { p.ending.Wait() }

// fill starts processes that are expected.
func (p *Pool) fill() {
	for !p.alone && len(p.spare) < min(p.expected, maxAhead) {
		next, err := p.start()
		if err != nil {
			return // who opens the conversation is told
		}
		p.spare = append(p.spare, next)
	}
}

func (p *Pool) start() (*Process, error) {
	if p.alone {
		p.clear()
	}
	next, err := Start(p.command)
	if err != nil {
		return nil, err
	}
	p.running++
	return next, nil
}

// Open opens a conversation with a process that nobody has used, which is a *PoolConn.
func (p *Pool) Open(context.Context) (Wire, error) {
	if len(p.spare) == 0 {
		next, err := p.start()
		if err != nil {
			return nil, err
		}
		p.spare = append(p.spare, next)
	}
	s := &PoolConn{pool: p}
	s.attach(p.spare[0])
	p.spare = slices.Delete(p.spare, 0, 1)
	p.expected = max(0, p.expected-1)
	p.fill()
	return s, nil
}

// clear ends all processes, and waits for that. Their conversations can continue with others.
func (p *Pool) clear() {
	for _, s := range p.conns {
		s.detach()
	}
	for _, unused := range p.spare {
		p.end(unused)
	}
	p.ending.Wait()
	p.conns, p.spare, p.running = nil, nil, 0
}

// end ends a process that nobody uses from then on.
func (p *Pool) end(old *Process) { p.ending.Go(old.Close) }

// Close ends all processes and conversations.
func (p *Pool) Close() {
	p.expected = 0
	p.clear()
}

// A PoolConn is a conversation with a process of a Pool.
type PoolConn struct {
	*Process // that it is held with, or was held with last

	pool     *Pool
	attached bool // its process is there for it
	used     bool // it has sent something
	opened   bool // its opening is over
	hurried  bool
	opening  []Request  // what has to be sent to another process before it is gone on with
	earlier  []*Message // loose ones of processes before
}

var _ Wire = (*PoolConn)(nil)

// attach gives the conversation a process.
func (s *PoolConn) attach(next *Process) {
	if s.Process != nil {
		s.earlier = append(s.earlier, s.Process.Loose()...)
	}
	s.Process, s.attached = next, true
	if s.hurried {
		next.Hurry()
	}
	s.pool.conns = append(s.pool.conns, s)
	s.pool.Processes = append(s.pool.Processes, next)
}

// detach ends the process of the conversation, which may continue with another one.
func (s *PoolConn) detach() {
	s.attached = false
	s.pool.end(s.Process)
}

// resume gives the conversation another process if its own is gone, and repeats what was sent first.
func (s *PoolConn) resume(ctx context.Context) error {
	if s.attached {
		return nil
	}
	next, err := s.pool.start()
	if err != nil {
		return err
	}
	s.attach(next)
	for _, r := range s.opening {
		if r.ID == nil {
			next.Notify(ctx, r.Text)
		} else if x := next.Exchange(ctx, r); x.Answer == nil {
			return x.Err
		}
	}
	return nil
}

// do sends a text to the process. If it is the first one, and the process ends, another is tried by
// itself.
func (s *PoolConn) do(ctx context.Context, sent Request, send func(*Process) *Exchange) *Exchange {
	if err := s.resume(ctx); err != nil {
		return &Exchange{Sent: sent.Text, Err: err}
	}
	first := !s.used
	s.used = true
	if !s.opened {
		s.opened = !first && sent.ID != nil
	}
	x := send(s.Process)
	if _, died := errors.AsType[*stdio.ExitError](x.Err); first && died && s.pool.running > 1 {
		s.pool.clear()
		if s.resume(ctx) == nil {
			x = send(s.Process)
			s.pool.alone = x.Answer != nil
		}
	}
	if !s.opened {
		s.opening = append(s.opening, sent)
	}
	return x
}

// Exchange implements Wire.
func (s *PoolConn) Exchange(ctx context.Context, r Request) *Exchange {
	return s.do(ctx, r, func(p *Process) *Exchange { return p.Exchange(ctx, r) })
}

// Notify implements Wire.
func (s *PoolConn) Notify(ctx context.Context, text []byte) *Exchange {
	return s.do(ctx, Request{Text: text}, func(p *Process) *Exchange { return p.Notify(ctx, text) })
}

// All implements Wire.
func (s *PoolConn) All(ctx context.Context, list []Request) []*Exchange {
	s.opened = true
	if err := s.resume(ctx); err != nil {
		return unanswered(list, err)
	}
	return s.Process.All(ctx, list)
}

// Hurry makes its LinkWire wait less.
func (s *PoolConn) Hurry() {
	s.hurried = true
	s.Process.Hurry()
}

// Loose implements Wire.
func (s *PoolConn) Loose() []*Message { return slices.Concat(s.earlier, s.Process.Loose()) }

// Close implements Wire. The process ends meanwhile.
func (s *PoolConn) Close() {
	if s.attached {
		s.detach()
		s.pool.conns = slices.DeleteFunc(s.pool.conns, func(other *PoolConn) bool { return other == s })
	}
}
