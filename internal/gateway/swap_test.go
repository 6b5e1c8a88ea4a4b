package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// An inFlight is a legacy server whose tool "ask" asks the user, and whose tool "wait" runs until
// it is cancelled.
type inFlight struct{ began, cancelled chan struct{} }

func (s *inFlight) Accept(context.Context, dragoman.Conn) (dragoman.Peer, error) {
	return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		switch {
		case req.Method() == protocol.MethodInitialize:
			return req.Reply(json.RawMessage(`{"protocolVersion":"` + protocol.LatestLegacy.String() + `","capabilities":{"tools":{}},"serverInfo":{"name":"a","version":"1"}}`))
		case req.Method() == protocol.MethodPing:
			return req.Reply(nil)
		case req.Method() == protocol.MethodListTools:
			return req.Reply(json.RawMessage(`{"tools":[{"name":"ask","inputSchema":{"type":"object"}},{"name":"wait","inputSchema":{"type":"object"}}]}`))
		case req.Method() == protocol.MethodCallTool && req.Name() == "wait":
			s.began <- struct{}{}
			<-ctx.Done()
			s.cancelled <- struct{}{}
			return nil, context.Cause(ctx)
		case req.Method() == protocol.MethodCallTool:
			q, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodElicit, json.RawMessage(`{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}`))
			if err != nil {
				return nil, err
			}
			resp, err := from.Call(ctx, q, nil)
			if err != nil {
				return nil, err
			}
			return req.Reply(map[string]any{"content": []map[string]any{{"type": "text", "text": string(resp.Get("action"))}}})
		}
		return req.Fail(&dragoman.Error{Code: protocol.CodeMethodNotFound, Message: "no"}), nil
	}}, nil
}

// serve serves the server over HTTP and returns configurations of it, each with another time limit.
func (s *inFlight) serve(t *testing.T) (config func(minutes int) string) {
	endpoint := &streamable.Server{Sessions: s}
	t.Cleanup(func() { _ = endpoint.Close() })
	url := serveHTTP(t, endpoint)
	return func(minutes int) string { return fmt.Sprintf("servers: {a: {url: %s, timeout: %dm}}", url, minutes) }
}

func TestCallThatWaitsForInputContinuesAfterItsServerIsReplaced(t *testing.T) {
	for _, era := range []protocol.Era{protocol.Legacy, protocol.Modern} {
		for path, tool := range map[string]string{"/servers/a/mcp": "ask", "/mcp": "a_ask"} {
			t.Run(era.String()+" client at "+path, func(t *testing.T) {
				config := new(inFlight).serve(t)
				g := begin(t, config(1))
				g.ready()
				c := g.joinAs(path, &client.Options{Name: "guest", Version: "1", Elicitation: func(context.Context, json.RawMessage) (any, error) {
					if done := g.reload(config(2)); len(done.Changes.Replaced) != 1 {
						t.Errorf("the changes are %+v", done.Changes)
					}
					return map[string]any{"action": "decline"}, nil
				}}, era)
				r, err := c.CallTool(within(t), tool, nil, nil)
				if err != nil || r.Text() != `"decline"` {
					t.Errorf("the user has declined: %v %v", r, err)
				}
			})
		}
	}
}

func TestRequestInFlightIsCancelledAfterItsServerIsReplaced(t *testing.T) {
	server := &inFlight{began: make(chan struct{}, 1), cancelled: make(chan struct{}, 1)}
	config := server.serve(t)
	g := begin(t, config(1))
	g.ready()
	c := g.joinAs("/servers/a/mcp", &client.Options{Name: "guest", Version: "1"}, protocol.Legacy)
	ctx, cancel := context.WithCancel(within(t))
	ended := make(chan error, 1)
	go func() { // ends with the call
		_, err := c.CallTool(ctx, "wait", nil, nil)
		ended <- err
	}()
	<-server.began
	g.reload(config(2))
	cancel()
	<-server.cancelled
	if err := <-ended; err == nil {
		t.Error("a call that is cancelled succeeds")
	}
}

// Clients neither connect again nor send a request to be notified by the new server.
func TestConnectionsOfClientsStayOpenWhenTheirServerIsReplaced(t *testing.T) {
	for _, r := range []protocol.Revision{protocol.LatestLegacy, protocol.Latest} {
		for _, path := range []string{"/mcp", "/sse", "/ws"} {
			t.Run(r.Era().String()+" server, "+path, func(t *testing.T) {
				url := startBuiltin(t, r)
				config := func(n int) string { return fmt.Sprintf("servers: {a: {url: %s, timeout: %dm}}", url, n+1) }
				g := begin(t, config(0))
				g.ready()
				notes := make(chan string, 100)
				legacy := protocol.Legacy
				at := &client.Server{URL: g.url + "/servers/a" + path, Transport: map[string]string{"/mcp": "http-only", "/sse": "sse-only"}[path]}
				if path == "/ws" {
					at.URL = "ws" + strings.TrimPrefix(at.URL, "http")
				}
				c, err := client.Connect(within(t), at, &client.Options{Name: "guest", Version: "1", Era: &legacy, OnNotification: func(note *dragoman.Message) {
					notes <- note.Method()
				}})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if err := c.Subscribe(within(t), "test://watched-resource"); err != nil {
					t.Fatal(err)
				}
				for n := range 3 {
					g.reload(config(n + 1))
					for got := make(map[string]bool); !got[protocol.NoteToolsChanged] || !got[protocol.NoteResourceUpdated]; {
						select {
						case note := <-notes:
							got[note] = true
						case <-time.After(patience):
							t.Fatalf("after reload %d the client is notified of %v", n, got)
						}
					}
					if err := c.Err(); err != nil {
						t.Fatalf("after reload %d its connection is closed: %v", n, err)
					}
					if s := g.Status(); s.Sessions != 1 {
						t.Errorf("after reload %d there are %d sessions", n, s.Sessions)
					}
				}
				echo(t, c, "echo")
			})
		}
	}
}

func TestSessionThatHasEndedIsUnknownAtTheServerThatReplacesItsOwn(t *testing.T) {
	url := startBuiltin(t, protocol.LatestLegacy)
	g := begin(t, fmt.Sprintf("servers: {a: {url: %s}}", url))
	g.ready()
	s := open(t, g.url+"/servers/a/mcp")
	g.reload(fmt.Sprintf("servers: {a: {url: %s, timeout: 5m}}", url))
	req, err := http.NewRequestWithContext(within(t), http.MethodDelete, g.url+"/servers/a/mcp", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(protocol.HeaderSession, s.id)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if status, _ := s.call(t, g.url+"/servers/a/mcp", protocol.MethodListTools, `{}`); resp.StatusCode != http.StatusNoContent || status != http.StatusNotFound {
		t.Errorf("DELETE: %d, and then %d", resp.StatusCode, status)
	}
}
