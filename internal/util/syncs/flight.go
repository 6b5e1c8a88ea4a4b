package syncs

import (
	"context"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
)

// A Flight makes a value that many wait for, and keeps it. A failure is returned to
// those that wait, and the next caller tries again. The zero value is ready to use.
type Flight[T any] struct {
	mu      sync.Mutex
	value   *T          // nil if there is none; guarded by mu
	attempt *attempt[T] // nil if none is in progress; guarded by mu
}

type attempt[T any] struct {
	done  chan struct{} // closed when value and err are set
	value T
	err   error
}

// OnCaller is a start for Get that runs the attempt on the goroutine of the first caller.
func OnCaller(f func()) bool {
	f()
	return true
}

// Get returns the value. Without a value and without an attempt in progress, make makes it,
// on the goroutine that start chooses. If start reports that it runs nothing, because its
// owner is closed, the error is [dragoman.ErrClosed]. A caller waits until
// ctx ends, which does not end the attempt.
func (f *Flight[T]) Get(ctx context.Context, start func(func()) bool, make func() (T, error)) (T, error) {
	f.mu.Lock()
	if f.value != nil {
		defer f.mu.Unlock()
		return *f.value, nil
	}
	a := f.attempt
	if a != nil {
		f.mu.Unlock()
		return a.wait(ctx)
	}
	a = newAttempt[T]()
	f.attempt = a
	f.mu.Unlock()
	if !start(func() { f.try(a, make) }) {
		f.end(a)
	}
	return a.wait(ctx)
}

func newAttempt[T any]() *attempt[T] {
	return &attempt[T]{done: make(chan struct{}), err: dragoman.ErrClosed}
}

// wait returns the outcome of an attempt. One that has ended counts even if ctx has.
func (a *attempt[T]) wait(ctx context.Context) (T, error) {
	select {
	case <-a.done:
		return a.value, a.err
	default:
	}
	select {
	case <-a.done:
		return a.value, a.err
	case <-ctx.Done():
		var none T // the attempt may still write the value
		return none, context.Cause(ctx)
	}
}

func (f *Flight[T]) try(a *attempt[T], make func() (T, error)) {
	defer f.end(a) // also if make panics: others must not wait forever
	a.value, a.err = make()
}

// end ends an attempt and the wait for it.
func (f *Flight[T]) end(a *attempt[T]) {
	f.mu.Lock()
	f.attempt = nil
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

// Replace puts another value in the place of the one that is there.
func (f *Flight[T]) Replace(v T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.value = &v
}

// Forget removes the value, if it is still this one, and reports whether it
// was. A nil function stands for any value.
func (f *Flight[T]) Forget(same func(T) bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.value == nil || same != nil && !same(*f.value) {
		return false
	}
	f.value = nil
	return true
}

// Wait waits for the attempt in progress, if there is one, for so long at most.
func (f *Flight[T]) Wait(ctx context.Context, limit time.Duration) {
	f.mu.Lock()
	a := f.attempt
	f.mu.Unlock()
	if a == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, _ = a.wait(ctx) // the outcome is that of Get
}

// WaitValue waits for the attempt in progress, if there is one, and returns the value
// if it is there.
func (f *Flight[T]) WaitValue() (T, bool) {
	f.mu.Lock()
	a := f.attempt
	f.mu.Unlock()
	if a != nil {
		<-a.done
	}
	return f.Peek()
}
