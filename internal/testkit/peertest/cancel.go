package peertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

var cancels = []behaviour{
	{"D10 a cancelled call returns and reaches the callee", cancelling, true, cancelReaches},
	{"D09 a deadline is told apart from a cancel", cancelling, true, deadlineApart},
	{"D10 one of many calls is cancelled", cancelling, true, cancelOne},
	{"a call with an ended context returns its cause", 0, true, cancelBefore},
	{"D04 nothing arrives after a cancelled call has returned", cancelling, true, nothingLater},
	// A callee on the caller's goroutine that ignores the cancel has the
	// caller wait.
	{"D04 a callee that ignores the cancel hurts nobody", ownGoroutine, true, cancelIgnored},
	{"all calls are cancelled at once", 0, true, cancelAll},
	{"a call may be cancelled while it is answered", 0, true, cancelRaces},
}

var errGivenUp = errors.New("peertest: the caller gave up")

// blockingPeer answers {"do":"wait"} when its context ends, and says why it ended.
func (t *test) blockingPeer(started chan<- string, ended chan<- error) dragoman.Funcs {
	return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		if arguments(req) != `{"do":"wait"}` {
			return t.answer(req, arguments(req))
		}
		started <- req.Method()
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, context.Cause(ctx)
	}}
}

// noCancelNotes fails the test if the answering side sees a cancel as a notification:
// it is the end of a context.
func (t *test) noCancelNotes(p dragoman.Funcs) dragoman.Funcs {
	p.OnNotify = func(_ context.Context, note *dragoman.Message) error {
		if note.Method() == protocol.NoteCancelled {
			t.Errorf("the callee was told %s, want nothing but the end of its context", note)
		}
		return nil
	}
	return p
}

func cancelReaches(t *test) {
	started, ended := make(chan string, 1), make(chan error, 1)
	to, _ := t.open(dragoman.NoPeer, t.noCancelNotes(t.blockingPeer(started, ended)))
	for _, id := range []string{`1`, `"1"`, `"\u00e9 \/"`} {
		ctx, cancel := context.WithCancelCause(t.ctx)
		done := start(ctx, to, t.request(id, `{"do":"wait"}`), nil)
		receive(t, started, "the request reaches the callee")
		cancel(errGivenUp)
		if o := t.finish(done, "its context has ended"); !errors.Is(o.err, errGivenUp) {
			t.Errorf("the cancelled call %s returned %v, want the error %q", id, o, errGivenUp)
		}
		why := receive(t, ended, "the callee's context ends")
		if !t.opts.Direct && !errors.Is(why, dragoman.ErrCancelled) {
			t.Errorf("the callee's context ended with cause %v, want ErrCancelled", why)
		}
		t.wantWorking(to, `2`)
	}
}

func deadlineApart(t *test) {
	started, ended := make(chan string, 4), make(chan error, 4)
	to, _ := t.open(dragoman.NoPeer, t.blockingPeer(started, ended))
	run := func(ctx context.Context, cancel context.CancelFunc) error {
		t.Helper()
		defer cancel()
		return t.finish(start(ctx, to, t.request(`1`, `{"do":"wait"}`), nil), "its context has ended").err
	}
	const soon = 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.ctx, soon)
	if err := run(ctx, cancel); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		t.Errorf("a call that took too long returned %v, want context.DeadlineExceeded", err)
	}
	errLimit := errors.New("peertest: a limit of ours")
	ctx, cancel = context.WithTimeoutCause(t.ctx, soon, errLimit)
	if err := run(ctx, cancel); !errors.Is(err, errLimit) {
		t.Errorf("a call that took too long returned %v, want the cause %q", err, errLimit)
	}
	ctx, cancel = context.WithTimeout(t.ctx, waitLimit)
	time.AfterFunc(soon, cancel)
	if err := run(ctx, cancel); !errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a cancelled call returned %v, want context.Canceled", err)
	}
	t.wantWorking(to, `2`)
}

func cancelOne(t *test) {
	const n = 20
	g := newGate()
	gone := make(chan string, n)
	to, _ := t.open(dragoman.NoPeer, dragoman.Funcs{
		OnCall: func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			if err := g.pass(ctx, arguments(req)); err != nil {
				gone <- arguments(req)
				return nil, err
			}
			return t.answer(req, arguments(req))
		},
	})
	ctx, cancel := context.WithCancelCause(t.ctx)
	defer cancel(nil)
	var reqs [n]*dragoman.Message
	var done [n]<-chan outcome
	for i := range n {
		// All with one id: the cancel must still find the right one.
		reqs[i] = t.request(`"x"`, fmt.Sprintf(`{"n":%d}`, i))
		if i == n/2 {
			done[i] = start(ctx, to, reqs[i], nil)
		} else {
			done[i] = start(t.ctx, to, reqs[i], nil)
		}
	}
	t.awaitArrivals(g, n)
	cancel(errGivenUp)
	if o := t.finish(done[n/2], "its context has ended"); !errors.Is(o.err, errGivenUp) {
		t.Errorf("the cancelled call returned %v, want the error %q", o, errGivenUp)
	}
	t.same("the call whose context ended", receive(t, gone, "the callee's context ends"), arguments(reqs[n/2]))
	for i, req := range reqs {
		if i != n/2 {
			g.open(arguments(req))
			t.want(t.finish(done[i], short(req.String())), req, arguments(req))
		}
	}
	select {
	case other := <-gone:
		t.Errorf("the context of %s ended too", other)
	default:
	}
}

