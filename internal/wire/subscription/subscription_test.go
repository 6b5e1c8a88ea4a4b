package subscription_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/syncs"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A testListen is one listen that a test plays the server of.
type testListen struct {
	want      protocol.Interest
	from      dragoman.Peer
	cancelled <-chan struct{} // closed when the Subscription has ended it
	end       chan any        // gets the answer: nil, a *dragoman.Error, or an error
}

// A fixture is a Subscription whose listens the test answers, and what it notifies.
type fixture struct {
	*subscription.Subscription
	t      *testing.T
	opened chan *testListen
	onNote func(note *dragoman.Message) // may be nil

	mu    sync.Mutex
	notes []string // guarded by mu
}

// runFixture runs a test with a Subscription, in a bubble.
func runFixture(t *testing.T, max int, test func(t *testing.T, g *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		g := &fixture{t: t, opened: make(chan *testListen, 100)}
		var busy syncs.Group
		ctx, cancel := context.WithCancel(t.Context())
		g.Subscription = subscription.New(ctx, &subscription.Options{Send: g.send, Notify: g.notify, Busy: &busy, Max: max})
		test(t, g)
		cancel()
		busy.Wait()
	})
}

func (g *fixture) send(ctx context.Context, want protocol.Interest, from dragoman.Peer) (*dragoman.Message, error) {
	req, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodListen, nil)
	if err != nil {
		return nil, err
	}
	p := &testListen{want: want, from: from, cancelled: ctx.Done(), end: make(chan any, 1)}
	g.opened <- p
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case end := <-p.end:
		switch end := end.(type) {
		case *dragoman.Error:
			return req.Fail(end), nil
		case error:
			return nil, end
		}
		return req.Reply(nil)
	}
}

func (g *fixture) notify(note *dragoman.Message) {
	g.mu.Lock()
	g.notes = append(g.notes, strings.TrimPrefix(note.Method(), "notifications/")+note.URI()+string(note.Get("taskId"))+string(note.Get("status")))
	g.mu.Unlock()
	if g.onNote != nil {
		g.onNote(note)
	}
}

// received returns what has been notified since the last time.
func (g *fixture) received() string {
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	notes := g.notes
	g.notes = nil
	slices.Sort(notes)
	return strings.Join(notes, " ")
}

// next returns the listen that is opened next, which must be for these resources.
func (g *fixture) next(uris ...string) *testListen {
	g.t.Helper()
	select {
	case p := <-g.opened:
		if !slices.Equal(p.want.URIs, uris) {
			g.t.Errorf("the listen is for %q, want %q", p.want.URIs, uris)
		}
		return p
	case <-time.After(time.Minute):
		g.t.Fatal("no listen is opened")
		return nil
	}
}

// wantNoListen fails if a listen is opened within an hour.
func (g *fixture) wantNoListen() {
	g.t.Helper()
	time.Sleep(time.Hour)
	if n := len(g.opened); n != 0 {
		g.t.Errorf("%d listens are opened", n)
	}
}

// add begins to add a resource, and returns where the outcome comes.
func (g *fixture) add(ctx context.Context, uri string) <-chan error {
	done := make(chan error, 1)
	go func() { done <- g.Add(ctx, uri) }()
	return done
}

// note makes the server notify something.
func (p *testListen) note(method string, params any) {
	note, err := dragoman.NewNotification(method, params)
	if err != nil {
		panic(err)
	}
	_ = p.from.Notify(context.Background(), note) // it always succeeds
}

func (p *testListen) ack(what protocol.Interest) {
	p.note(protocol.NoteAcknowledged, map[string]any{"notifications": what})
}

func (p *testListen) updated(uri string) {
	p.note(protocol.NoteResourceUpdated, map[string]string{"uri": uri})
}

func (p *testListen) task(id, status string) {
	p.note(protocol.NoteTasks, map[string]string{"taskId": id, "status": status})
}

func isCancelled(p *testListen) bool {
	synctest.Wait()
	select {
	case <-p.cancelled:
		return true
	default:
		return false
	}
}

func TestNoListenIsOpenedForNoInterest(t *testing.T) {
	runFixture(t, 0, func(t *testing.T, g *fixture) {
		g.Want(protocol.Interest{})
		g.Remove("x:a")
		g.wantNoListen()
	})
}

