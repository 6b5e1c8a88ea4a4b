package upstream

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
)

// replaced applies a configuration in which the server "s" is another, and returns
// the one before.
func replaced(t *testing.T, m *Manager) *Upstream {
	t.Helper()
	old := m.Upstream("s")
	if got := m.Apply([]*config.Server{{Name: "s", Command: "memory", Timeout: time.Minute}}); len(got.Replaced) != 1 {
		t.Fatalf("changes: %+v", got)
	}
	return old
}

func TestReplacedServerServesUntilItIsRetired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := modernServer()
		u := one(t, f, nil)
		old := replaced(t, u.manager)
		synctest.Wait()
		if echo(t, old.Requests()); old.draining.Load() || f.open() != 3 {
			t.Errorf("%d conversations are open, want one of our own with each, and the client's", f.open())
		}
		if !old.Retire(t.Context()) || f.open() != 1 {
			t.Errorf("when the old one is retired, %d conversations are open", f.open())
		}
		echo(t, old.Requests()) // by the new one
	})
}

func TestRequestThatWaitsForAReplacedServerGoesToTheOneInItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := modernServer()
		f.setMute(true)
		u := one(t, f, nil)
		answered := make(chan int)
		go func() { answered <- outcome(call(t.Context(), u.Requests(), "echo", `{"text":"x"}`)) }() // ends with its answer
		synctest.Wait()
		f.setMute(false)
		old := replaced(t, u.manager)
		old.Retire(t.Context())
		if code := <-answered; code != 0 {
			t.Errorf("it got %d", code)
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
