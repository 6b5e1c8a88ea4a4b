package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// conversations returns how many are open with a server.
func (g *running) conversations(server string) int {
	g.t.Helper()
	for _, s := range g.Status().Servers {
		if s.Name == server {
			return s.Connections
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

// A conversation on a WebSocket has the headers that it was opened with, whatever
// becomes of the server meanwhile and whoever else comes.
func TestHeadersOfAWebSocketArePassedOnForAsLongAsItIsOpen(t *testing.T) {
	for _, server := range eras {
		revision := map[protocol.Era]protocol.Revision{protocol.Legacy: protocol.LatestLegacy, protocol.Modern: protocol.Latest}[server]
		t.Run(server.String()+" server", func(t *testing.T) {
			var mu sync.Mutex
			var calls []string
			built := builtin.New(&builtin.Options{Revisions: []protocol.Revision{revision}})
			t.Cleanup(func() { _ = built.Close() })
			endpoint := &streamable.Server{Sessions: built, Requests: built.Requests()}
			url := serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				token := r.Header.Get("Authorization")
				if token == "" {
					http.Error(w, "who are you?", http.StatusUnauthorized)
					return
				}
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				if bytes.Contains(body, []byte(`"`+protocol.MethodCallTool+`"`)) {
					mu.Lock()
					calls = append(calls, token)
					mu.Unlock()
				}
				endpoint.ServeHTTP(w, r)
			}))
			file := fmt.Sprintf("servers: {a: {url: %s, passHeaders: {X-Token: Authorization}, timeout: %%dm}}", url)
			g := begin(t, fmt.Sprintf(file, 1))
			open := func(era protocol.Era, token string) *client.Client {
				t.Helper()
				at := &client.Server{URL: "ws" + strings.TrimPrefix(g.url, "http") + "/ws", Header: http.Header{"X-Token": {token}}}
				c, err := client.Connect(within(t), at, &client.Options{Name: "guest", Version: "1", Era: &era})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close() })
				return c
			}
			clients := map[string]*client.Client{}
			for _, era := range eras {
				for _, who := range []string{"ann", "bob"} {
					clients[who+" "+era.String()] = open(era, who+" "+era.String())
				}
			}
			for round := 1; round <= 3; round++ {
				for token, c := range clients {
					mu.Lock()
					calls = nil
					mu.Unlock()
					echo(t, c, "a_echo")
					mu.Lock()
					if !slices.Equal(calls, []string{token}) {
						t.Errorf("round %d: for %q the server was asked with %q", round, token, calls)
					}
					mu.Unlock()
				}
				g.reload(fmt.Sprintf(file, round+1))
			}
		})
	}
}