func cancelBefore(t *test) {
	to, _ := t.open(dragoman.NoPeer, t.echo())
	ctx, cancel := context.WithCancelCause(t.ctx)
	cancel(errGivenUp)
	if o := t.finish(start(ctx, to, t.request(`1`, `{}`), nil), "its context had ended"); !errors.Is(o.err, errGivenUp) {
		t.Errorf("the call returned %v, want the error %q", o, errGivenUp)
	}
	t.wantWorking(to, `2`)
}

func nothingLater(t *test) {
	started, told := make(chan struct{}, 1), make(chan struct{}, 1)
	to, _ := t.open(dragoman.NoPeer, t.handle(map[string]handler{
		`{"do":"linger"}`: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			started <- struct{}{}
			<-ctx.Done()
			for i := range 5 { // to whom it may concern
				note, err := progressNote([]byte(`"p"`), i, "too late")
				if token := req.Meta(protocol.MetaProgressToken); token != nil {
					note, err = progressNote(token, i, "too late")
				}
				_ = sendNote(context.WithoutCancel(ctx), from, note, err)
			}
			told <- struct{}{}
			return t.answer(req, "too late")
		},
	}))
	for i := range 5 {
		ctx, cancel := context.WithCancelCause(t.ctx)
		h := t.recorder("the caller that gave up", nil)
		done := h.during(ctx, to, t.requestWith(`1`, `{"do":"linger"}`, `,"_meta":{"progressToken":"p"}`))
		receive(t, started, "the request reaches the callee")
		cancel(errGivenUp)
		if o := t.finish(done, "its context has ended"); !errors.Is(o.err, errGivenUp) {
			t.Errorf("the cancelled call returned %v, want the error %q", o, errGivenUp)
		}
		receive(t, told, "the callee's context ends")
		t.wantWorking(to, `1`) // the late answer has the same id
		t.wantWorking(to, fmt.Sprint(i))
	}
}

func cancelIgnored(t *test) {
	g := newGate()
	returned := make(chan struct{}, 8)
	to, _ := t.open(dragoman.NoPeer, t.handle(map[string]handler{
		`{"do":"ignore"}`: func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			defer func() { returned <- struct{}{} }()
			if err := g.pass(context.WithoutCancel(ctx), "ignore"); err != nil {
				return nil, err
			}
			return t.answer(req, "too late")
		},
	}))
	const n = 8
	for range n {
		ctx, cancel := context.WithCancelCause(t.ctx)
		done := start(ctx, to, t.request(`1`, `{"do":"ignore"}`), nil)
		t.awaitArrivals(g, 1)
		cancel(errGivenUp)
		if o := t.finish(done, "its context has ended, although the callee ignores that"); !errors.Is(o.err, errGivenUp) {
			t.Errorf("the cancelled call returned %v, want the error %q", o, errGivenUp)
		}
		t.wantWorking(to, `1`)
	}
	g.open("ignore")
	for range n {
		receive(t, returned, "the callee returns at last")
		t.wantWorking(to, `1`)
	}
}

func cancelAll(t *test) {
	n := t.opts.MaxCalls / 2
	g := newGate()
	to, _ := t.open(dragoman.NoPeer, t.handle(map[string]handler{`{"do":"wait"}`: t.gated(g).OnCall}))
	ctx, cancel := context.WithCancelCause(t.ctx)
	done := make([]<-chan outcome, n)
	for i := range n {
		done[i] = start(ctx, to, t.request(fmt.Sprint(i), `{"do":"wait"}`), t.recorder("a caller", nil))
	}
	t.awaitArrivals(g, n)
	cancel(errGivenUp)
	for i := range n {
		if o := t.finish(done[i], "its context has ended"); !errors.Is(o.err, errGivenUp) {
			t.Errorf("the cancelled call %d returned %v, want the error %q", i, o, errGivenUp)
		}
	}
	t.wantWorking(to, `0`)
	if t.opts.NoCancel {
		g.open(`{"do":"wait"}`)
	}
}

// cancelRaces cancels at about the time of the answer: either may win, but it
// is one of the two.
func cancelRaces(t *test) {
	to, _ := t.open(dragoman.NoPeer, t.echo())
	for i := range 200 / slowdown {
		ctx, cancel := context.WithCancelCause(t.ctx)
		req := t.request(`1`, fmt.Sprintf(`{"n":%d}`, i))
		done := start(ctx, to, req, nil)
		go func() {
			time.Sleep(time.Duration(i%20) * 10 * time.Microsecond)
			cancel(errGivenUp)
		}()
		o := t.finish(done, short(req.String()))
		if !errors.Is(o.err, errGivenUp) {
			t.want(o, req, arguments(req))
		}
		cancel(nil)
	}
	t.wantWorking(to, `2`)
}
