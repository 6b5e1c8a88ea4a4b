package raw

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// maxAhead is how many processes wait to be used. They take their time to start, and a server
// that is spoken to meanwhile must not want for the processor.
const maxAhead = 3

// A Pool starts the processes of a command, those that are expected ahead of time. One
// goroutine uses it and its Seats.
//
// Some servers bear no second process beside the first: they listen on a port, or lock a file. Such
// a process ends before it answers, and answers when it is alone. From then on no two run at once: a
// conversation that is gone on with gets a process of its own again.
type Pool struct {
	// Processes are all that were started, in the order in which they were used.
	Processes []*Process

	command  *stdio.Command
	expected int        // conversations that will be opened
	spare    []*Process // that nobody has used
	seats    []*Seat    // that have a process
	running  int        // processes that were started since all were ended
	alone    bool       // no two processes can run at once

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

// Open opens a conversation with a process that nobody has spoken to.
func (p *Pool) Open() (*Seat, error) {
	if len(p.spare) == 0 {
		next, err := p.start()
		if err != nil {
			return nil, err
		}
		p.spare = append(p.spare, next)
	}
	s := &Seat{pool: p}
	s.sit(p.spare[0])
	p.spare = slices.Delete(p.spare, 0, 1)
	p.expected = max(0, p.expected-1)
	p.fill()
	return s, nil
}

// clear ends all processes, and waits for that. Their conversations can go on with others.
func (p *Pool) clear() {
	for _, s := range p.seats {
		s.rise()
	}
	for _, unused := range p.spare {
		p.end(unused)
	}
	p.ending.Wait()
	p.seats, p.spare, p.running = nil, nil, 0
}

// end ends a process that nobody uses from then on.
func (p *Pool) end(old *Process) { p.ending.Go(old.Close) }

// Close ends all processes and conversations.
func (p *Pool) Close() {
	p.expected = 0
	p.clear()
}

// A Seat is a conversation with a process of a Pool.
type Seat struct {
	*Process // that it is held with, or was held with last

	pool    *Pool
	seated  bool // its process is there for it
	spoken  bool // it has said something
	talking bool // its opening is over
	hurried bool
	opening []remark   // what has to be said to another process before it is gone on with
	past    []*Message // loose ones of processes before
}

// A remark is a text that was sent, and the id of the answer if one was waited for.
type remark struct {
	text []byte
	id   json.RawMessage
}

var _ Wire = (*Seat)(nil)

// sit gives the seat a process.
func (s *Seat) sit(next *Process) {
	if s.Process != nil {
		s.past = append(s.past, s.Process.Loose()...)
	}
	s.Process, s.seated = next, true
	if s.hurried {
		next.Hurry()
	}
	s.pool.seats = append(s.pool.seats, s)
	s.pool.Processes = append(s.pool.Processes, next)
}

// rise has the seat's process end. It may go on with another one.
func (s *Seat) rise() {
	s.seated = false
	s.pool.end(s.Process)
}

// resume gives a seat another process if its own is gone, and repeats what was said first.
func (s *Seat) resume(ctx context.Context) error {
	if s.seated {
		return nil
	}
	next, err := s.pool.start()
	if err != nil {
		return err
	}
	s.sit(next)
	for _, r := range s.opening {
		if r.id == nil {
			next.Tell(ctx, r.text)
		} else if x := next.Exchange(ctx, r.text, r.id); x.Answer == nil {
			return x.Err
		}
	}
	return nil
}

// do sends a text to the process. If it is the first one, and the process ends, another is tried by
// itself.
func (s *Seat) do(ctx context.Context, said remark, send func(*Process) *Exchange) *Exchange {
	if err := s.resume(ctx); err != nil {
		return &Exchange{Sent: said.text, Err: err}
	}
	first := !s.spoken
	s.spoken = true
	if !s.talking {
		s.talking = !first && said.id != nil
	}
	x := send(s.Process)
	if _, died := errors.AsType[*stdio.ExitError](x.Err); first && died && s.pool.running > 1 {
		s.pool.clear()
		if s.resume(ctx) == nil {
			x = send(s.Process)
			s.pool.alone = x.Answer != nil
		}
	}
	if !s.talking {
		s.opening = append(s.opening, said)
	}
	return x
}

// Exchange implements Wire.
func (s *Seat) Exchange(ctx context.Context, text []byte, id json.RawMessage) *Exchange {
	return s.do(ctx, remark{text, id}, func(p *Process) *Exchange { return p.Exchange(ctx, text, id) })
}

// Hear implements Wire.
func (s *Seat) Hear(ctx context.Context, text []byte, id json.RawMessage) *Exchange {
	return s.do(ctx, remark{text, id}, func(p *Process) *Exchange { return p.Hear(ctx, text, id) })
}

// Tell implements Wire.
func (s *Seat) Tell(ctx context.Context, text []byte) *Exchange {
	return s.do(ctx, remark{text: text}, func(p *Process) *Exchange { return p.Tell(ctx, text) })
}

// All implements Wire.
func (s *Seat) All(ctx context.Context, texts [][]byte, ids []json.RawMessage) []*Exchange {
	s.talking = true
	if err := s.resume(ctx); err != nil {
		list := make([]*Exchange, len(texts))
		for i, text := range texts {
			list[i] = &Exchange{Sent: text, Err: err}
		}
		return list
	}
	return s.Process.All(ctx, texts, ids)
}

// Hurry is that of its Talk.
func (s *Seat) Hurry() {
	s.hurried = true
	s.Process.Hurry()
}

// Loose implements Wire.
func (s *Seat) Loose() []*Message { return slices.Concat(s.past, s.Process.Loose()) }

// Close implements Wire. The process ends meanwhile.
func (s *Seat) Close() {
	if s.seated {
		s.rise()
		s.pool.seats = slices.DeleteFunc(s.pool.seats, func(other *Seat) bool { return other == s })
	}
}
