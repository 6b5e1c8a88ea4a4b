package gateway_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// An asker is a legacy server whose tool "ask" asks the user when "slow" runs too. They answer
// what came of that.
type asker struct{ ask, slow chan struct{} } // closed when these tools run

func (a *asker) Accept(_ context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	over := make(chan struct{})
	say := func(req *dragoman.Message, text string) (*dragoman.Message, error) {
		return req.Reply(json.RawMessage(`{"content":[{"type":"text","text":"` + text + `"}]}`))
	}
	return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		switch req.Method() {
		case protocol.MethodInitialize:
			return req.Reply(json.RawMessage(`{"protocolVersion":"` + protocol.LatestLegacy.String() + `","capabilities":{"tools":{}},"serverInfo":{"name":"a","version":"1"}}`))
		case protocol.MethodListTools:
			return req.Reply(json.RawMessage(`{"tools":[{"name":"ask"},{"name":"slow"}]}`))
		case protocol.MethodPing:
			return req.Reply(nil)
		case protocol.MethodCallTool:
		default:
			return req.Fail(&dragoman.Error{Code: protocol.CodeMethodNotFound, Message: "no"}), nil
		}
		if req.Name() == "slow" {
			close(a.slow)
			select {
			case <-over:
			case <-ctx.Done():
			}
			return say(req, "slow")
		}
		defer close(over)
		close(a.ask)
		select {
		case <-a.slow:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		q, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodElicit, json.RawMessage(`{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}`))
		if err != nil {
			return nil, err
		}
		resp, err := client.Call(ctx, q, nil)
		if err != nil || resp.IsError() {
			return say(req, "not asked")
		}
		action, _ := dragoman.Text(resp.Get("action"))
		return say(req, action)
	}}, nil
}

// On a pipe and over HTTP+SSE a server request does not say which call it belongs to.
func TestInputRequestReachesTheCallThatAsksOnAPipe(t *testing.T) {
	for name, start := range map[string]func(t *testing.T, a *asker) string{
		"lines": func(t *testing.T, a *asker) string {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s := &stdio.Server{Acceptor: a}
			go func() { _ = s.Serve(l) }() // ends with Close
			t.Cleanup(func() { _ = s.Close() })
			return "tcp:" + l.Addr().String()
		},
		"HTTP+SSE": func(t *testing.T, a *asker) string {
			s := &sse.Server{Acceptor: a}
			mux := http.NewServeMux()
			mux.Handle("/sse", s.Stream())
			mux.Handle("/messages", s.Messages())
			web := httptest.NewServer(mux)
			t.Cleanup(func() {
				_ = s.Close()
				web.Close()
			})
			return web.URL + "/sse, transport: sse"
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := &asker{make(chan struct{}), make(chan struct{})}
			g := begin(t, "servers:\n  s: {url: "+start(t, a)+"}\n")
			g.ready()
			call := func(tool, more string) *dragoman.Message {
				req, err := dragoman.NewRequest(dragoman.StringID(tool), protocol.MethodCallTool, json.RawMessage(`{"name":"`+tool+`","arguments":{}`+more+`}`))
				if err == nil {
					req, err = protocol.Envelope{Version: protocol.Latest.String(), Capabilities: json.RawMessage(`{"elicitation":{}}`)}.Put(req)
				}
				if err != nil {
					t.Error(err)
					return nil
				}
				_, body := new(session).speak(t, g.url+"/servers/s/mcp", req)
				if _, data, ok := strings.Cut(body, "data: {"); ok {
					body = "{" + data
				}
				resp, err := dragoman.Parse([]byte(strings.TrimSpace(body)))
				if err != nil {
					t.Errorf("%s: %v in %s", tool, err, body)
				}
				return resp
			}
			asked := make(chan *dragoman.Message, 1)
			go func() { asked <- call("ask", "") }()
			<-a.ask
			slow := make(chan *dragoman.Message, 1)
			go func() { slow <- call("slow", "") }()
			select {
			case resp := <-slow:
				t.Fatalf("slow was asked: %s", resp)
			case resp := <-asked:
				questions := resp.Get("inputRequests")
				for key := range dragoman.Members(questions) {
					resp = call("ask", `,"requestState":`+string(resp.Get("requestState"))+`,"inputResponses":{"`+key+`":{"action":"accept","content":{}}}`)
				}
				if !strings.Contains(resp.String(), `"text":"accept"`) {
					t.Errorf("got %s", resp)
				}
			}
			if resp := <-slow; !strings.Contains(resp.String(), `"text":"slow"`) {
				t.Errorf("slow: got %s", resp)
			}
		})
	}
}
