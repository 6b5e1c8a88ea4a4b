//go:build unix

package gateway

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// TestS48_ReloadTouchesOnlyWhatChanged_Pain32 changes the file while calls run.
func TestS48_ReloadTouchesOnlyWhatChanged_Pain32(t *testing.T) {
	t.Parallel() // it mostly waits
	for _, era := range gatewaytest.Eras {
		t.Run(era.String()+" clients", func(t *testing.T) {
			t.Parallel()
			j := newJournal(t)
			a, b, c := child(t, fault.Legacy, j), child(t, fault.Modern, j), child(t, fault.Legacy, j)
			g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": object{"a": a, "b": b, "c": c}}, Flags: []string{"--no-watch"}, Probe: "a"})
			ctx := gatewaytest.Hurry(t, 2*gatewaytest.Patience)
			s := &fixture{T: t, Gateway: g, journal: j, ctx: ctx}
			onA := enter(ctx, t, g, "a", gatewaytest.HTTP, era)
			before := who(ctx, t, onA)
			slow := s.count(onA, t.Name()+" on a", int(gatewaytest.Slow(time.Second).Milliseconds()))
			onC := enter(ctx, t, g, "c", gatewaytest.HTTP, era)
			last := s.count(onC, t.Name()+" on c", 1000)

			reload := func(config object, says string) {
				t.Helper()
				g.Write(config)
				n := strings.Count(g.Stderr(), says)
				g.Signal(syscall.SIGHUP)
				gatewaytest.Eventually(t, func() error {
					if strings.Count(g.Stderr(), says) == n {
						return fmt.Errorf("it does not say %q", says)
					}
					return nil
				})
			}
			// A file with an error that is no server's changes nothing, and the error
			// says where it is.
			reload(object{"servers": object{"a": a}, "lisen": "x"}, "lisen")
			echoes(ctx, t, enter(ctx, t, g, "b", gatewaytest.HTTP, era), "still there")

			// A server with an error continues as it was.
			reload(object{"servers": object{"a": with(a, object{"comand": "x"}), "b": b, "c": c}}, "continues as it was")
			echoes(ctx, t, onA, "still there")

			// B changes, C goes.
			reload(object{"servers": object{"a": a, "b": with(b, object{"args": []string{"changed"}})}}, "configuration reloaded")
			if got := ends(t, slow); got != t.Name()+" on a" {
				t.Errorf("the call on a says %q", got)
			}
			if got := ends(t, last); got != t.Name()+" on c" {
				t.Errorf("the call on c, which has been removed, says %q", got)
			}
			if era == protocol.Legacy {
				if after := who(ctx, t, onA); after.PID != before.PID {
					t.Errorf("a was process %d and is %d", before.PID, after.PID)
				}
			}
			echoes(ctx, t, onA, "the same conversation")
			if p := who(ctx, t, enter(ctx, t, g, "b", gatewaytest.HTTP, era)); !slices.Contains(p.Args, "changed") {
				t.Errorf("b was started with %q", p.Args)
			}
			if _, err := onC.Tool(ctx, "echo", object{"text": "hello"}); err == nil {
				t.Error("c is still there")
			}
			if _, there := g.Status()["c"]; there {
				t.Error("c is still in the status")
			}
		})
	}
}

// TestS48_ManyReloadsLeaveNothingBehind reloads again and again, more often than files
// may be left over.
func TestS48_ManyReloadsLeaveNothingBehind(t *testing.T) {
	t.Parallel() // with a gateway of its own
	reloads := max(gatewaytest.Few(100), 40)
	j := newJournal(t)
	a := child(t, fault.Legacy, j)
	config := func(n int) object {
		return object{"servers": object{"a": a, "b": with(child(t, fault.Modern, j), object{"args": []string{fmt.Sprint("generation ", n)}})}}
	}
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: config(0), Flags: []string{"--no-watch"}, Probe: "a"})
	ctx := gatewaytest.Hurry(t, 2*gatewaytest.Patience)
	c := enter(ctx, t, g, "a", gatewaytest.HTTP, protocol.Legacy)
	before := who(ctx, t, c)
	gatewaytest.Eventually(t, func() error { return settled(g) })
	files := gatewaytest.Files(g.PID())
	var calling sync.WaitGroup
	stop := make(chan struct{})
	halt := sync.OnceFunc(func() { close(stop); calling.Wait() })
	defer halt()        // the test may end before its time
	calling.Go(func() { // ends with stop
		for {
			select {
			case <-stop:
				return
			case <-time.After(pause):
			}
			if _, err := c.Tool(ctx, "echo", object{"text": "during it"}); err != nil {
				t.Errorf("during a reload: %v", err)
				return
			}
		}
	})
	read := 0
	for n := range reloads {
		g.Write(config(n + 1))
		g.Signal(syscall.SIGHUP)
		if n%10 == 9 { // signals that come together are one
			continue
		}
		gatewaytest.Eventually(t, func() error {
			if got := strings.Count(g.Stderr(), "configuration reloaded"); got <= read {
				return fmt.Errorf("it was read again %d times", got)
			}
			return nil
		})
		read = strings.Count(g.Stderr(), "configuration reloaded")
	}
	gatewaytest.Eventually(t, func() error {
		text, err := enter(ctx, t, g, "b", gatewaytest.HTTP, protocol.Modern).Tool(ctx, "whoami", nil)
		if err == nil && !strings.Contains(text, fmt.Sprint("generation ", reloads, `"`)) {
			err = fmt.Errorf("b is %s", text)
		}
		return err
	})
	halt()
	if after := who(ctx, t, c); after.PID != before.PID {
		t.Errorf("a was process %d and is %d", before.PID, after.PID)
	}
	gatewaytest.Eventually(t, func() error {
		if err := settled(g); err != nil {
			return err
		}
		if now := gatewaytest.Files(g.PID()); now > files+20 {
			return fmt.Errorf("it has %d files open, and had %d", now, files)
		}
		return nil
	})
}

// settled returns an error unless all servers are ready and listed, and no process is left
// over.
func settled(g *gatewaytest.Gateway) error {
	status := g.Status()
	for name, s := range status {
		if s.State != "ready" {
			return fmt.Errorf("%s is %s", name, s.State)
		}
		if s.Tools == 0 {
			return fmt.Errorf("the tools of %s are not known", name)
		}
	}
	// Ours and those of the servers: a session and the gateway's own for each.
	if all, _ := gatewaytest.Children(g.PID()); len(all) > 3*len(status) {
		return fmt.Errorf("it has %d children", len(all))
	}
	return nil
}

// TestReloadByItself changes the file and tells nobody.
func TestReloadByItself(t *testing.T) {
	t.Parallel() // it mostly waits
	j := newJournal(t)
	a := child(t, fault.Legacy, j)
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": object{"a": a}}, Probe: "a"})
	g.Write(object{"servers": object{"a": a, "b": child(t, fault.Modern, j)}})
	g.Await("configuration reloaded")
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	echoes(ctx, t, enter(ctx, t, g, "b", gatewaytest.HTTP, protocol.Modern), "new")
}
