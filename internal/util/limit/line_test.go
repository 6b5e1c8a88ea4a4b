package limit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/limit"
)

func TestWhoLeavesTheLineHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &limit.Line{Max: 1, Queue: 3}
		if err := l.Enter(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		impatient, leave := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		results := make(chan error, 3)
		for _, ctx := range []context.Context{impatient, t.Context(), t.Context()} {
			go func() { results <- l.Enter(ctx, time.Second) }() // ends within a second
			synctest.Wait()
		}
		if err := l.Enter(t.Context(), time.Second); !errors.Is(err, limit.ErrFull) {
			t.Errorf("a fourth one gets %v", err)
		}
		if _, ok := l.Queued(); ok {
			t.Error("there is room in a full line")
		}
		leave(gone)
		if err := <-results; !errors.Is(err, gone) {
			t.Errorf("who left gets %v", err)
		}
		if l.Leave() {
			t.Error("it is empty with two in the line")
		}
		if err := <-results; err != nil {
			t.Errorf("the next one gets %v", err)
		}
		if err := <-results; !errors.Is(err, limit.ErrLate) {
			t.Errorf("the last one gets %v", err)
		}
		done, ok := l.Queued()
		if used, waiting := l.Counts(); !ok || used != 1 || waiting != 1 {
			t.Errorf("%d are in and %d wait, want one each", used, waiting)
		}
		done()
		if !l.Leave() {
			t.Error("it is not empty")
		}
	})
}

// TestLineNeverHasMoreThanItMay has many enter and leave, some of whom give up at the
// moment their turn comes.
func TestLineNeverHasMoreThanItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 3
		l := &limit.Line{Max: most, Queue: 1000}
		in, entered := make(chan int, 1), 0
		in <- 0
		for i := range 300 {
			go func() { // ends when it has been in, or after a few milliseconds
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%7)*time.Millisecond)
				defer cancel()
				if l.Enter(ctx, time.Duration(i%5)*time.Millisecond) != nil {
					return
				}
				n := <-in + 1
				entered++
				if n > most {
					t.Errorf("%d are in", n)
				}
				in <- n
				time.Sleep(time.Millisecond)
				in <- <-in - 1
				l.Leave()
			}()
		}
		time.Sleep(time.Second)
		if used, waiting := l.Counts(); used != 0 || waiting != 0 || entered < most {
			t.Errorf("%d were in; in the end %d are in and %d wait", entered, used, waiting)
		}
	})
}
