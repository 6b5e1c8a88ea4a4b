package pool_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/pool"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A thing is an item that counts how many of it are open.
type thing struct {
	open     *atomic.Int32
	stateful bool
	over     atomic.Bool
	once     sync.Once
}

func (t *thing) Over() bool     { return t.over.Load() }
func (t *thing) Stateful() bool { return t.stateful }

func (t *thing) Close() error {
	t.over.Store(true)
	t.once.Do(func() { t.open.Add(-1) })
	return nil
}

// A shop opens things, each of which takes a while. As a pool.Want it wants one of them.
type shop struct {
	open, ever atomic.Int32
	takes      time.Duration
	stateful   bool
	fails      error
}

func (s *shop) Kind() any    { return "a" }
func (s *shop) Fits(any) int { return 1 }

func (s *shop) Open(ctx context.Context) (pool.Item, error) {
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s.fails != nil {
		return nil, s.fails
	}
	s.open.Add(1)
	s.ever.Add(1)
	return &thing{open: &s.open, stateful: s.stateful}, nil
}

func code(err error) int {
	if e, ok := errors.AsType[*dragoman.Error](err); ok {
		return e.Code
	}
	return 0
}

func TestOneCallersLimitLeavesRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shop
		p := pool.New(&pool.Options{Max: 4, PerCaller: 2})
		defer p.Close()
		take := func(who, session string) (*pool.Entry, error) {
			return p.Take(t.Context(), pool.Key{Caller: who, Session: session}, &s, pool.Use{})
		}
		for i := range 2 {
			if _, err := take("ada", fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := take("ada", "more"); code(err) != protocol.CodeOverloaded {
			t.Errorf("the third of one caller: %v", err)
		}
		if _, err := take("eve", "0"); err != nil {
			t.Errorf("another caller: %v", err)
		}
	})
}

func TestWhatIsNotWantedAnyMoreWhenItIsOpenIsClosed(t *testing.T) {
	for _, single := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := shop{takes: time.Minute}
			p := pool.New(&pool.Options{Idle: time.Hour})
			defer p.Close()
			key := pool.Key{Caller: "ada", Session: "1"}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := p.Take(ctx, key, &s, pool.Use{Single: single}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Take returns %v", err)
			}
			if !single {
				p.End(key) // its session has ended meanwhile
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if n, ever := s.open.Load(), s.ever.Load(); n != 0 || ever != 1 {
				t.Errorf("single %v: %d of %d are open", single, n, ever)
			}
		})
	}
}

func TestStatefulConversationGivesWayAfterAWhileAndNotAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shop{stateful: true}
		p := pool.New(&pool.Options{Max: 1})
		defer p.Close()
		e, err := p.Take(t.Context(), pool.Key{Caller: "ada"}, &s, pool.Use{})
		if err != nil {
			t.Fatal(err)
		}
		p.Release(e)
		began := time.Now()
		if e, err = p.Take(t.Context(), pool.Key{Caller: "eve"}, &s, pool.Use{}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < pool.Grace || took > 2*pool.Grace {
			t.Errorf("it gave way after %v", took)
		}
		p.Release(e)
		if e, err = p.Take(t.Context(), pool.Key{Caller: "ada"}, &s, pool.Use{}); err != nil || e.Renewed == "" {
			t.Errorf("who lost something is told %q, error %v", e.Renewed, err)
		}
	})
}

func TestNothingIsLeftOpenHoweverThingsEnd(t *testing.T) {
	for range 200 {
		s := shop{takes: time.Duration(1)}
		p := pool.New(nil)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				key := pool.Key{Caller: fmt.Sprint(i % 2), Session: fmt.Sprint(i % 3)}
				ctx, cancel := context.WithCancel(t.Context())
				if i%4 == 0 {
					cancel()
				}
				if e, err := p.Take(ctx, key, &s, pool.Use{Single: i%2 == 0}); err == nil {
					p.Release(e)
				}
				p.End(key)
				cancel()
			})
		}
		all.Go(p.Close)
		all.Wait()
		for end := time.Now().Add(10 * time.Second); s.open.Load() != 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d of %d are left open", s.open.Load(), s.ever.Load())
			}
		}
	}
}

func TestFailureToOpenIsToldToAllWhoWaitAndTakesNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shop{takes: time.Second, fails: errors.New("no")}
		p := pool.New(&pool.Options{Max: 1})
		defer p.Close()
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if _, err := p.Take(t.Context(), pool.Key{Caller: "ada"}, &s, pool.Use{}); !errors.Is(err, s.fails) {
					t.Errorf("Take returns %v", err)
				}
			})
		}
		all.Wait()
		s.fails = nil
		if _, err := p.Take(t.Context(), pool.Key{Caller: "eve"}, &s, pool.Use{}); err != nil {
			t.Errorf("the next: %v", err)
		}
	})
}

// Somebody has closed the conversation while it was being opened, such as for a restart.
func TestWhoComesLaterOpensAnotherInPlaceOfOneThatWasClosedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(nil)
		closed, s := &shop{takes: time.Second, fails: fmt.Errorf("closed: %w", dragoman.ErrClosed)}, &shop{takes: time.Second}
		key := pool.Key{Caller: "ann"}
		first := make(chan error, 1)
		go func() {
			_, err := p.Take(t.Context(), key, closed, pool.Use{})
			first <- err
		}()
		time.Sleep(s.takes / 2)
		second := make(chan error, 1)
		go func() {
			e, err := p.Take(t.Context(), key, s, pool.Use{})
			if err == nil {
				p.Release(e)
			}
			second <- err
		}()
		if err := <-first; !errors.Is(err, dragoman.ErrClosed) {
			t.Errorf("who opened it got %v", err)
		}
		if err := <-second; err != nil {
			t.Errorf("who came later got %v", err)
		}
		p.Close()
		if n := s.open.Load(); n != 0 {
			t.Errorf("%d are left open", n)
		}
	})
}
