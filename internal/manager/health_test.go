package manager

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestServerThatDoesNotAnswerIsDegradedThenLost(t *testing.T) {
	for name, f := range map[string]*fake{"legacy": legacyServer(), "modern": modernServer()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := one(t, f, nil)
				synctest.Wait()
				dials := len(f.dialled())
				f.setMute(true)
				time.Sleep(DefaultHealthInterval + pingTimeout + time.Second)
				synctest.Wait()
				if got := u.State(); got != Degraded {
					t.Errorf("the state is %q after one look, want %q", got, Degraded)
				}
				time.Sleep(2 * (DefaultHealthInterval + pingTimeout))
				synctest.Wait()
				if got := u.State(); got != BackingOff && got != Starting {
					t.Errorf("the state is %q after three looks, want %q, or %q again", got, BackingOff, Starting)
				}
				f.setMute(false)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if got := u.State(); got != Ready || len(f.dialled()) == dials {
					t.Errorf("the state is %q after it answers, with %d dials", got, len(f.dialled()))
				}
			})
		})
	}
}

func TestHealthIsNotLookedAtWhileOthersAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := modernServer()
		u := one(t, f, &config.Server{Health: config.Health{Interval: time.Minute}})
		synctest.Wait()
		echo(t, u.Requests()) // and with it the caller's conversation begins
		asked := f.saw(protocol.MethodDiscover)
		for range 100 {
			time.Sleep(6 * time.Second)
			echo(t, u.Requests())
		}
		if n := f.saw(protocol.MethodDiscover); n != asked {
			t.Errorf("the server was asked %d times whether it is there", n-asked)
		}
		time.Sleep(3 * time.Minute)
		if n := f.saw(protocol.MethodDiscover); n <= asked {
			t.Error("the server was not asked although nobody else did")
		}
	})
}

func TestServerThatNobodyUsesIsStoppedAndStartedAgain(t *testing.T) {
	for name, f := range map[string]*fake{"legacy": legacyServer(), "modern": modernServer()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := one(t, f, &config.Server{IdleStop: time.Minute, Health: config.Health{Interval: -1}})
				c := join(t, u, "alice")
				time.Sleep(50 * time.Second)
				echo(t, u.Requests())
				time.Sleep(50 * time.Second)
				if got := u.State(); got != Ready {
					t.Fatalf("the state is %q although it is in use, want %q", got, Ready)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if s := u.Status(); s.State != Idle || f.open() != 0 || s.LastError != "" {
					t.Fatalf("unused: %d conversations, status %+v", f.open(), s)
				}
				if resp := listed(t, u, protocol.MethodListTools); !isCached(resp) || u.State() != Idle {
					t.Error("a list that is known wakes the server")
				}
				if resp, err := c.call("echo", `{"text":"x"}`); codeOf(resp, err) != 0 || err != nil {
					t.Errorf("a session that was open all along: %v %v", resp, err)
				}
				synctest.Wait()
				if got := u.State(); got != Ready {
					t.Errorf("the state is %q after a request, want %q", got, Ready)
				}
				echo(t, u.Requests())
			})
		})
	}
}
