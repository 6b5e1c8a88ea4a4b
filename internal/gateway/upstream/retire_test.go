package upstream

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// replaced applies a configuration in which the server "s" is another, and returns
// the one before.
func replaced(t *testing.T, m *Manager) *Upstream {
	t.Helper()
	old := m.Upstream("s")
	got, gone := m.Apply([]*config.Server{{Name: "s", Command: "memory", Timeout: old.Config().Timeout + time.Minute}})
	if len(got.Replaced) != 1 || !slices.Equal(gone, []*Upstream{old}) {
		t.Fatalf("changes: %+v, to retire: %v", got, gone)
	}
	return old
}

func TestReplacedServerFinishesItsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := modernServer()
		u := one(t, f, nil)
		answered := make(chan int)
		go func() { answered <- outcome(call(t.Context(), u.Service().Requests(), "slow", `{"ms":5000}`)) }() // ends with its answer
		synctest.Wait()
		old := replaced(t, u.manager)
		synctest.Wait()
		if echo(t, u.Service().Requests()); old.draining.Load() || f.open() != 4 {
			t.Errorf("%d connections are open, want one of the supervisor with each, and a client's", f.open())
		}
		retired := make(chan bool)
		go func() { retired <- old.Retire(t.Context()) }() // ends with the call
		if code := <-answered; code != 0 {
			t.Errorf("the call that the old one had begun got %d", code)
		}
		if !<-retired || f.open() != 2 {
			t.Errorf("when the old one is retired, %d connections are open", f.open())
		}
	})
}

func TestRequestThatWaitsForAReplacedServerGoesToTheOneInItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := modernServer()
		f.setMute(true)
		u := one(t, f, nil)
		answered := make(chan int)
		go func() { answered <- outcome(call(t.Context(), u.Service().Requests(), "echo", `{"text":"x"}`)) }() // ends with its answer
		synctest.Wait()
		f.setMute(false)
		old := replaced(t, u.manager)
		old.Retire(t.Context())
		if code := <-answered; code != 0 {
			t.Errorf("it got %d", code)
		}
	})
}

// One session only calls tools, the other waits for updates of a resource.
func TestOpenSessionContinuesAtTheServerThatReplacesItsOwn(t *testing.T) {
	for name, server := range map[string]func() *fake{"legacy": legacyServer, "modern": modernServer} {
		t.Run(name+" server", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := server()
				u := one(t, f, nil)
				calls, waits := join(t, u, "one"), join(t, u, "two")
				const uri = "test://static-text"
				if resp, err := waits.ask(protocol.MethodSubscribe, fmt.Sprintf(`{"uri":%q}`, uri)); outcome(resp, err) != 0 {
					t.Fatalf("subscribe: %v %v", resp, err)
				}
				for range 3 {
					waits.mu.Lock()
					waits.received = nil
					waits.mu.Unlock()
					old := replaced(t, u.manager)
					synctest.Wait()
					waits.mu.Lock()
					if !slices.Contains(waits.received, protocol.NoteResourceUpdated) {
						t.Errorf("the session that has subscribed is notified of %q", waits.received)
					}
					waits.mu.Unlock()
					for range 2 { // before and after the old one is retired
						for _, c := range []*legacyClient{calls, waits} {
							if resp, err := c.call("echo", `{"text":"x"}`); outcome(resp, err) != 0 {
								t.Errorf("echo: %v %v", resp, err)
							}
						}
						old.Retire(t.Context())
					}
					if got := old.service.Upstream().Status(); got.Sessions != 2 {
						t.Errorf("%d sessions are counted, want 2", got.Sessions)
					}
				}
			})
		})
	}
}

func TestRequestOfASessionThatWaitsForAReplacedServerGoesToTheOneInItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := legacyServer()
		u := one(t, f, nil)
		c := join(t, u, "one")
		f.set(context.DeadlineExceeded)
		f.crash()
		answered := make(chan int)
		go func() { answered <- outcome(c.call("echo", `{"text":"x"}`)) }() // ends with its answer
		synctest.Wait()
		f.set(nil)
		replaced(t, u.manager).Retire(t.Context())
		if code := <-answered; code != 0 {
			t.Errorf("it got %d", code)
		}
	})
}

func TestSessionThatCannotBeRepeatedTriesAgainAtItsNextRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := legacyServer()
		u := one(t, f, nil)
		c := join(t, u, "one")
		f.setMute(true)
		old := replaced(t, u.manager)
		old.Retire(t.Context())
		if code := outcome(c.call("echo", `{"text":"x"}`)); code != protocol.CodeUnavailable {
			t.Errorf("while the new server does not answer, a call gets %d", code)
		}
		f.setMute(false)
		time.Sleep(time.Minute)
		if resp, err := c.call("echo", `{"text":"x"}`); outcome(resp, err) != 0 {
			t.Errorf("when it answers: %v %v", resp, err)
		}
	})
}

func TestSubscriptionEndsInGoodOrderWhenItsServerIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := one(t, modernServer(), nil)
		ended := make(chan int)
		go func() { // ends with the subscription
			ended <- outcome(ask(t.Context(), u.Service().Requests(), protocol.MethodListen, `{"notifications":{"toolsListChanged":true}}`))
		}()
		synctest.Wait()
		replaced(t, u.manager)
		if code := <-ended; code != 0 {
			t.Errorf("it ends with %d", code)
		}
	})
}

func TestShutdownStopsAlsoWhatIsNotRetired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := modernServer()
		u := one(t, f, nil)
		replaced(t, u.manager)
		synctest.Wait()
		if err := u.manager.Shutdown(context.Background()); err != nil || f.open() != 0 {
			t.Errorf("%d conversations are open, error %v", f.open(), err)
		}
	})
}
