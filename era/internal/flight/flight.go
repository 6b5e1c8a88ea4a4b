// Package flight makes what many wait for, once.
package flight

import (
	"context"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/running"
)

// A Flight makes a value that many wait for, once. It is made on a goroutine of
// its own, so that it comes about even if the one who asked first leaves. A
// failure is told to those who wait, and the next one tries anew.
type Flight[T any] struct {
	mu     sync.Mutex
	value  *T
	trying *attempt[T]
}

type attempt[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// Get returns the value, which make makes on behalf of who asks first, within life, on a
// goroutine of busy.
func (f *Flight[T]) Get(ctx, life context.Context, busy *running.Group, make func(context.Context) (T, error)) (T, error) {
	f.mu.Lock()
	if f.value != nil {
		v := *f.value
		f.mu.Unlock()
		return v, nil
	}
	a := f.trying
	if a == nil {
		a = newAttempt[T]()
		f.trying = a
		as := dragoman.As(life, ctx)
		// Ends with make, which ends with life.
		if !busy.Start(func() { f.try(as, a, make) }) {
			f.trying = nil
			f.mu.Unlock()
			return a.value, dragoman.ErrClosed
		}
	}
	f.mu.Unlock()
	select {
	case <-a.done:
		return a.value, a.err
	case <-ctx.Done():
		var none T // the value is not ours to look at yet
		return none, context.Cause(ctx)
	}
}

func newAttempt[T any]() *attempt[T] { return &attempt[T]{done: make(chan struct{})} }

func (f *Flight[T]) try(ctx context.Context, a *attempt[T], make func(context.Context) (T, error)) {
	a.value, a.err = make(ctx)
	f.mu.Lock()
	f.trying = nil
	if a.err == nil {
		f.value = &a.value
	}
	f.mu.Unlock()
	close(a.done)
}

// Peek returns the value if it is there.
func (f *Flight[T]) Peek() (v T, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.value == nil {
		return v, false
	}
	return *f.value, true
}

// Forget has the value made anew, if it is still this one, and reports whether it
// was.
func (f *Flight[T]) Forget(same func(T) bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.value == nil || !same(*f.value) {
		return false
	}
	f.value = nil
	return true
}

// Wait waits for the attempt under way, if there is one, for so long at most.
func (f *Flight[T]) Wait(ctx context.Context, limit time.Duration) {
	f.mu.Lock()
	a := f.trying
	f.mu.Unlock()
	if a == nil {
		return
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-a.done:
	case <-late.C:
	case <-ctx.Done():
	}
}

// Last waits for the attempt under way, if there is one, and returns the value
// if it is there.
func (f *Flight[T]) Last() (T, bool) {
	f.mu.Lock()
	a := f.trying
	f.mu.Unlock()
	if a != nil {
		<-a.done
	}
	return f.Peek()
}
