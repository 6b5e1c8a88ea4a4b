package peertest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

var slow = []behaviour{
	{"callees that do not return block nobody", volume, true, stuckCallees},
	// A peer on the caller's goroutine that is slow to receive blocks the sender,
	// by design.
	{"D14 a peer that is slow to receive blocks no calls", anyMethod | ownGoroutine, true, slowToReceive},
	{"D14 a flood outside of calls takes bounded memory and ends nothing", anyMethod | ownGoroutine | volume, true, floodOutside},
	{"D14 a flood inside a call takes bounded memory and loses no answer", notesInCall | ownGoroutine | volume, true, floodInside},
}

func stuckCallees(t *test) {
	g := newGate()
	to, _ := t.open(dragoman.NoPeer, t.handle(map[string]handler{`{"do":"wait"}`: t.gated(g).OnCall}))
	n := t.opts.MaxCalls / 2
	stuck := t.request(`1`, `{"do":"wait"}`)
	var done []<-chan outcome
	for range n {
		done = append(done, start(t.ctx, to, stuck, nil))
	}
	t.awaitArrivals(g, n)
	for i := range 50 {
		t.wantWorking(to, fmt.Sprint(i))
	}
	g.open(arguments(stuck))
	for i := range n {
		t.want(t.finish(done[i], "a callee that returned at last"), stuck, arguments(stuck))
	}
}

// slowPeer is a peer that receives nothing before it is released, then records the
// numbers in its notifications.
type slowPeer struct {
	dragoman.Peer
	first    chan struct{} // closed when the first notification has come
	release  chan struct{}
	received chan int
	once     sync.Once
}

func newSlowPeer(p dragoman.Peer) *slowPeer {
	return &slowPeer{Peer: p, first: make(chan struct{}), release: make(chan struct{}), received: make(chan int, 2*floodCount)}
}

func (s *slowPeer) Notify(_ context.Context, note *dragoman.Message) error {
	s.once.Do(func() { close(s.first) })
	<-s.release
	number := note.Get("progress")
	if number == nil {
		number = note.Get("data") // of a log message
	}
	n, err := strconv.Atoi(string(number))
	s.received <- n
	return err
}

// wantOrder fails the test unless what was received so far is in order.
func (t *test) wantOrder(s *slowPeer) {
	t.Helper()
	last := -1
	for {
		select {
		case n := <-s.received:
			if n <= last {
				t.Fatalf("notification %d came after %d", n, last)
			}
			last = n
		default:
			return
		}
	}
}

func slowToReceive(t *test) {
	s := newSlowPeer(t.echo())
	to, _ := t.open(dragoman.NoPeer, s)
	defer close(s.release)
	for range 10 {
		if err := to.Notify(t.ctx, t.note(`{}`)); err != nil {
			t.Fatalf("Notify: %v", err)
		}
	}
	t.within(s.first, "the first notification comes")
	for i := range 50 {
		t.wantWorking(to, fmt.Sprint(i))
	}
}

// floodMemory is how much of a flood may wait in the transport.
const floodMemory = floodCount * floodSize / 2

var floodText = strings.Repeat("flood ", floodSize/6)

func floodOutside(t *test) {
	s := newSlowPeer(t.echo())
	to, _ := t.open(dragoman.NoPeer, s)
	let := sync.OnceFunc(func() { close(s.release) })
	defer let()
	before := heap()
	t.inTime("a flood of notifications is sent", func() error {
		for i := range floodCount {
			note, err := dragoman.NewNotification(protocol.NoteMessage,
				fmt.Appendf(nil, `{"level":"debug","data":%d,"logger":"%s"}`, i, floodText))
			if err == nil && !t.reverse {
				note = t.withEnvelope(note)
			}
			if err = sendNote(t.ctx, to, note, err); err != nil && !errors.Is(err, dragoman.ErrOverloaded) {
				return fmt.Errorf("Notify %d of a flood: %w", i, err)
			}
		}
		return nil
	})
	t.within(s.first, "the first notification comes")
	for i := range 20 {
		t.wantWorking(to, fmt.Sprint(i))
	}
	t.wantBounded(before)
	let()
	t.wantWorking(to, `"after the flood"`)
	t.wantOrder(s)
}

func floodInside(t *test) {
	told := make(chan error, 1)
	to, _ := t.open(dragoman.NoPeer, t.handle(map[string]handler{
		`{"do":"flood"}`: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			token := req.Meta(protocol.MetaProgressToken)
			var fault error
			for i := range floodCount {
				note, err := dragoman.NewNotification(protocol.NoteProgress,
					fmt.Appendf(nil, `{"progressToken":%s,"progress":%d,"message":"%s"}`, token, i, floodText))
				if err = sendNote(ctx, from, note, err); err != nil && !errors.Is(err, dragoman.ErrOverloaded) {
					fault = fmt.Errorf("Notify %d of a flood: %w", i, err)
					break
				}
			}
			told <- fault
			return t.answer(req, "flooded")
		},
	}))
	s := newSlowPeer(dragoman.NoPeer)
	let := sync.OnceFunc(func() { close(s.release) })
	defer let()
	before := heap()
	req := t.requestWith(`1`, `{"do":"flood"}`, `,"_meta":{"progressToken":"flood"}`)
	done := start(t.ctx, to, req, s)
	if err := receive(t, told, "the callee has sent a flood, although its caller is slow to receive"); err != nil {
		t.Fatal(err)
	}
	t.within(s.first, "the first progress comes")
	for i := range 20 {
		t.wantWorking(to, fmt.Sprint(i))
	}
	t.wantBounded(before)
	let()
	t.want(t.finish(done, "the call with a flood of progress"), req, "flooded")
	t.wantOrder(s)
}

// inTime runs f, which must not take long.
func (t *test) inTime(what string, f func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	if err := receive(t, done, what); err != nil {
		t.Fatal(err)
	}
}

// heap returns how much memory is in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) // #nosec G115 -- the memory of a test
}

// wantBounded fails the test if much more memory is in use than before, not
// only for the moment.
func (t *test) wantBounded(before int64) {
	t.Helper()
	if sizeDivisor > 1 {
		return // the flood is not large enough to show
	}
	grown := heap() - before
	for end := time.Now().Add(time.Second * slowdown); grown > floodMemory && time.Now().Before(end); grown = heap() - before {
		time.Sleep(50 * time.Millisecond) // the rest of the flood is still on its way
	}
	if grown > floodMemory {
		t.Errorf("%d MiB were sent to a peer that does not receive, and %d MiB of memory are in use for them; want no more than %d MiB",
			floodCount*floodSize>>20, grown>>20, floodMemory>>20)
	}
}
