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

// TestPain1_ProcessesEndWithTheirSessions opens sessions whose servers have children
// of their own. When a client leaves, all of its are gone.
func TestPain1_ProcessesEndWithTheirSessions(t *testing.T) {
	t.Parallel() // it mostly waits
	for _, front := range []string{"run", "serve"} {
		t.Run(front, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t)
			g := start(t, front, child(t, fault.Legacy, j))
			ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
			for _, way := range ways(protocol.Legacy) {
				c := enter(ctx, t, g, server, way, protocol.Legacy)
				says(ctx, t, c, "grandchild", nil)
				p := who(ctx, t, c)
				descended := j.Of(fault.Descended, "")
				last := descended[len(descended)-1]
				var grandchild int
				if _, err := fmt.Sscan(last.Key, &grandchild); err != nil {
					t.Fatal(err)
				}
				if !gatewaytest.Alive(p.PID) || !gatewaytest.Alive(grandchild) {
					t.Fatalf("processes %d and %d are not there", p.PID, grandchild)
				}
				if err := c.Conn.Close(); err != nil {
					t.Fatal(err)
				}
				if err := gatewaytest.Until(gatewaytest.Patience, func() error { return gatewaytest.Gone(p.PID, grandchild) }); err != nil {
					t.Errorf("over %s: %v", way, err)
				}
			}
		})
	}
}

// TestS35_NoProcessOutlivesTheGateway ends the gateway, in order or by force, while
// its servers do not want to end.
func TestS35_NoProcessOutlivesTheGateway(t *testing.T) {
	t.Parallel() // with a gateway of its own
	for name, switches := range map[string][]string{
		"normal": nil, "ignores SIGTERM": {fault.IgnoreTermVariable}, "ignores the end of its input": {fault.IgnoreEOFVariable},
		"ignores both": {fault.IgnoreTermVariable, fault.IgnoreEOFVariable},
	} {
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			for _, front := range []string{"run", "serve"} {
				t.Run(fmt.Sprintf("%s, %s, %v", front, name, signal), func(t *testing.T) {
					t.Parallel() // it mostly waits
					j := newJournal(t)
					g := start(t, front, child(t, fault.Legacy, j, switches...))
					ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
					c := enter(ctx, t, g, server, gatewaytest.HTTP, protocol.Legacy)
					if len(switches) == 2 {
						says(ctx, t, c, "grandchild", nil)
					}
					echoes(ctx, t, c, "hello")
					children, _ := gatewaytest.Children(g.PID())
					g.Leave()
					from := time.Now()
					g.Signal(signal)
					limit := 5 * time.Second
					if signal == syscall.SIGTERM {
						limit = 6 * time.Second
						if len(switches) == 0 {
							limit = 2 * time.Second
						}
						if status := g.Wait(gatewaytest.Patience); status != 0 || gatewaytest.Exceeds(time.Since(from), limit) {
							t.Errorf("it ends with status %d after %v", status, time.Since(from))
						}
						if err := g.Unwell(); err != nil {
							t.Error(err)
						}
					}
					if err := gatewaytest.Until(gatewaytest.Patience, func() error { return gatewaytest.Gone(append(processes(j), children...)...) }); err != nil || gatewaytest.Exceeds(time.Since(from), 2*limit) {
						t.Errorf("after %v: %v", time.Since(from), err)
					}
				})
			}
		}
	}
}
