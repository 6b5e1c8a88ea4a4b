package upstream

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/protocol"
)

var errAway = errors.New("nobody is at home")

// never keeps the breaker out of a test.
var never = config.Restart{Max: 1000}

func TestC09_AttemptsWaitTwiceAsLongEachTimeUpToTheLongest(t *testing.T) {
	for _, c := range []struct {
		name     string
		server   config.Server
		min, max time.Duration
	}{
		{"a command", config.Server{}, 250 * time.Millisecond, 30 * time.Second},
		{"a URL", config.Server{URL: "http://127.0.0.1:1"}, time.Second, 10 * time.Second},
		{"as the configuration says", config.Server{Retry: config.Retry{Min: 2 * time.Second, Max: 5 * time.Second}}, 2 * time.Second, 5 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := modernServer()
				f.set(errAway)
				c.server.Restart = never
				one(t, f, &c.server)
				time.Sleep(4 * time.Minute)
				dials := f.dialled()
				if len(dials) < 10 {
					t.Fatalf("there were %d attempts in four minutes; it is tried forever", len(dials))
				}
				want := c.min
				for i := 1; i < len(dials); i++ {
					got := dials[i].Sub(dials[i-1])
					if got < want*8/10 || got > want*12/10 || got > c.max {
						t.Errorf("wait %d: got %v, want about %v and at most %v", i, got, want, c.max)
					}
					want = min(2*want, c.max)
				}
			})
		})
	}
}

func TestS34_BreakerOpensAfterFiveStartsAndAnswersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := modernServer()
		f.set(errAway)
		u := one(t, f, nil)
		time.Sleep(8 * time.Second)
		if n := len(f.dialled()); n != DefaultRestartMax {
			t.Fatalf("there were %d attempts, want %d before it is left alone", n, DefaultRestartMax)
		}
		began := time.Now()
		resp, err := call(t.Context(), u.Service().Requests(), "echo", `{"text":"x"}`)
		r := refused(t, protocol.CodeUnavailable, resp, err)
		if took := time.Since(began); took > 50*time.Millisecond {
			t.Errorf("the answer took %v, want none of the time", took)
		}
		if !strings.Contains(r.Reason, errAway.Error()) || r.Server != "s" || r.RetryMS <= 0 {
			t.Errorf("the refusal says too little: %+v", r)
		}
		if got := u.State(); got != BackingOff {
			t.Errorf("the state is %q, want %q", got, BackingOff)
		}

		// One trial each time that it has cooled down.
		time.Sleep(DefaultRetryMax)
		synctest.Wait()
		if n := len(f.dialled()); n != DefaultRestartMax+1 {
			t.Fatalf("there were %d attempts, want one trial more than %d", n, DefaultRestartMax)
		}
		f.set(nil)
		time.Sleep(DefaultRetryMax)
		synctest.Wait()
		if got := u.State(); got != Ready {
			t.Fatalf("the state is %q after a trial that succeeds, want %q", got, Ready)
		}
		echo(t, u.Service().Requests())
	})
}

func TestC11_D21_Pain11_ServerThatWasLostComesBackByItself(t *testing.T) {
	for name, f := range map[string]*fake{"legacy": legacyServer(), "modern": modernServer()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := one(t, f, nil)
				synctest.Wait()
				if got := u.State(); got != Ready {
					t.Fatalf("the state is %q, want %q", got, Ready)
				}
				f.crash()
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if got := u.State(); got != Ready {
					t.Fatalf("the state is %q two seconds after a crash, want %q", got, Ready)
				}
				echo(t, u.Service().Requests())
				if s := u.Status(); s.Restarts == 0 {
					t.Errorf("status: %+v, want a restart", s)
				}
			})
		})
	}
}

func TestC10_C11_RequestsWaitForAServerThatIsAwayAndAreSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := legacyServer()
		u := one(t, f, nil)
		synctest.Wait()
		f.set(errAway)
		f.crash()
		synctest.Wait()
		done := make(chan int, 3)
		for range 3 {
			go func() {
				done <- codeOf(call(t.Context(), u.Service().Requests(), "echo", `{"text":"x"}`))
			}()
		}
		synctest.Wait()
		if s := u.Status(); s.Waiting != 3 {
			t.Fatalf("status: %+v, want three that wait", s)
		}
		f.set(nil)
		for range 3 {
			if code := <-done; code != 0 {
				t.Errorf("a request that waited failed with %d", code)
			}
		}
		if n := f.saw(protocol.MethodCallTool); n != 3 {
			t.Errorf("the server saw %d calls, want 3", n)
		}
	})
}

func TestC11_QueueForAServerThatIsAwayIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := modernServer()
		u := one(t, f, &config.Server{Queue: 2, Restart: never, Retry: config.Retry{Attempts: 100}})
		synctest.Wait()
		f.set(errAway)
		f.crash()
		synctest.Wait()
		done := make(chan time.Duration, 2)
		for range 2 {
			go func() {
				began := time.Now()
				resp, err := call(t.Context(), u.Service().Requests(), "echo", `{"text":"x"}`)
				refused(t, protocol.CodeUnavailable, resp, err)
				done <- time.Since(began)
			}()
		}
		synctest.Wait()
		resp, err := call(t.Context(), u.Service().Requests(), "echo", `{"text":"x"}`)
		refused(t, protocol.CodeOverloaded, resp, err)
		for range 2 {
			if took := <-done; took > MaxOutage || took < MaxOutage/2 {
				t.Errorf("a request waited for %v, want most of %v", took, MaxOutage)
			}
		}
		if n := f.saw(protocol.MethodCallTool); n != 0 {
			t.Errorf("the server saw %d calls, want none", n)
		}
	})
}

func TestC09_RequestFailsAfterItsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := modernServer()
		f.set(errAway)
		u := one(t, f, &config.Server{Lazy: true, Restart: never})
		synctest.Wait()
		if n := len(f.dialled()); n != 0 || u.State() != Idle {
			t.Fatalf("a lazy server was dialled %d times and is %q", n, u.State())
		}
		began := time.Now()
		resp, err := call(t.Context(), u.Service().Requests(), "echo", `{"text":"x"}`)
		refused(t, protocol.CodeUnavailable, resp, err)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		n := len(f.dialled())
		if n < DefaultRetryAttempts {
			t.Errorf("there were %d attempts, want at least %d", n, DefaultRetryAttempts)
		}
		time.Sleep(10 * time.Minute)
		if more := len(f.dialled()); more > n+1 {
			t.Errorf("a lazy server was dialled %d times more although nobody asked", more-n)
		}
	})
}

// dialling returns a supervisor of a lazy server, for who dials through it.
func dialling(t *testing.T, f *fake) *supervisor {
	t.Helper()
	u := one(t, f, &config.Server{Lazy: true, Retry: config.Retry{Attempts: 1}, Restart: config.Restart{Max: 3}})
	return u.supervisor
}

func TestConversationThatWeCloseIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := dialling(t, modernServer())
		for range 5 {
			conn, err := s.Dial(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if got := s.up.Status(); got.State != Idle || got.Connections != 0 || s.failures != 0 {
			t.Errorf("status: %+v: a closed conversation is taken for a failure, or for open", got)
		}
	})
}

func TestWhatFailsTogetherCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := modernServer()
		s := dialling(t, f)
		for range 10 {
			if _, err := s.Dial(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		f.crash()
		synctest.Wait()
		if s.failures != 1 || s.breaker.open() {
			t.Errorf("ten conversations that end at once are %d failures", s.failures)
		}
	})
}

func TestLongLivedServerThatEndsIsNoCrashLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := modernServer()
		u := one(t, f, &config.Server{Restart: config.Restart{Max: 2}})
		for range 5 {
			time.Sleep(2 * DefaultRestartWindow)
			synctest.Wait()
			f.crash()
			time.Sleep(time.Second)
			synctest.Wait()
			if got := u.State(); got != Ready {
				t.Fatalf("the state is %q a second after the crash, want %q", got, Ready)
			}
		}
	})
}

func TestRetryAfterIsHonoured(t *testing.T) {
	const wait = 20 * time.Second
	for _, refusal := range []error{
		&protocol.StatusError{Status: 429, RetryAfter: wait},
		&protocol.StatusError{Status: 503, RetryAfter: wait},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := modernServer()
			f.set(refusal)
			one(t, f, &config.Server{URL: "http://127.0.0.1:1/mcp"})
			time.Sleep(time.Minute)
			dials := f.dialled()
			if len(dials) < 2 {
				t.Fatalf("%v: it was not tried again", refusal)
			}
			for i := 1; i < len(dials); i++ {
				if got := dials[i].Sub(dials[i-1]); got < wait {
					t.Errorf("%v: attempt %d came after %v, want %v at least", refusal, i, got, wait)
				}
			}
		})
	}
}

func TestServerThatHangsInItsStartIsStopped(t *testing.T) {
	for name, f := range map[string]*fake{"legacy": legacyServer(), "modern": modernServer()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f.setMute(true)
				u := one(t, f, &config.Server{ConnectTimeout: 9 * time.Second})
				time.Sleep(9*time.Second + 200*time.Millisecond)
				synctest.Wait()
				if n := f.open(); n != 0 {
					t.Errorf("%d conversations are open with a server that hangs", n)
				}
				if s := u.Status(); s.State != BackingOff || !strings.Contains(s.LastError, "does not answer") {
					t.Errorf("status: %+v", s)
				}
				f.setMute(false)
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := u.State(); got != Ready {
					t.Errorf("the state is %q after it answers, want %q", got, Ready)
				}
			})
		})
	}
}

