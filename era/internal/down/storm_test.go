package down_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/down"
	"github.com/dragoman-mcp/dragoman/era/internal/pool"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Sessions die, clients leave, states are used twice and calls are given up, all
// at once and at random. Every request gets an answer, and no tool runs twice.
func TestNoToolRunsTwiceInAStorm(t *testing.T) {
	const clients, calls = 30, 20
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		var j journal
		r := newRig(t, dragoman.Local(asking(&j)), wrap, &down.Options{
			Pool:         pool.New(&pool.Options{Max: 20, Wait: 50 * time.Millisecond, Idle: 20 * time.Millisecond}),
			MaxSuspended: 15, SuspendTimeout: 50 * time.Millisecond, MaxRounds: 3, Gather: time.Millisecond,
		})
		calm := make(chan struct{})
		var weather, all sync.WaitGroup
		weather.Go(func() { // ends with calm
			for {
				select {
				case <-calm:
					return
				case <-time.After(time.Duration(rand.IntN(20)) * time.Millisecond):
				}
				if living := r.dial.living(); len(living) > 0 {
					_ = living[rand.IntN(len(living))].Close()
				}
			}
		})
		for i := range clients {
			all.Go(func() {
				for n := range calls {
					r.stormy(as(t.Context(), fmt.Sprint(i%4)), fmt.Sprintf("%d/%d", i, n))
				}
			})
		}
		all.Wait()
		close(calm)
		weather.Wait()
		j.mu.Lock()
		defer j.mu.Unlock()
		for who, n := range j.runs {
			if n > 1 {
				t.Errorf("%s ran %d times", who, n)
			}
		}
		if len(j.runs) < clients {
			t.Errorf("only %d calls ran at all", len(j.runs))
		}
	})
}

// stormy makes one call in several rounds, some of which go wrong.
func (r *rig) stormy(ctx context.Context, who string) {
	params := ask(who, rand.IntN(5))
	retry := params
	for {
		ctx, cancel := context.WithCancelCause(ctx)
		if rand.IntN(5) == 0 {
			time.AfterFunc(time.Duration(rand.IntN(5))*time.Millisecond, func() { cancel(dragoman.ErrCancelled) })
		}
		tries := 1
		if retry["requestState"] != nil {
			tries += rand.IntN(2) // two at once with the same state
		}
		done := make(chan outcome, tries)
		for range tries {
			go func() {
				req := request(r.t, 1, protocol.MethodCallTool, canAll, retry)
				resp, err := r.s.Call(ctx, req, hear(r.t))
				done <- outcome{req, resp, err}
			}()
		}
		next := object(nil)
		for range tries {
			select {
			case o := <-done:
				if o.err == nil && !o.resp.IsError() && string(o.resp.Get("resultType")) == `"input_required"` {
					questions, state := asked(r.t, o.resp)
					answers := object{}
					for key, q := range questions {
						answers[key] = obliging(q)
					}
					next = with(params, state, answers)
				}
			case <-time.After(patience):
				r.t.Errorf("%s: no answer", who)
			}
		}
		cancel(nil)
		if next == nil {
			return
		}
		if retry = next; rand.IntN(10) == 0 {
			time.Sleep(60 * time.Millisecond) // too late
		}
	}
}
