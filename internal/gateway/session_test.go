package gateway_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// conversations returns how many are open with a server.
func (g *running) conversations(server string) int {
	g.t.Helper()
	for _, s := range g.Status().Servers {
		if s.Name == server {
			return s.Conversations
		}
	}
	g.t.Fatalf("there is no server %q", server)
	return 0
}

func TestUpstreamSessionsEndWithTheSessionsOfClients(t *testing.T) {
	for _, path := range []string{"/mcp", "/groups/some/mcp", "/servers/old/mcp"} {
		t.Run(path, func(t *testing.T) {
			g := begin(t, both(t)+"groups: {some: [old]}\n")
			g.ready()
			before := g.conversations("old")
			tool := "old_echo"
			if path == "/servers/old/mcp" {
				tool = "echo"
			}
			var clients []*client.Client
			for i := range 20 {
				c := g.join(path, protocol.Legacy)
				clients = append(clients, c)
				if _, err := c.CallTool(within(t), tool, map[string]string{"text": fmt.Sprint(i)}, nil); err != nil {
					t.Fatal(err)
				}
			}
			if n := g.conversations("old"); n != before+20 {
				t.Errorf("%d conversations for 20 sessions, and %d before", n, before)
			}
			for _, c := range clients {
				_ = c.Close()
			}
			eventually(t, "they are closed", func() bool {
				if n := g.conversations("old"); n > before {
					t.Logf("%d are open, and %d were before", n, before)
					time.Sleep(100 * time.Millisecond)
					return false
				}
				return true
			})
		})
	}
}

func TestModernCallerHasOneSessionEverywhere(t *testing.T) {
	g := begin(t, both(t))
	g.ready()
	before := g.conversations("old")
	for range 3 {
		for _, at := range []struct{ path, tool string }{{"/mcp", "old_echo"}, {"/servers/old/mcp", "echo"}} {
			if _, err := g.join(at.path, protocol.Modern).CallTool(within(t), at.tool, map[string]string{"text": "x"}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := g.conversations("old"); n != before+1 {
		t.Errorf("%d conversations with one caller, and %d before", n, before)
	}
}
