//go:build unix

package gateway

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// TestS34_CrashLoopIsBroken has a server that ends at once, one that is not there and
// one that hangs. Each is tried less and less often, and then its callers are told at
// once.
func TestS34_CrashLoopIsBroken(t *testing.T) {
	t.Parallel() // it mostly waits
	j := newJournal(t)
	quick := object{"retry": object{"min": "100ms", "max": "30s"}, "restart": object{"max": 5, "window": "60s"}}
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": object{
		"dead":         with(child(t, fault.Dead, j), quick),
		"missing":      with(object{"command": "/nonexistent/server"}, quick),
		"unresponsive": with(child(t, fault.Unresponsive, j), object{"connectTimeout": "1s", "retry": quick["retry"]}),
		"other":        child(t, fault.Legacy, j),
	}}})
	gatewaytest.Eventually(t, func() error {
		if n := len(j.Of(fault.Started, fault.Dead)); n < 5 {
			return fmt.Errorf("it was started %d times", n)
		}
		return nil
	})
	// The waits between the starts grow: each is at least half of what doubling says,
	// since a part of it is random.
	starts := j.Of(fault.Started, fault.Dead)
	for i := 1; i < 5; i++ {
		least := 50 * time.Millisecond << (i - 1)
		if wait := starts[i].At.Sub(starts[i-1].At); wait < least {
			t.Errorf("start %d comes %v after the one before, want %v at least", i+1, wait, least)
		}
	}
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	for _, era := range gatewaytest.Eras {
		echoes(ctx, t, enter(ctx, t, g, "other", gatewaytest.HTTP, era), "others are unaffected")
	}
	for _, name := range []string{"dead", "missing"} {
		c := enter(ctx, t, g, name, gatewaytest.HTTP, protocol.Modern)
		// When the breaker is open, nobody waits.
		gatewaytest.Eventually(t, func() error {
			from := time.Now()
			_, err := c.Tool(ctx, "echo", object{"text": "hello"})
			failed(t, err, protocol.CodeUnavailable, protocol.OutcomeNotSent)
			if took := time.Since(from); gatewaytest.Exceeds(took, 50*time.Millisecond) {
				return fmt.Errorf("%s refuses a call after %v", name, took)
			}
			return nil
		})
		if s := g.Status()[name]; s.State != "backing off" || s.LastError == "" || s.NextAttempt == nil {
			t.Errorf("%s is %+v", name, s)
		}
	}
	// The fifth was the last one for as long as the longest wait.
	for _, start := range j.Of(fault.Started, fault.Dead)[5:] {
		if wait := start.At.Sub(starts[4].At); wait < 29*time.Second {
			t.Errorf("it was started again %v after its fifth start", wait)
		}
	}
	if s := g.Status()["dead"]; s.LastStderr != fault.LastStderrLine {
		t.Errorf("its last word is %q", s.LastStderr)
	}
	// One that hangs is killed, and tried again.
	gatewaytest.Eventually(t, func() error {
		starts := j.Of(fault.Started, fault.Unresponsive)
		if len(starts) < 2 {
			return fmt.Errorf("the unresponsive one was started %d times", len(starts))
		}
		return gatewaytest.Gone(starts[0].PID)
	})
}

// TestPain11_DeadServerComesBackByItself kills a server that nobody is using. It is
// there again without being asked for, and with its tools.
func TestPain11_DeadServerComesBackByItself(t *testing.T) {
	t.Parallel() // it mostly waits
	for _, mode := range []string{fault.Legacy, fault.Modern} {
		t.Run(mode, func(t *testing.T) {
			j := newJournal(t)
			g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": object{server: child(t, mode, j)}}})
			isReady := func() error {
				if s := g.Status()[server]; s.State != "ready" || s.Tools == 0 {
					return fmt.Errorf("it is %s with %d tools: %s", s.State, s.Tools, s.LastError)
				}
				return nil
			}
			gatewaytest.Eventually(t, isReady)
			for range 2 {
				known := len(j.PIDs())
				for _, pid := range j.PIDs() {
					_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone already
				}
				gatewaytest.Eventually(t, func() error {
					if len(j.PIDs()) == known {
						return fmt.Errorf("nobody has started it again")
					}
					return isReady()
				})
			}
			ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
			for _, era := range gatewaytest.Eras {
				recovers(ctx, t, enter(ctx, t, g, server, gatewaytest.HTTP, era))
			}
		})
	}
}

// TestPain11_ListsAreThereWhileTheServerIsNot has a server die for good. Its last
// known tools are still listed, marked, and calls are refused as not sent.
func TestPain11_ListsAreThereWhileTheServerIsNot(t *testing.T) {
	t.Parallel() // it mostly waits
	j := newJournal(t)
	web := remote(t, fault.Legacy, j)
	link := gatewaytest.NewProxy(t, web.Listener.Addr().String())
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": object{
		server: object{
			"url": "http://" + link.Address() + "/mcp", "retry": object{"min": "100ms", "max": "500ms"},
			"health": object{"interval": "200ms", "threshold": 1},
		},
		"other": child(t, fault.Legacy, j),
	}}})
	gatewaytest.Eventually(t, func() error {
		if s := g.Status()[server]; s.State != "ready" || s.Tools == 0 {
			return fmt.Errorf("it is %s with %d tools", s.State, s.Tools)
		}
		return nil
	})
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	c := enter(ctx, t, g, server, gatewaytest.HTTP, protocol.Modern)
	before, err := c.Tools(ctx)
	if err != nil {
		t.Fatal(err)
	}
	link.Set(gatewaytest.LinkMode{Refuse: true})
	link.Cut()
	gatewaytest.Eventually(t, func() error {
		if s := g.Status()[server]; s.State == "ready" {
			return fmt.Errorf("it is %s", s.State)
		}
		return nil
	})
	after, err := c.Tools(ctx)
	if err != nil || len(after) != len(before) {
		t.Errorf("%d tools are listed, error %v; there were %d", len(after), err, len(before))
	}
	key := t.Name() + " while it is away"
	_, err = c.Tool(ctx, "count", object{"key": key})
	if code, outcome := gatewaytest.Outcome(err); code != protocol.CodeUnavailable && code != protocol.CodeOverloaded || outcome != protocol.OutcomeNotSent {
		t.Errorf("a call comes to %v", err)
	}
	link.Set(gatewaytest.LinkMode{})
	gatewaytest.Eventually(t, func() error {
		_, err := c.Tool(ctx, "echo", object{"text": "back"})
		return err
	})
	if got := j.Of(fault.Ran, key); len(got) > 0 {
		t.Errorf("a call that was refused as not sent was carried out: %v", got)
	}
}