func TestModernServerThatFailsAtFirstIsNotTakenForALegacyOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := modernServer()
		f.setMute(true)
		u := one(t, f, nil)
		time.Sleep(time.Second)
		f.crash() // in the middle of the probe
		f.set(errAway)
		time.Sleep(time.Second)
		f.set(nil)
		f.setMute(false)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if s := u.Status(); s.State != Ready || s.Era != protocol.Modern.String() {
			t.Errorf("status: %+v, want a modern server that is ready", s)
		}
	})
}

func TestModernServerThatAnswersTheProbeLateIsStartedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := modernServer()
		inner := f.acceptor
		f.acceptor = dragoman.AcceptFunc(func(ctx context.Context, c dragoman.Conn) (dragoman.Peer, error) {
			peer, err := inner.Accept(ctx, c)
			starting := time.After(7 * time.Second) // longer than a handshake is put off
			return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
				if starting != nil {
					<-starting
					starting = nil
				}
				return peer.Call(ctx, req, from)
			}, OnNotify: peer.Notify}, err
		})
		u := one(t, f, nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if s := u.Status(); s.State != Ready || s.Era != protocol.Modern.String() || u.supervisor.starts != 1 {
			t.Errorf("status: %+v after %d starts, want a modern server that was started once", s, u.supervisor.starts)
		}
		if n := len(f.dialled()); n != 2 {
			t.Errorf("%d conversations were opened, want the probe's and the handshake's", n)
		}
	})
}

func TestShutdownWhileAServerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := modernServer()
		f.set(errAway)
		u := one(t, f, nil)
		synctest.Wait()
		code := make(chan int)
		go func() { code <- codeOf(call(t.Context(), u.Service().Requests(), "echo", `{"text":"x"}`)) }()
		synctest.Wait()
		if err := u.manager.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := <-code; got != protocol.CodeDraining {
			t.Errorf("a request that waited got %d, want %d", got, protocol.CodeDraining)
		}
		if _, err := u.Service().Accept(t.Context(), nil); codeOf(nil, err) != protocol.CodeDraining {
			t.Errorf("Accept after Shutdown: %v", err)
		}
		if got := u.State(); got != Stopped {
			t.Errorf("the state is %q, want %q", got, Stopped)
		}
	})
}

var _ dragoman.Dialer = (*fake)(nil)

func TestLegacyServerThatDoesNotAnswerTheProbeComesUpAlsoAfterALongOutage(t *testing.T) {
	for what, probed := range map[string]func(context.Context, dragoman.Conn) error{
		"it ends": func(_ context.Context, c dragoman.Conn) error {
			_ = c.Close()
			return dragoman.ErrClosed
		},
		"it says nothing": func(ctx context.Context, _ dragoman.Conn) error {
			<-ctx.Done()
			return context.Cause(ctx)
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := legacyServer()
				inner := f.acceptor
				f.acceptor = dragoman.AcceptFunc(func(ctx context.Context, c dragoman.Conn) (dragoman.Peer, error) {
					peer, err := inner.Accept(ctx, c)
					return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
						if req.Method() == protocol.MethodDiscover {
							return nil, probed(ctx, c)
						}
						return peer.Call(ctx, req, from)
					}, OnNotify: peer.Notify}, err
				})
				f.set(errAway)
				u := one(t, f, nil)
				time.Sleep(10 * time.Minute)
				f.set(nil)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if s := u.Status(); s.State != Ready || s.Era != protocol.Legacy.String() {
					t.Errorf("status: %+v, want a legacy server that is ready", s)
				}
				echo(t, u.Service().Requests())
			})
		})
	}
}

func TestRestartAtAnyMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := legacyServer()
		u := one(t, f, &config.Server{Restart: never})
		for range 50 { // some while it starts
			if err := u.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if got := u.State(); got != Ready {
			t.Errorf("the state is %q, want %q", got, Ready)
		}
		f.set(errAway)
		if err := u.Restart(t.Context()); codeOf(nil, err) != protocol.CodeUnavailable {
			t.Errorf("Restart of a server that does not start: %v", err)
		}
		f.set(nil)
		if err := u.Restart(t.Context()); err != nil {
			t.Errorf("Restart while it backs off: %v", err)
		}
		echo(t, u.Service().Requests())
	})
}
