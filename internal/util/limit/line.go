package limit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Why nobody enters a Line.
var (
	ErrFull = errors.New("limit: too many wait")
	ErrLate = errors.New("limit: no place was free in time")
)

// A Line is a Room before which some may wait, and enter in their order. Zero for Max
// means no bound.
type Line struct {
	Max, Queue int

	mu      sync.Mutex
	used    int
	waiting int
	line    []chan struct{} // those who wait for a place, in their order
}

// Enter takes a place until Leave. If there is none it waits, for patience at most. The
// error is ErrFull, ErrLate, or that of ctx.
func (l *Line) Enter(ctx context.Context, patience time.Duration) error {
	l.mu.Lock()
	if l.Max <= 0 || l.used < l.Max && len(l.line) == 0 {
		l.used++
		l.mu.Unlock()
		return nil
	}
	if l.waiting >= l.Queue {
		l.mu.Unlock()
		return ErrFull
	}
	l.waiting++
	turn := make(chan struct{})
	l.line = append(l.line, turn)
	l.mu.Unlock()

	err := await(ctx, turn, patience)
	l.mu.Lock()
	l.waiting--
	at := slices.Index(l.line, turn)
	if at >= 0 {
		l.line = slices.Delete(l.line, at, at+1)
	}
	l.mu.Unlock()
	switch {
	case at >= 0:
		return err
	case err != nil && ctx.Err() != nil:
		l.Leave() // its turn came too late
		return err
	}
	return nil
}

// await waits for a turn. The error is ErrLate or that of ctx.
func await(ctx context.Context, turn <-chan struct{}, patience time.Duration) error {
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-turn:
		return nil
	case <-t.C:
		return ErrLate
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Leave gives a place back, to who waits first, and reports whether all are free now.
func (l *Line) Leave() (empty bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.line) > 0 {
		close(l.line[0])
		l.line = l.line[1:]
		return false
	}
	l.used--
	return l.used == 0
}

// Queued counts one more who waits, for something else than a place, until leave. It is
// false if too many wait.
func (l *Line) Queued() (leave func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting >= l.Queue {
		return nil, false
	}
	l.waiting++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.waiting--
	}, true
}

// Counts returns how many places are taken, and how many wait.
func (l *Line) Counts() (used, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used, l.waiting
}