func TestASuccessorIsAcknowledgedBeforeItsPredecessorEnds(t *testing.T) {
	runFixture(t, 0, func(t *testing.T, g *fixture) {
		g.Want(protocol.Interest{Tools: true})
		first := g.next()
		first.ack(first.want)
		g.Want(protocol.Interest{Tools: true, Prompts: true})
		second := g.next()
		time.Sleep(500 * time.Millisecond)
		if isCancelled(first) {
			t.Error("the first ends before the second is acknowledged")
		}
		first.note(protocol.NoteToolsChanged, nil)
		second.ack(second.want)
		second.note(protocol.NoteToolsChanged, nil)
		time.Sleep(time.Second)
		if !isCancelled(first) || isCancelled(second) {
			t.Error("not the second is what is left")
		}
		if got := g.received(); got != "tools/list_changed" {
			t.Errorf("notified %q, want the change once", got)
		}
		second.note(protocol.NoteToolsChanged, nil)
		second.note(protocol.NoteToolsChanged, nil)
		if got := g.received(); got != "tools/list_changed tools/list_changed" {
			t.Errorf("after the overlap two changes are notified as %q", got)
		}
		g.Want(protocol.Interest{Tools: true, Prompts: true}) // nothing new
		g.wantNoListen()
	})
}

func TestALostListenIsReopenedAndMissedChangesAreNotified(t *testing.T) {
	for name, end := range map[string]any{
		"with its conversation": dragoman.ErrClosed, "in good order": nil,
		"with a refusal that may pass": &dragoman.Error{Code: protocol.CodeUnavailable, Message: "away"},
	} {
		t.Run(name, func(t *testing.T) {
			runFixture(t, 0, func(t *testing.T, g *fixture) {
				g.Want(protocol.Interest{Tools: true, URIs: []string{"x:a"}})
				p := g.next("x:a")
				p.ack(p.want)
				began := time.Now()
				for range 4 {
					p.end <- end
					p = g.next("x:a")
					end = dragoman.ErrClosed // without an acknowledgement, an end in good order is final
				}
				if waited := time.Since(began); waited < 3*time.Second || waited > 3750*time.Millisecond {
					t.Errorf("four attempts within %v", waited)
				}
				if got := g.received(); got != "" {
					t.Errorf("notified %q while nobody listens", got)
				}
				p.ack(p.want)
				if got := g.received(); got != "resources/updatedx:a tools/list_changed" {
					t.Errorf("notified %q", got)
				}
			})
		})
	}
}

func TestTheWaitForAnotherListenDoublesUntilOneLasts(t *testing.T) {
	runFixture(t, 0, func(t *testing.T, g *fixture) {
		g.Want(protocol.Interest{Tools: true})
		p := g.next()
		p.ack(p.want)
		p.end <- dragoman.ErrClosed
		for i, want := range []time.Duration{250, 500, 1000, 2000, 4000, 8000, 10000, 10000} {
			want *= time.Millisecond
			began := time.Now()
			p = g.next()
			if waited := time.Since(began); waited > want || waited < want*3/4 {
				t.Errorf("attempt %d after %v, want %v", i, waited, want)
			}
			p.end <- errors.New("still away")
		}
		p = g.next()
		p.ack(p.want)
		time.Sleep(time.Minute)
		p.end <- dragoman.ErrClosed
		began := time.Now()
		g.next()
		if waited := time.Since(began); waited > 250*time.Millisecond {
			t.Errorf("after a minute in good order it took %v", waited)
		}
	})
}

