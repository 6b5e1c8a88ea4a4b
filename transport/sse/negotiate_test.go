package sse

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// A negotiator is a client that asks for server/discover before it falls back to
// initialize.
type negotiator struct {
	probe     string              // its request
	header    []string            // that it sends with it
	fallsBack func(*refusal) bool // what it makes of the error
}

// A refusal is the error that a client gets, with its data.
type refusal struct {
	Code int `json:"code"`
	Data *struct {
		Supported []string `json:"supported"`
		Requested string   `json:"requested"`
	} `json:"data"`
}

func (e *refusal) speaks(era protocol.Era) bool {
	return e.Data != nil && slices.ContainsFunc(e.Data.Supported, func(name string) bool { return protocol.EraOf(name) == era })
}

// negotiators decide as the clients of these names do.
var negotiators = map[string]negotiator{
	"Python SDK 2.3": {
		probe: `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + modernMeta + `}}`,
		fallsBack: func(e *refusal) bool {
			return e.Code != protocol.CodeUnsupported || e.Data == nil || !e.speaks(protocol.Modern) && e.speaks(protocol.Legacy)
		},
	},
	"TypeScript SDK 2.4": {
		probe:     `{"jsonrpc":"2.0","id":"server-discover-probe-1","method":"server/discover","params":{` + modernMeta + `}}`,
		fallsBack: func(e *refusal) bool { return e.Code != protocol.CodeUnsupported || !e.speaks(protocol.Modern) },
	},
	"Go SDK 1.8": {
		probe:     `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + modernMeta + `}}`,
		header:    []string{"MCP-Protocol-Version", "2026-07-28"},
		fallsBack: func(e *refusal) bool { return e.Code != protocol.CodeUnsupported || !e.speaks(protocol.Modern) },
	},
}

// A client takes any status but 2xx for the end of the conversation, or of the
// negotiation; so the probe must be accepted, and answered on the stream.
func TestClientThatNegotiatesFallsBackToTheHandshake(t *testing.T) {
	for name, client := range negotiators {
		t.Run(name, func(t *testing.T) {
			peertest.NoLeak(t)
			_, at := serve(t, &Server{Acceptor: builtin.New(nil)})
			w := newTestServer(t)
			s := w.stream(at + "/sse")
			if status, _, text := w.do(http.MethodPost, s.endpoint, client.probe, client.header...); status != http.StatusAccepted {
				t.Fatalf("the probe gets %d %s, and the client gives up", status, text)
			}
			var answer struct {
				ID    json.RawMessage `json:"id"`
				Error refusal         `json:"error"`
			}
			e := s.next()
			if err := json.Unmarshal(e.Data, &answer); err != nil || !strings.Contains(client.probe, `"id":`+string(answer.ID)+",") {
				t.Fatalf("the probe is answered by %s: %v", e.Data, err)
			}
			if !client.fallsBack(&answer.Error) {
				t.Fatalf("after %s the client gives up", e.Data)
			}
			if answer.Error.Code != protocol.CodeUnsupported || answer.Error.Data.Requested != "2026-07-28" ||
				!slices.Equal(answer.Error.Data.Supported, []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}) {
				t.Errorf("the probe is answered by %s", e.Data)
			}
			w.post(s.endpoint, initialize)
			if e := s.next(); !strings.Contains(string(e.Data), `"protocolVersion":"2025-06-18"`) {
				t.Fatalf("the handshake is answered by %s", e.Data)
			}
			w.post(s.endpoint, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			w.post(s.endpoint, toolCall(`2`, "echo", `{"text":"hello"}`))
			s.want(`{"jsonrpc":"2.0","id":2,"result":{"content":[{"text":"hello","type":"text"}]}}`)
		})
	}
}

// recordMethods returns a peer that sends the method of each message to a channel.
func recordMethods(methods chan<- string) dragoman.Peer {
	return dragoman.Funcs{
		OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			methods <- req.Method()
			return req.Reply(nil)
		},
		OnNotify: func(_ context.Context, note *dragoman.Message) error {
			methods <- note.Method()
			return nil
		},
	}
}

