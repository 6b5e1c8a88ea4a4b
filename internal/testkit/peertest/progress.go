package peertest

import (
	"context"
	"errors"
	"fmt"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

var progress = []behaviour{
	{"D05 progress tokens come back as they were", notesInCall, true, tokensComeBack},
	{"progress reaches the call it belongs to", notesInCall, true, progressOfMany},
	{"two calls may use the same progress token at once", notesInCall, true, sameToken},
	// Without a transport in between, from is the caller itself.
	{"progress after the answer reaches nobody", notesInCall | ownGoroutine, true, progressTooLate},
}

var tokens = []string{
	`1`, `"1"`, `0`, `-7`, `""`, `12345678901234567890`, `"12345678901234567890"`,
	`"plain"`, `"sl\/ash \"q\" \\"`, `"\u0041\u00e9"`, `"Aé"`, `"日本語 🜁"`, `"\ud83d\ude00"`,
}

// reporter tells n steps of progress, then answers with the arguments.
func (t *test) reporter(n int, g *gate) dragoman.Funcs {
	return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		if g != nil {
			if err := g.pass(ctx, arguments(req)); err != nil {
				return nil, err
			}
		}
		token := req.Meta(protocol.MetaProgressToken)
		if token == nil {
			return nil, errors.New("peertest: the progress token is lost on the way to the callee")
		}
		for i := range n {
			note, err := progressNote(token, i, arguments(req))
			if err := sendNote(ctx, from, note, err); err != nil {
				return nil, err
			}
		}
		return t.answer(req, arguments(req))
	}}
}

// wantProgress fails the test unless h heard all of n steps of req.
func (t *test) wantProgress(h *recorder, req *dragoman.Message, n int) {
	t.Helper()
	token := string(req.Meta(protocol.MetaProgressToken))
	all := h.all()
	if len(all) != n {
		t.Errorf("%d of %d steps of progress came before the answer to %s", len(all), n, req)
	}
	for i, m := range all {
		t.same("the method", m.Method(), protocol.NoteProgress)
		t.same("the progress token", string(m.Get("progressToken")), token)
		t.same("progress", string(m.Get("progress")), fmt.Sprint(i))
		t.same("the call to which the progress belongs", string(m.Get("message")), fmt.Sprintf("%q", arguments(req)))
	}
}

func tokensComeBack(t *test) {
	outside := t.recorder("the asking side outside of its calls", nil)
	to, _ := t.open(outside, t.reporter(3, nil))
	for i, token := range tokens {
		h := t.recorder("the caller with token "+token, nil)
		req := t.requestWith(fmt.Sprint(i), fmt.Sprintf(`{"n":%d}`, i), `,"_meta":{"x":1,"progressToken":`+token+`}`)
		t.want(t.finish(t.callWith(to, req, h), short(req.String())), req, arguments(req))
		t.wantProgress(h, req, 3)
	}
	outside.wantNothing()
}

func progressOfMany(t *test) {
	const steps = 20
	t.concurrent(steps, func(i int) (id, token string) {
		// The ids are the tokens of others.
		return fmt.Sprint(i), fmt.Sprint((i + 1) % 16)
	})
}

func sameToken(t *test) {
	t.concurrent(20, func(i int) (id, token string) {
		return `1`, [...]string{`1`, `"tok\u0065n"`}[i%2]
	})
}

// concurrent runs calls at once that all report progress.
func (t *test) concurrent(steps int, name func(i int) (id, token string)) {
	t.Helper()
	const n = 16
	g := newGate()
	outside := t.recorder("the asking side outside of its calls", nil)
	to, _ := t.open(outside, t.reporter(steps, g))
	var reqs [n]*dragoman.Message
	var hs [n]*recorder
	var done [n]<-chan outcome
	for i := range n {
		id, token := name(i)
		reqs[i] = t.requestWith(id, fmt.Sprintf(`{"call":%d}`, i), `,"_meta":{"progressToken":`+token+`}`)
		hs[i] = t.recorder(fmt.Sprintf("caller %d", i), nil)
		done[i] = t.callWith(to, reqs[i], hs[i])
	}
	t.awaitArrivals(g, n)
	for _, req := range reqs {
		g.open(arguments(req))
	}
	for i, req := range reqs {
		t.want(t.finish(done[i], short(req.String())), req, arguments(req))
		t.wantProgress(hs[i], req, steps)
	}
	outside.wantNothing()
}

func progressTooLate(t *test) {
	type stash struct {
		from  dragoman.Peer
		token []byte
	}
	stashed := make(chan stash, 1)
	to, _ := t.open(dragoman.NoPeer, t.handle(map[string]handler{
		`{"do":"keep"}`: func(_ context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			stashed <- stash{from, req.Meta(protocol.MetaProgressToken)}
			return t.answer(req, "kept")
		},
	}))
	h := t.recorder("the caller", nil)
	req := t.requestWith(`1`, `{"do":"keep"}`, `,"_meta":{"progressToken":"p"}`)
	t.want(t.finish(t.callWith(to, req, h), "the call whose from is kept"), req, "kept")
	s := receive(t, stashed, "the callee keeps its from")
	for i := range 5 {
		note, err := progressNote(s.token, i, "too late")
		_ = sendNote(t.ctx, s.from, note, err) // it may say that it is too late
	}
	t.wantWorking(to, `2`)
}
