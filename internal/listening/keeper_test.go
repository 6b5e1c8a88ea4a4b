package listening_test

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
	"github.com/dragoman-mcp/dragoman/internal/listening"
	"github.com/dragoman-mcp/dragoman/internal/running"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A part is one listen that a test plays the server of.
type part struct {
	want protocol.Interest
	from dragoman.Peer
	gone <-chan struct{} // closed when the Keeper has ended it
	end  chan any        // gets the answer: nil, a *dragoman.Error, or an error
}

// A stage is a Keeper whose listens the test answers, and what it tells.
type stage struct {
	*listening.Keeper
	t      *testing.T
	opened chan *part
	hear   func(note *dragoman.Message) // may be nil

	mu   sync.Mutex
	told []string // guarded by mu
}

// play runs a test with a Keeper, in a bubble.
func play(t *testing.T, max int, test func(t *testing.T, g *stage)) {
	synctest.Test(t, func(t *testing.T) {
		g := &stage{t: t, opened: make(chan *part, 100)}
		var busy running.Group
		ctx, cancel := context.WithCancel(t.Context())
		g.Keeper = listening.New(ctx, &listening.Options{Send: g.send, Tell: g.tell, Busy: &busy, Max: max})
		test(t, g)
		cancel()
		busy.Wait()
	})
}

func (g *stage) send(ctx context.Context, want protocol.Interest, from dragoman.Peer) (*dragoman.Message, error) {
	req, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodListen, nil)
	if err != nil {
		return nil, err
	}
	p := &part{want: want, from: from, gone: ctx.Done(), end: make(chan any, 1)}
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

func (g *stage) tell(note *dragoman.Message) {
	g.mu.Lock()
	g.told = append(g.told, strings.TrimPrefix(note.Method(), "notifications/")+note.URI()+string(note.Get("taskId"))+string(note.Get("status")))
	g.mu.Unlock()
	if g.hear != nil {
		g.hear(note)
	}
}

// said returns what has been told since the last time.
func (g *stage) said() string {
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	told := g.told
	g.told = nil
	slices.Sort(told)
	return strings.Join(told, " ")
}

// next returns the listen that is opened next, which must be for these resources.
func (g *stage) next(uris ...string) *part {
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

// idle fails if a listen is opened within an hour.
func (g *stage) idle() {
	g.t.Helper()
	time.Sleep(time.Hour)
	if n := len(g.opened); n != 0 {
		g.t.Errorf("%d listens are opened", n)
	}
}

// add begins to add a resource, and returns where the outcome comes.
func (g *stage) add(ctx context.Context, uri string) <-chan error {
	done := make(chan error, 1)
	go func() { done <- g.Add(ctx, uri) }()
	return done
}

// note makes the server tell something.
func (p *part) note(method string, params any) {
	note, err := dragoman.NewNotification(method, params)
	if err != nil {
		panic(err)
	}
	_ = p.from.Notify(context.Background(), note) // it always succeeds
}

func (p *part) ack(what protocol.Interest) {
	p.note(protocol.NoteAcknowledged, map[string]any{"notifications": what})
}

func (p *part) updated(uri string) {
	p.note(protocol.NoteResourceUpdated, map[string]string{"uri": uri})
}

func (p *part) task(id, status string) {
	p.note(protocol.NoteTasks, map[string]string{"taskId": id, "status": status})
}

func isOver(p *part) bool {
	synctest.Wait()
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

func TestNothingIsOpenedForNothing(t *testing.T) {
	play(t, 0, func(t *testing.T, g *stage) {
		g.Want(protocol.Interest{})
		g.Remove("x:a")
		g.idle()
	})
}

func TestASuccessorIsAcknowledgedBeforeTheOneBeforeEnds(t *testing.T) {
	play(t, 0, func(t *testing.T, g *stage) {
		g.Want(protocol.Interest{Tools: true})
		first := g.next()
		first.ack(first.want)
		g.Want(protocol.Interest{Tools: true, Prompts: true})
		second := g.next()
		time.Sleep(500 * time.Millisecond)
		if isOver(first) {
			t.Error("the first ends before the second is acknowledged")
		}
		first.note(protocol.NoteToolsChanged, nil)
		second.ack(second.want)
		second.note(protocol.NoteToolsChanged, nil)
		time.Sleep(time.Second)
		if !isOver(first) || isOver(second) {
			t.Error("not the second is what is left")
		}
		if got := g.said(); got != "tools/list_changed" {
			t.Errorf("told %q, want the change once", got)
		}
		g.Want(protocol.Interest{Tools: true, Prompts: true}) // nothing new
		g.idle()
	})
}

func TestALostListenIsOpenedAgainAndWhatWasMissedIsTold(t *testing.T) {
	for name, end := range map[string]any{
		"with its conversation": dragoman.ErrClosed, "in good order": nil,
		"with a refusal that may pass": &dragoman.Error{Code: protocol.CodeUnavailable, Message: "away"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 0, func(t *testing.T, g *stage) {
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
				if got := g.said(); got != "" {
					t.Errorf("told %q while nobody listens", got)
				}
				p.ack(p.want)
				if got := g.said(); got != "resources/updatedx:a tools/list_changed" {
					t.Errorf("told %q", got)
				}
			})
		})
	}
}

