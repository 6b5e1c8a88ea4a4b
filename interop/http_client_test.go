package interop_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
)

// goSDKOverHTTP starts the Go SDK's conformance server on HTTP. Without state it
// speaks the modern era, with state the legacy one.
func goSDKOverHTTP(t *testing.T, stateless bool) *streamable.Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	cmd := exec.Command(goSDKProgram.in(t), "-http", address, fmt.Sprintf("-stateless=%v", stateless))
	cmd.Env = append(os.Environ(), "GORACE="+quickExit)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if nc, err := net.Dial("tcp", address); err == nil {
			nc.Close()
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	return &streamable.Client{URL: "http://" + address + "/"}
}

func TestB06_OurClientCallsEveryToolOfTheGoSDKServerOverHTTP(t *testing.T) {
	t.Parallel()
	for _, rev := range []protocol.Revision{protocol.V20260728, protocol.V20251125, protocol.V20250618, protocol.V20250326} {
		t.Run(rev.String(), func(t *testing.T) {
			t.Parallel()
			client := goSDKOverHTTP(t, !rev.HasSessions())
			if v, err := client.Probe(t.Context()); err != nil || v.Era != rev.Era() {
				t.Errorf("the probe says %+v, %v", v, err)
			}
			c, _ := begin(t, client, rev)
			if rev.HasSessions() {
				c.want(protocol.MethodSetLevel, object{"level": "debug"})
				c.want(protocol.MethodPing, object{})
			} else {
				c.level = "debug"
			}
			rows := goSDKTools(rev)
			for _, tool := range c.list(protocol.MethodListTools, "tools") {
				name := tool["name"].(string)
				want, ok := rows[name]
				switch {
				case !ok:
					t.Errorf("the tool %s is new: say what is expected of it", name)
					continue
				case name == "test_reconnection" && rev.HasSessions():
					c.callLost(name)
					continue
				case want.args == nil:
					want.args = fill(tool["inputSchema"].(object), false).(object)
				}
				callTool(t, c, c.notes, name, want)
			}
		})
	}
}

// callLost calls a tool that cuts its stream, which this server keeps no events
// of. So it cannot be resumed, and the caller must get to know.
func (c *ours) callLost(name string) {
	c.t.Helper()
	req, err := dragoman.NewRequest(dragoman.IntID(c.ids.Add(1)), protocol.MethodCallTool, object{"name": name, "arguments": object{}})
	if err != nil {
		c.t.Fatal(err)
	}
	if resp, err := c.conn.Call(c.t.Context(), req, c); !errors.Is(err, streamable.ErrNoResponse) {
		c.t.Errorf("%s: got %v, %v", name, resp, err)
	}
}

func TestB06_OurClientCallsToolsOfTheMCPGoServerOverHTTP(t *testing.T) {
	t.Parallel()
	eachOverHTTP(t, func(t *testing.T, rev protocol.Revision) {
		s := mcpgoserver.NewMCPServer("test", "1", mcpgoserver.WithToolCapabilities(true))
		s.AddTool(mcpgo.NewTool("echo", mcpgo.WithString("text", mcpgo.Required())),
			func(_ context.Context, r mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
				return mcpgo.NewToolResultText(r.GetString("text", "")), nil
			})
		web := httptest.NewServer(mcpgoserver.NewStreamableHTTPServer(s))
		t.Cleanup(web.Close)
		client := &streamable.Client{URL: web.URL + "/mcp"}
		if v, err := client.Probe(t.Context()); err != nil || v.Era != protocol.Modern {
			t.Errorf("the probe says %+v, %v", v, err)
		}
		c, _ := begin(t, client, rev)
		c.callAll(map[string]expected{"echo": {args: object{"text": "hello"}, text: "hello"}})
	})
}