func TestAListenThatIsNotAcknowledgedIsGivenUpAndHoldsNothingBack(t *testing.T) {
	runFixture(t, 0, func(t *testing.T, g *fixture) {
		g.Want(protocol.Interest{Tools: true})
		first := g.next()
		first.ack(first.want)
		began := time.Now()
		done := g.add(t.Context(), "x:slow")
		second := g.next("x:slow")
		first.note(protocol.NoteToolsChanged, nil)
		time.Sleep(1100 * time.Millisecond)
		if got := g.received(); got != "tools/list_changed" {
			t.Errorf("notified %q after a second", got)
		}
		if err := <-done; !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != subscription.AckTimeout {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		first.note(protocol.NoteToolsChanged, nil)
		if got := g.received(); got != "tools/list_changed" || isCancelled(first) || !isCancelled(second) {
			t.Errorf("notified %q; not the first is what is left", got)
		}
	})
}

func TestDeferredChangesAreBounded(t *testing.T) {
	runFixture(t, 0, func(t *testing.T, g *fixture) {
		g.Want(protocol.Interest{URIs: []string{"x:"}})
		first := g.next("x:")
		first.ack(first.want)
		g.Want(protocol.Interest{Tools: true, URIs: []string{"x:"}})
		second := g.next("x:")
		for i := range subscription.MaxWaiting {
			first.updated(fmt.Sprint("x:/", i))
		}
		if got := g.received(); got != "" {
			t.Errorf("notified %.100q while two listens overlap", got)
		}
		if first.updated("x:/last"); g.received() != "resources/updatedx:/last" {
			t.Error("changes beyond the limit are not notified immediately")
		}
		second.ack(second.want)
		time.Sleep(time.Second)
		if n := strings.Count(g.received(), "x:/"); n != subscription.MaxWaiting {
			t.Errorf("%d deferred changes are notified", n)
		}
	})
}

func TestResourcesThatAreAddedMeanwhileAreOneListen(t *testing.T) {
	runFixture(t, 0, func(t *testing.T, g *fixture) {
		first := g.add(t.Context(), "x:a")
		p := g.next("x:a")
		b, c := g.add(t.Context(), "x:b"), g.add(t.Context(), "x:c")
		synctest.Wait()
		p.ack(p.want)
		p = g.next("x:a", "x:b", "x:c")
		p.ack(protocol.Interest{URIs: []string{"x:a", "x:c"}})
		if e, refused := errors.AsType[*dragoman.Error](<-b); !refused || e.Code != protocol.CodeInvalidParams || <-first != nil || <-c != nil {
			t.Errorf("one that is not acknowledged: %v, or another fails", e)
		}
	})
}

func TestAPermanentRefusalIsNotRetriedUntilTheInterestChanges(t *testing.T) {
	for _, end := range []any{&dragoman.Error{Code: protocol.CodeMethodNotFound}, &dragoman.Error{Code: protocol.CodeInvalidParams}, nil} {
		runFixture(t, 0, func(t *testing.T, g *fixture) {
			g.Want(protocol.Interest{Tools: true})
			first := g.next()
			if end == nil {
				first.ack(protocol.Interest{})
			}
			first.end <- end
			g.wantNoListen()
			done := g.add(t.Context(), "x:a")
			p := g.next("x:a")
			p.ack(p.want)
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAddReturnsWhatTheServerAcknowledges(t *testing.T) {
	runFixture(t, 0, func(t *testing.T, g *fixture) {
		done := g.add(t.Context(), "x:a")
		p := g.next("x:a")
		p.ack(p.want)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		done = g.add(t.Context(), "x:b")
		q := g.next("x:a", "x:b")
		q.ack(p.want)
		if e, ok := errors.AsType[*dragoman.Error](<-done); !ok || e.Code != protocol.CodeInvalidParams {
			t.Errorf("the error is %v", e)
		}
		time.Sleep(time.Second)
		if isCancelled(p) || !isCancelled(q) {
			t.Error("a listen that covers nothing new has replaced the other")
		}
		done = g.add(t.Context(), "x:c")
		g.next("x:a", "x:c").end <- &dragoman.Error{Code: protocol.CodeInternal, Message: "broken"}
		if e, ok := errors.AsType[*dragoman.Error](<-done); !ok || e.Code != protocol.CodeInternal {
			t.Errorf("the error is %v", e)
		}
		g.wantNoListen()
	})
}

func TestAddThatIsCancelledLeavesNoListenOpen(t *testing.T) {
	gone := errors.New("gone")
	for name, base := range map[string]protocol.Interest{"beside another": {Tools: true}, "the only one": {}} {
		t.Run(name, func(t *testing.T) {
			runFixture(t, 0, func(t *testing.T, g *fixture) {
				g.Want(base)
				var before *testListen
				if !base.Empty() {
					before = g.next()
					before.ack(before.want)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				done := g.add(ctx, "x:a")
				p := g.next("x:a")
				cancel(gone)
				if err := <-done; !errors.Is(err, gone) {
					t.Errorf("the error is %v", err)
				}
				p.ack(p.want)
				time.Sleep(time.Second)
				if !isCancelled(p) || before != nil && isCancelled(before) {
					t.Error("what nobody wants is listened to, or what somebody wants is not")
				}
				g.wantNoListen()
			})
		})
	}
}

func TestChangesOfARemovedResourceAreNotNotified(t *testing.T) {
	runFixture(t, 0, func(t *testing.T, g *fixture) {
		g.Want(protocol.Interest{Tools: true})
		p := g.next()
		p.ack(p.want)
		done := g.add(t.Context(), "x:a")
		p = g.next("x:a")
		p.ack(p.want)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		g.Remove("x:a")
		p.updated("x:a")
		q := g.next()
		q.ack(q.want)
		p.updated("x:a")
		if time.Sleep(time.Second); g.received() != "" || !isCancelled(p) || isCancelled(q) {
			t.Error("the resource is notified, or listened to")
		}
		done = g.add(t.Context(), "x:a")
		p = g.next("x:a")
		p.ack(p.want)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if p.updated("x:a/part"); g.received() != "resources/updatedx:a/part" {
			t.Error("the resource is not notified after it was added again")
		}
		g.Want(protocol.Interest{})
		p = g.next("x:a")
		p.ack(p.want)
		g.Remove("x:a")
		if g.wantNoListen(); !isCancelled(p) {
			t.Error("a listen without interest stays open")
		}
	})
}

func TestNotifyMayCallAdd(t *testing.T) {
	runFixture(t, 0, func(t *testing.T, g *fixture) {
		var added error
		var once sync.Once
		g.onNote = func(*dragoman.Message) {
			once.Do(func() { added = g.Add(t.Context(), "x:b") })
		}
		g.Want(protocol.Interest{Tools: true})
		p := g.next()
		p.ack(p.want)
		p.end <- dragoman.ErrClosed
		p = g.next()
		p.ack(p.want) // what may have been missed is notified
		p = g.next("x:b")
		p.ack(p.want)
		if synctest.Wait(); added != nil {
			t.Errorf("it was not added: %v", added)
		}
	})
}

func TestTheNewestChangeOfEachTaskIsNotified(t *testing.T) {
	runFixture(t, 0, func(t *testing.T, g *fixture) {
		g.Want(protocol.Interest{Tasks: []string{"1", "2"}})
		p := g.next()
		p.ack(p.want)
		g.Want(protocol.Interest{Tasks: []string{"1", "2", "3"}})
		q := g.next()
		p.task("1", "working")
		p.task("2", "working")
		p.task("1", "done")
		q.ack(q.want)
		time.Sleep(time.Second)
		if got := g.received(); got != `tasks"1""done" tasks"2""working"` {
			t.Errorf("notified %s", got)
		}
	})
}

func TestAddHasALimit(t *testing.T) {
	runFixture(t, 2, func(t *testing.T, g *fixture) {
		for i := range 2 {
			done := g.add(t.Context(), fmt.Sprint("x:", i))
			p := <-g.opened
			p.ack(p.want)
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if e, ok := errors.AsType[*dragoman.Error](g.Add(t.Context(), "x:2")); !ok || e.Code != protocol.CodeOverloaded {
			t.Errorf("the error is %v", e)
		}
		if err := g.Add(t.Context(), "x:1"); err != nil {
			t.Errorf("one that is there: %v", err)
		}
	})
	runFixture(t, 100, func(t *testing.T, g *fixture) {
		long := strings.Repeat("x", 100<<10)
		for _, uri := range []string{"a:" + long, "b:" + long} {
			done := g.add(t.Context(), uri)
			p := <-g.opened
			p.ack(p.want)
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if e, ok := errors.AsType[*dragoman.Error](g.Add(t.Context(), "c:"+long)); !ok || e.Code != protocol.CodeOverloaded {
			t.Errorf("the error is %v", e)
		}
	})
}

func TestAddFailsAfterTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var busy syncs.Group
	opts := &subscription.Options{
		Send: func(ctx context.Context, _ protocol.Interest, _ dragoman.Peer) (*dragoman.Message, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		},
		Notify: func(*dragoman.Message) {}, Busy: &busy,
	}
	running := subscription.New(ctx, opts)
	running.Want(protocol.Interest{Tools: true})
	idle := subscription.New(ctx, opts)
	cancel()
	busy.Wait()
	for _, k := range []*subscription.Subscription{running, idle} {
		if err := k.Add(t.Context(), "x:a"); !errors.Is(err, dragoman.ErrClosed) {
			t.Errorf("Add: %v, want ErrClosed", err)
		}
		k.Await(t.Context(), time.Hour)
	}
}
