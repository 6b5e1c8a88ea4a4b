package syncs_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/syncs"
)

// apart runs an attempt on a goroutine of its own.
func apart(f func()) bool {
	go f()
	return true
}

func TestManyWhoAskAtOnceShareOneAttempt(t *testing.T) {
	for name, start := range map[string]func(func()) bool{"here": syncs.OnCaller, "apart": apart} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var f syncs.Flight[int]
				made := 0
				var all sync.WaitGroup
				for range 8 {
					all.Go(func() {
						v, err := f.Get(t.Context(), start, func() (int, error) {
							made++
							time.Sleep(time.Second)
							return made, nil
						})
						if v != 1 || err != nil {
							t.Errorf("Get: %d, %v, want the first value", v, err)
						}
					})
				}
				all.Wait()
				if v, ok := f.Peek(); v != 1 || !ok {
					t.Errorf("Peek: %d, %v, want the value that was made", v, ok)
				}
			})
		})
	}
}

func TestAFailureIsReturnedToAllWhoWaitAndTheNextTriesAgain(t *testing.T) {
	var f syncs.Flight[int]
	broken := errors.New("broken")
	if _, err := f.Get(t.Context(), syncs.OnCaller, func() (int, error) { return 1, broken }); !errors.Is(err, broken) {
		t.Fatalf("Get: %v, want what make returned", err)
	}
	if _, ok := f.Peek(); ok {
		t.Error("a value is there after a failure")
	}
	if v, err := f.Get(t.Context(), syncs.OnCaller, func() (int, error) { return 2, nil }); v != 2 || err != nil {
		t.Errorf("the next Get: %d, %v", v, err)
	}
}

func TestACallerThatLeavesDoesNotEndTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f syncs.Flight[int]
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(gone) })
		make := func() (int, error) {
			time.Sleep(time.Minute)
			return 7, nil
		}
		if _, err := f.Get(ctx, apart, make); !errors.Is(err, gone) {
			t.Errorf("Get of who left: %v, want the reason", err)
		}
		f.Wait(t.Context(), time.Second)
		if _, ok := f.Peek(); ok {
			t.Error("the value is there before its time")
		}
		if v, ok := f.WaitValue(); v != 7 || !ok {
			t.Errorf("Last: %d, %v, want the value", v, ok)
		}
	})
}

func TestAClosedOwnerStartsNoAttempt(t *testing.T) {
	var f syncs.Flight[int]
	closed := func(func()) bool { return false }
	for range 2 {
		if _, err := f.Get(t.Context(), closed, func() (int, error) { return 1, nil }); !errors.Is(err, dragoman.ErrClosed) {
			t.Errorf("Get: %v, want ErrClosed", err)
		}
	}
}

func TestS61_APanicEndsTheWaitOfOthers(t *testing.T) {
	var f syncs.Flight[int]
	func() {
		defer func() { _ = recover() }()
		_, _ = f.Get(t.Context(), syncs.OnCaller, func() (int, error) { panic("broken") })
	}()
	if v, err := f.Get(t.Context(), syncs.OnCaller, func() (int, error) { return 2, nil }); v != 2 || err != nil {
		t.Errorf("Get after a panic: %d, %v", v, err)
	}
}

func TestOnlyTheSameValueIsForgotten(t *testing.T) {
	var f syncs.Flight[int]
	f.Replace(1)
	if f.Forget(func(v int) bool { return v == 2 }) {
		t.Error("another value was forgotten")
	}
	if !f.Forget(nil) || f.Forget(nil) {
		t.Error("the value was not forgotten once")
	}
}
