package upstream

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
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
	resp, err := call(t.Context(), u.Service().Requests(), "echo", `{"text":"x"}`)
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
		if n := len(f.dialled()); n < 12 || n > 19 {
			t.Errorf("there were %d attempts in 17 seconds; requests make for one a second", n)
		}
		f.set(nil)
		time.Sleep(DefaultReconnectMax)
		synctest.Wait()
		echo(t, u.Service().Requests())
	})
}

// requestsAtOnce makes so many requests side by side, and returns the codes of the outcomes and how long they took.
func requestsAtOnce(t *testing.T, u *Upstream, n int, request func() (*dragoman.Message, error)) (codes map[int]int, took time.Duration) {
	t.Helper()
	began, outcomes := time.Now(), make(chan int, n)
	for range n {
		go func() { outcomes <- outcome(request()) }()
	}
	codes = make(map[int]int)
	for range n {
		codes[<-outcomes]++
	}
	return codes, time.Since(began)
}

func TestRequestFindsAServerBehindAURLThatIsBack(t *testing.T) {
	const lots = 50
	requests := map[string]func(*testing.T, *Upstream) (*dragoman.Message, error){
		"a call": func(t *testing.T, u *Upstream) (*dragoman.Message, error) {
			return call(t.Context(), u.Service().Requests(), "echo", `{"text":"x"}`)
		},
		"a list": func(t *testing.T, u *Upstream) (*dragoman.Message, error) {
			return ask(t.Context(), u.Service().Requests(), protocol.MethodListTools, `{}`)
		},
	}
	for name, c := range map[string]struct {
		was bool // it has been there
		of  func() *fake
	}{
		"was there, legacy": {true, legacyServer}, "was there, modern": {true, modernServer},
		"was never there, legacy": {false, legacyServer}, "was never there, modern": {false, modernServer},
	} {
		for what, request := range requests {
			t.Run(name+", "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := c.of()
					if !c.was {
						f.set(errAway)
					}
					u := one(t, f, urlOf(config.Server{}))
					synctest.Wait()
					if c.was {
						f.set(errAway)
						f.crash()
					}
					time.Sleep(time.Minute) // attempts are about ten seconds apart by now
					dials := f.dialled()
					time.Sleep(time.Until(dials[len(dials)-1].Add(12 * time.Second)))
					for dials = f.dialled(); time.Since(dials[len(dials)-1]) < 2*time.Second; dials = f.dialled() {
						time.Sleep(time.Second)
					}
					f.set(nil)
					before := len(dials)
					codes, took := requestsAtOnce(t, u, lots, func() (*dragoman.Message, error) { return request(t, u) })
					if codes[0] != lots || took > 0 {
						t.Errorf("after %v the outcomes are %v", took, codes)
					}
					if n := len(f.dialled()) - before; n > 3 { // two of ours, and the callers'
						t.Errorf("%d requests made for %d attempts", lots, n)
					}
				})
			})
		}
	}
}

func TestAttemptsForRequestsAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		conf        *config.Server
		away        error
		least, most int // attempts in 20 seconds
	}{
		"a URL":                      {urlOf(config.Server{}), errAway, 15, 22},
		"a URL that is left alone":   {urlOf(config.Server{Retry: config.Retry{Min: 5 * time.Second}}), errAway, 3, 5},
		"a URL that asks for a wait": {urlOf(config.Server{}), &protocol.StatusError{Status: 503, RetryAfter: time.Minute}, 0, 0},
		"a command":                  {&config.Server{Retry: config.Retry{Min: 10 * time.Second, Max: 10 * time.Second}}, errAway, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := legacyServer()
				f.set(c.away)
				u := one(t, f, c.conf)
				time.Sleep(30 * time.Second)
				before := len(f.dialled())
				for range 200 {
					refusedAfter(t, u, MaxOutage)
					time.Sleep(100 * time.Millisecond)
				}
				if n := len(f.dialled()) - before; n < c.least || n > c.most {
					t.Errorf("there were %d attempts, want %d to %d", n, c.least, c.most)
				}
			})
		})
	}
}

// A server that is its clients' only is reached by each of them.
func TestClientOfAServerThatStandsAloneFindsItBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := legacyServer()
		f.set(errAway)
		m := manage(t, &Options{Unsupervised: true}, map[string]*fake{"s": f})
		m.Apply([]*config.Server{urlOf(config.Server{Name: "s"})})
		u := m.Upstream("s")
		for range 10 {
			_, _ = call(t.Context(), u.Service().Requests(), "echo", `{"text":"x"}`)
			time.Sleep(1500 * time.Millisecond)
		}
		f.set(nil)
		codes, took := requestsAtOnce(t, u, 50, func() (*dragoman.Message, error) {
			return call(t.Context(), u.Service().Requests(), "echo", `{"text":"x"}`)
		})
		if codes[0] != 50 || took > 0 {
			t.Errorf("after %v the outcomes are %v", took, codes)
		}
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
		echo(t, u.Service().Requests())
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
				go func() { done <- outcome(call(t.Context(), u.Service().Requests(), "echo", `{"text":"x"}`)) }()
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
		echo(t, u.Service().Requests())
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
		echo(t, u.Service().Requests())
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
		echo(t, u.Service().Requests()) // who comes meanwhile waits
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
		echo(t, u.Service().Requests())
		if took := time.Since(began); took > 0 {
			t.Errorf("it came up after %v", took)
		}
	})
}
