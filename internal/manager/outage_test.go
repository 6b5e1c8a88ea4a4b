package manager

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// urlOf returns a configuration for a server in memory as if it were behind a URL.
func urlOf(c config.Server) *config.Server {
	c.URL = "http://127.0.0.1:1/mcp"
	return &c
}

// refusedAfter fails the test unless a request is refused as not sent, within a time.
func refusedAfter(t *testing.T, u *Upstream, within time.Duration) {
	t.Helper()
	began := time.Now()
	resp, err := call(t.Context(), u.Requests(), "echo", `{"text":"x"}`)
	refused(t, protocol.CodeUnavailable, resp, err)
	if took := time.Since(began); took > within {
		t.Errorf("a request was refused after %v, want %v at most", took, within)
	}
}

func TestS43_ServerThatHasNotBeenThereIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := modernServer()
		f.set(errAway)
		u := one(t, f, urlOf(config.Server{Restart: never}))
		for range 100 { // before the first attempt, and in every pause
			refusedAfter(t, u, 0)
			time.Sleep(170 * time.Millisecond)
		}
		if n := len(f.dialled()); n < 4 || n > 8 {
			t.Errorf("there were %d attempts in 17 seconds; requests make for none, and prevent none", n)
		}
		f.set(nil)
		time.Sleep(DefaultReconnectMax)
		synctest.Wait()
		echo(t, u.Requests())
	})
}

func TestS43_ServerThatNeverAnswersIsToldOfAtItsConnectTimeout(t *testing.T) {
	const limit = 3 * time.Second
	hang := func(ctx context.Context) (protocol.Era, error) {
		<-ctx.Done()
		return 0, context.Cause(ctx)
	}
	for name, spoil := range map[string]func(*fake, *target.Target){
		"when it is dialled":                func(f *fake, _ *target.Target) { f.hole = true },
		"when it is asked for its era":      func(f *fake, _ *target.Target) { f.mute = true },
		"when its transport finds that out": func(_ *fake, at *target.Target) { at.Probe = hang },
		"when it is greeted": func(f *fake, at *target.Target) {
			f.mute = true
			at.Probe = func(ctx context.Context) (protocol.Era, error) {
				time.Sleep(limit / 2)
				return protocol.Legacy, ctx.Err()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := legacyServer()
				m := manage(t, nil, nil)
				at := &target.Target{Name: "s", How: "memory", Dialer: f}
				spoil(f, at)
				m.target = func(*target.Spec) (*target.Target, error) { return at, nil }
				m.Apply([]*config.Server{urlOf(config.Server{Name: "s", ConnectTimeout: limit, Restart: never})})
				for range 20 { // whatever happens with the server when they come
					refusedAfter(t, m.Upstream("s"), limit)
					time.Sleep(350 * time.Millisecond)
				}
			})
		})
	}
}

func TestAttemptUnderWayIsWaitedForAlsoIfTheServerHasNotBeenThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := modernServer()
		inner := f.acceptor
		f.acceptor = dragoman.AcceptFunc(func(ctx context.Context, c dragoman.Conn) (dragoman.Peer, error) {
			time.Sleep(time.Second)
			return inner.Accept(ctx, c)
		})
		f.set(errAway)
		u := one(t, f, urlOf(config.Server{Retry: config.Retry{Min: 2 * time.Second}}))
		synctest.Wait()
		f.set(nil)
		time.Sleep(2500 * time.Millisecond) // it is being dialled
		if n := len(f.dialled()); n != 2 || u.State() != Starting {
			t.Fatalf("after %d attempts it is %q", n, u.State())
		}
		echo(t, u.Requests())
	})
}

func TestC11_ServerThatWasThereIsWaitedFor(t *testing.T) {
	for name, c := range map[string]*config.Server{"a command": {Restart: never}, "a URL": urlOf(config.Server{})} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := legacyServer()
				u := one(t, f, c)
				synctest.Wait()
				f.set(errAway)
				f.crash()
				synctest.Wait()
				done := make(chan int)
				go func() { done <- outcome(call(t.Context(), u.Requests(), "echo", `{"text":"x"}`)) }()
				time.Sleep(1300 * time.Millisecond)
				f.set(nil)
				if code := <-done; code != 0 {
					t.Errorf("a request that came while the server was restarted got %d", code)
				}
			})
		})
	}
}

func TestServerThatWasStoppedForWantOfUseIsNotWaitedForWhenItIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := legacyServer()
		u := one(t, f, urlOf(config.Server{Lazy: true, IdleStop: time.Minute}))
		echo(t, u.Requests())
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := u.State(); got != Idle {
			t.Fatalf("the state is %q, want %q", got, Idle)
		}
		f.set(errAway)
		for range 3 {
			refusedAfter(t, u, 0)
		}
		f.set(nil)
		time.Sleep(2 * time.Second)
		echo(t, u.Requests())
	})
}

func TestS34_ProcessThatEndsAtOnceIsStartedOnceInEachAttempt(t *testing.T) {
	for name, f := range map[string]*fake{"legacy": legacyServer(), "modern": modernServer()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := one(t, f.endsAt(""), nil)
				time.Sleep(8 * time.Second)
				dials := f.dialled()
				if len(dials) != DefaultRestartMax {
					t.Fatalf("it was started %d times, want %d before it is left alone", len(dials), DefaultRestartMax)
				}
				want := DefaultRetryMin
				for i := 1; i < len(dials); i++ {
					if got := dials[i].Sub(dials[i-1]); got < want*8/10 || got > want*12/10 {
						t.Errorf("start %d comes %v after the one before, want about %v", i+1, got, want)
					}
					want *= 2
				}
				refusedAfter(t, u, 0)
				time.Sleep(4 * DefaultRetryMax)
				if n := len(f.dialled()) - len(dials); n < 3 || n > 4 {
					t.Errorf("it was started %d times in two minutes, want a trial every %v", n, DefaultRetryMax)
				}
				if n, asked := f.saw(protocol.MethodInitialize), f.saw(protocol.MethodDiscover); n < 3 || asked < 3 {
					t.Errorf("it was asked for its era %d times and greeted %d times, want both in turns", asked, n)
				}
			})
		})
	}
}

func TestLegacyProcessThatEndsAtTheProbeComesUpAtItsSecondStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := legacyServer().endsAt(protocol.MethodDiscover)
		u := one(t, f, nil)
		began := time.Now()
		echo(t, u.Requests()) // who comes meanwhile waits
		if took := time.Since(began); took > DefaultRetryMin*12/10 {
			t.Errorf("it came up after %v", took)
		}
		if got := u.Status(); got.State != Ready || got.Era != protocol.Legacy.String() {
			t.Errorf("status: %+v", got)
		}
		if n := f.saw(protocol.MethodDiscover); n != 1 {
			t.Errorf("it was asked %d times for its era", n)
		}
	})
}

func TestLegacyServerBehindAURLThatHangsUpAtTheProbeComesUpAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := one(t, legacyServer().endsAt(protocol.MethodDiscover), urlOf(config.Server{}))
		began := time.Now()
		echo(t, u.Requests())
		if took := time.Since(began); took > 0 {
			t.Errorf("it came up after %v", took)
		}
	})
}
