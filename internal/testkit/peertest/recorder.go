package peertest

import (
	"context"
	"fmt"
	"sync"

	"github.com/dragoman-mcp/dragoman"
)

// A handler answers requests.
type handler = func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error)

// handle returns the peer that has a handler for each of some arguments and
// echoes all others.
func (t *test) handle(handlers map[string]handler) dragoman.Funcs {
	return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		if h := handlers[arguments(req)]; h != nil {
			return h(ctx, req, from)
		}
		return t.answer(req, arguments(req))
	}}
}

// A recorder records notifications and requests. It serves as the from of one call,
// or as the peer of one side.
type recorder struct {
	t        *test
	who      string
	onCall   handler // answers questions; if nil they are refused
	received chan *dragoman.Message

	mu      sync.Mutex
	stopped string   // why nothing more may come, or ""
	late    []string // what came nevertheless
}

// recorder makes a recorder. who names it in failures.
func (t *test) recorder(who string, onCall handler) *recorder {
	h := &recorder{t: t, who: who, onCall: onCall, received: make(chan *dragoman.Message, 4096)}
	t.Cleanup(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, m := range h.late {
			t.Errorf("%s %s, but then came %s", h.who, h.stopped, m)
		}
	})
	return h
}

// stop says that nothing more may come, and why.
func (h *recorder) stop(why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = why
}

// record records a message, in time or late.
func (h *recorder) record(m *dragoman.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped != "" {
		h.late = append(h.late, short(m.String()))
		return
	}
	select {
	case h.received <- m:
	default:
		h.late = append(h.late, "more than was sent: "+short(m.String()))
	}
}

func (h *recorder) Notify(_ context.Context, note *dragoman.Message) error {
	h.record(note)
	return nil
}

func (h *recorder) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	h.record(req)
	if h.onCall == nil {
		return req.Fail(&dragoman.Error{Code: -32601, Message: h.who + " takes no questions"}), nil
	}
	return h.onCall(ctx, req, from)
}

// next waits for the next message.
func (h *recorder) next(what string) *dragoman.Message {
	h.t.Helper()
	return receive(h.t, h.received, h.who+" receives "+what)
}

// all returns what has come and not been taken.
func (h *recorder) all() []*dragoman.Message {
	var list []*dragoman.Message
	for {
		select {
		case m := <-h.received:
			list = append(list, m)
		default:
			return list
		}
	}
}

// wantNothing fails the test if something has come.
func (h *recorder) wantNothing() {
	h.t.Helper()
	for _, m := range h.all() {
		h.t.Errorf("%s received what is not meant for it: %s", h.who, short(m.String()))
	}
}

// callWith calls with h as the from, which must receive nothing once Call
// has returned.
func (t *test) callWith(to dragoman.Peer, req *dragoman.Message, h *recorder) <-chan outcome {
	return h.during(t.ctx, to, req)
}

func (h *recorder) during(ctx context.Context, to dragoman.Peer, req *dragoman.Message) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		resp, err := to.Call(ctx, req, h)
		h.stop(fmt.Sprintf("belongs to the call %v, which has returned", req.ID()))
		done <- outcome{resp, err}
	}()
	return done
}

// A gate holds handlers until they are let through, each by its own key.
type gate struct {
	arrived chan string

	mu    sync.Mutex
	gates map[string]chan struct{}
}

func newGate() *gate {
	return &gate{arrived: make(chan string, 4096), gates: make(map[string]chan struct{})}
}

func (g *gate) of(key string) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gates[key] == nil {
		g.gates[key] = make(chan struct{})
	}
	return g.gates[key]
}

// pass announces key and waits until it is let through or ctx ends.
func (g *gate) pass(ctx context.Context, key string) error {
	ch := g.of(key)
	g.arrived <- key
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// open lets key through, now or when it arrives.
func (g *gate) open(key string) { close(g.of(key)) }

// awaitArrivals waits until n handlers have arrived.
func (t *test) awaitArrivals(g *gate, n int) {
	t.Helper()
	for i := range n {
		receive(t, g.arrived, fmt.Sprintf("request %d of %d reaches the callee while the others are in flight", i+1, n))
	}
}

// gated answers with the arguments once g lets them through.
func (t *test) gated(g *gate) dragoman.Funcs {
	return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		if err := g.pass(ctx, arguments(req)); err != nil {
			return nil, err
		}
		return t.answer(req, arguments(req))
	}}
}