func TestARefusalThatIsFinalIsNotTriedAgainUntilSomethingElseIsWanted(t *testing.T) {
	for _, code := range []int{protocol.CodeMethodNotFound, protocol.CodeInvalidParams} {
		play(t, 0, func(t *testing.T, g *stage) {
			g.Want(protocol.Interest{Tools: true})
			g.next().end <- &dragoman.Error{Code: code, Message: "no"}
			g.idle()
			done := g.add(t.Context(), "x:a")
			p := g.next("x:a")
			p.ack(p.want)
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAWishIsAnsweredByWhatTheServerAcknowledges(t *testing.T) {
	play(t, 0, func(t *testing.T, g *stage) {
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
		if isOver(p) || !isOver(q) {
			t.Error("a listen that hears nothing new has taken the place of the other")
		}
		done = g.add(t.Context(), "x:c")
		g.next("x:a", "x:c").end <- &dragoman.Error{Code: protocol.CodeInternal, Message: "broken"}
		if e, ok := errors.AsType[*dragoman.Error](<-done); !ok || e.Code != protocol.CodeInternal {
			t.Errorf("the error is %v", e)
		}
		g.idle()
	})
}

func TestForWhoLeavesBeforeItIsAcknowledgedNothingIsKeptOpen(t *testing.T) {
	gone := errors.New("gone")
	for name, base := range map[string]protocol.Interest{"beside another": {Tools: true}, "the only one": {}} {
		t.Run(name, func(t *testing.T) {
			play(t, 0, func(t *testing.T, g *stage) {
				g.Want(base)
				var before *part
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
				if !isOver(p) || before != nil && isOver(before) {
					t.Error("what nobody wants is listened to, or what somebody wants is not")
				}
				g.idle()
			})
		})
	}
}

func TestWhatWasRemovedIsNotToldAnyMore(t *testing.T) {
	play(t, 0, func(t *testing.T, g *stage) {
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
		if time.Sleep(time.Second); g.said() != "" || !isOver(p) || isOver(q) {
			t.Error("the resource is told of, or listened to")
		}
	})
}

func TestWhoIsToldMayAddMore(t *testing.T) {
	play(t, 0, func(t *testing.T, g *stage) {
		var added error
		var once sync.Once
		g.hear = func(*dragoman.Message) {
			once.Do(func() { added = g.Add(t.Context(), "x:b") })
		}
		g.Want(protocol.Interest{Tools: true})
		p := g.next()
		p.ack(p.want)
		p.end <- dragoman.ErrClosed
		p = g.next()
		p.ack(p.want) // what may have been missed is told
		p = g.next("x:b")
		p.ack(p.want)
		if synctest.Wait(); added != nil {
			t.Errorf("it was not added: %v", added)
		}
	})
}

func TestChangesOfTasksAreKeptApartAndTheNewestTold(t *testing.T) {
	play(t, 0, func(t *testing.T, g *stage) {
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
		if got := g.said(); got != `tasks"1""done" tasks"2""working"` {
			t.Errorf("told %s", got)
		}
	})
}

func TestThereIsALimit(t *testing.T) {
	play(t, 2, func(t *testing.T, g *stage) {
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
}

func TestAfterTheEndNothingIsAdded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var busy running.Group
	opts := &listening.Options{
		Send: func(ctx context.Context, _ protocol.Interest, _ dragoman.Peer) (*dragoman.Message, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		},
		Tell: func(*dragoman.Message) {}, Busy: &busy,
	}
	running := listening.New(ctx, opts)
	running.Want(protocol.Interest{Tools: true})
	idle := listening.New(ctx, opts)
	cancel()
	busy.Wait()
	for _, k := range []*listening.Keeper{running, idle} {
		if err := k.Add(t.Context(), "x:a"); !errors.Is(err, dragoman.ErrClosed) {
			t.Errorf("Add: %v, want ErrClosed", err)
		}
		k.Await(t.Context(), time.Hour)
	}
}
