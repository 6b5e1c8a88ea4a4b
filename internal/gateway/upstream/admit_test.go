package upstream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestS37_RequestsUnderWayAreBoundedAndOthersWaitASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := modernServer()
		u := one(t, f, &config.Server{Calls: 4, Queue: 3})
		synctest.Wait()
		type end struct {
			code int
			took time.Duration
		}
		ends := make(chan end, 10)
		for range 10 {
			go func() {
				began := time.Now()
				code := codeOf(call(t.Context(), u.Service().Requests(), "slow", `{"ms":5000}`))
				ends <- end{code, time.Since(began)}
			}()
		}
		synctest.Wait()
		if s := u.Status(); s.InFlight != 4 || s.Waiting != 3 {
			t.Errorf("status: %+v, want 4 in progress and 3 that wait", s)
		}
		got := make(map[end]int)
		for range 10 {
			got[<-ends]++
		}
		want := map[end]int{{0, 5 * time.Second}: 4, {protocol.CodeOverloaded, MaxAdmission}: 3, {protocol.CodeOverloaded, 0}: 3}
		for e, n := range want {
			if got[e] != n {
				t.Errorf("%d requests ended with %+v, want %d; all: %v", got[e], e, n, got)
			}
		}
		if n := f.saw(protocol.MethodCallTool); n != 4 {
			t.Errorf("the server saw %d calls, want 4", n)
		}
	})
}

func TestWhoWaitsIsLetInInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := one(t, modernServer(), &config.Server{Calls: 1})
		synctest.Wait()
		done := make(chan int, 3)
		for range 3 {
			go func() { done <- codeOf(call(t.Context(), u.Service().Requests(), "slow", `{"ms":300}`)) }()
			synctest.Wait()
		}
		for range 3 {
			if code := <-done; code != 0 {
				t.Errorf("one that waited for less than a second got %d", code)
			}
		}
		if s := u.Status(); s.InFlight != 0 || s.Waiting != 0 {
			t.Errorf("status: %+v", s)
		}
	})
}

func TestSubscriptionsDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := one(t, modernServer(), &config.Server{Calls: 1})
		synctest.Wait()
		for range 3 {
			go func() {
				_, _ = ask(t.Context(), u.Service().Requests(), protocol.MethodListen, `{"notifications":{"toolsListChanged":true}}`)
			}()
		}
		synctest.Wait()
		echo(t, u.Service().Requests())
	})
}

func TestToolMayTakeLongerOrShorterThanOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := one(t, modernServer(), &config.Server{
			Timeout: 10 * time.Second,
			Tools:   config.Tools{Timeout: map[string]time.Duration{"slow": time.Minute, "wait": time.Second}},
		})
		synctest.Wait()
		if code := codeOf(call(t.Context(), u.Service().Requests(), "slow", `{"ms":30000}`)); code != 0 {
			t.Errorf("the tool with a minute got %d after half of it", code)
		}
		began := time.Now()
		if code := codeOf(call(t.Context(), u.Service().Requests(), "wait", `{}`)); code != protocol.CodeTimeout || time.Since(began) != time.Second {
			t.Errorf("the tool with a second got %d after %v", code, time.Since(began))
		}
	})
}