func TestWhatIsPostedToASessionIsAnsweredOnItsStream(t *testing.T) {
	peertest.NoLeak(t)
	reached := make(chan string, 10)
	_, at := serve(t, &Server{Acceptor: peertest.Accept(recordMethods(reached))})
	w := newTestServer(t)
	s := w.stream(at + "/sse")
	for _, row := range []struct{ name, body, want string }{
		{"a modern request", `{"jsonrpc":"2.0","id":"m","method":"tools/list","params":{` + modernMeta + `}}`, `"id":"m","error":{"code":-32022`},
		{"a modern initialize", `{"jsonrpc":"2.0","id":3,"method":"initialize","params":{` + modernMeta + `}}`, `"id":3,"error":{"code":-32022`},
		{"a modern subscription", `{"jsonrpc":"2.0","id":4,"method":"subscriptions/listen","params":{"notifications":{},` + modernMeta + `}}`, `"id":4,"error":{"code":-32022`},
		{"a claim that is no text", `{"jsonrpc":"2.0","id":5,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":7}}}`, `"id":5,"error":{"code":-32022`},
		{"a request without a version", `{"id":7,"method":"ping"}`, `"id":7,"error":{"code":-32600`},
		{"params that are no object", `{"jsonrpc":"2.0","id":"x","method":"ping","params":[]}`, `"id":"x","error":{"code":-32600`},
		{"a name twice", `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"a","name":"b"}}`, `"id":8,"error":{"code":-32600`},
	} {
		w.post(s.endpoint, row.body)
		if e := s.next(); e.Name != "message" || !strings.Contains(string(e.Data), row.want) {
			t.Errorf("%s is answered by %s, want %s", row.name, e.Data, row.want)
		}
	}
	w.post(s.endpoint, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,`+modernMeta+`}}`)
	w.post(s.endpoint, `{"jsonrpc":"2.0","method":"notifications/x","params":{`+modernMeta+`}}`)
	if status, _, text := w.do(http.MethodPost, s.endpoint, ping, "MCP-Protocol-Version", "2026-07-28"); status != http.StatusAccepted {
		t.Errorf("a request of the era of this transport, with another header: %d %s", status, text)
	}
	s.want(pong)
	if first := peertest.Receive(t, reached, "the ping"); first != "ping" || len(reached) > 0 {
		t.Errorf("%s reaches the server, and %d more", first, len(reached))
	}
}

func TestClientThatOnlyNegotiatesCostsNoServer(t *testing.T) {
	peertest.NoLeak(t)
	_, at := serve(t, &Server{Acceptor: dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
		t.Error("it is given to the acceptor")
		return pinger, nil
	})})
	w := newTestServer(t)
	s := w.stream(at + "/sse")
	w.post(s.endpoint, negotiators["Python SDK 2.3"].probe)
	s.next()
}

func TestAnswerThatCannotBeReadEndsItsQuestion(t *testing.T) {
	peertest.NoLeak(t)
	_, at := serve(t, &Server{Acceptor: peertest.Accept(dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		question, err := dragoman.NewRequest(dragoman.IntID(1), "roots/list", nil)
		if err != nil {
			return nil, err
		}
		return from.Call(ctx, question, nil)
	}})})
	w := newTestServer(t)
	s := w.stream(at + "/sse")
	w.post(s.endpoint, ping)
	w.post(s.endpoint, `{"jsonrpc":"2.0","id":`+s.asked("roots/list")+`,"result":{"a":1},"result":{}}`)
	if e := s.next(); !strings.Contains(string(e.Data), `"id":1,"error"`) {
		t.Errorf("the request whose question has no answer gets %s", e.Data)
	}
}

func TestModernRequestWithoutASessionOpensNoConversation(t *testing.T) {
	peertest.NoLeak(t)
	reached := make(chan string, 10)
	s, at := serve(t, &Server{Acceptor: peertest.Accept(recordMethods(reached))})
	w := newTestServer(t)
	for _, client := range negotiators {
		if got := w.sync(at, client.probe); !strings.Contains(got, `"code":-32022`) || !strings.Contains(got, `"supported":["2025-11-25",`) {
			t.Errorf("%s\nis answered by %s", client.probe, got)
		}
	}
	w.post(at+"/messages", `{"jsonrpc":"2.0","method":"notifications/x","params":{`+modernMeta+`}}`)
	s.mu.Lock()
	n := len(s.syncConns)
	s.mu.Unlock()
	if n > 0 || len(reached) > 0 {
		t.Errorf("%d conversations were opened, and %d messages sent", n, len(reached))
	}
	w.sync(at, initialize)
	if first := peertest.Receive(t, reached, "the handshake"); first != "initialize" {
		t.Errorf("the conversation begins with %s", first)
	}
}
