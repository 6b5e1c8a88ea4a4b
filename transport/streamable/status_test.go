package streamable_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

func TestS37_RefusalsThatPassSayWhenToComeBack(t *testing.T) {
	const notSent = `{"source":"gateway","outcome":"not_sent"}`
	fail := func(code int, data string) func(context.Context, *dragoman.Message, dragoman.Peer) (*dragoman.Message, error) {
		return func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			return req.Fail(&dragoman.Error{Code: code, Message: "no", Data: json.RawMessage(data)}), nil
		}
	}
	for _, test := range []struct {
		name   string
		answer func(context.Context, *dragoman.Message, dragoman.Peer) (*dragoman.Message, error)
		status int
		code   int
	}{
		{"overloaded", fail(protocol.CodeOverloaded, notSent), http.StatusServiceUnavailable, protocol.CodeOverloaded},
		{"stopping", fail(protocol.CodeDraining, notSent), http.StatusServiceUnavailable, protocol.CodeDraining},
		{"a Go error", func(context.Context, *dragoman.Message, dragoman.Peer) (*dragoman.Message, error) {
			return nil, dragoman.ErrOverloaded
		}, http.StatusServiceUnavailable, protocol.CodeOverloaded},
		{"the server's own code", fail(protocol.CodeOverloaded, `"x"`), http.StatusOK, protocol.CodeOverloaded},
		{"no data", fail(protocol.CodeOverloaded, ``), http.StatusOK, protocol.CodeOverloaded},
		{"sent", fail(protocol.CodeOverloaded, `{"source":"gateway","outcome":"unknown"}`), http.StatusOK, protocol.CodeOverloaded},
		{"away", fail(protocol.CodeUnavailable, notSent), http.StatusOK, protocol.CodeUnavailable},
		{"lost", fail(protocol.CodeLost, `{"source":"gateway","outcome":"unknown"}`), http.StatusOK, protocol.CodeLost},
		{"after a stream has begun", func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			note, err := dragoman.NewNotification(protocol.NoteMessage, map[string]string{"level": "info", "data": "x"})
			if err != nil {
				return nil, err
			}
			return nil, errors.Join(from.Notify(ctx, note), dragoman.ErrOverloaded)
		}, http.StatusOK, protocol.CodeOverloaded},
	} {
		t.Run(test.name, func(t *testing.T) {
			peer := dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
				if req.Method() == protocol.MethodInitialize {
					return req.Reply(map[string]string{"protocolVersion": protocol.LatestLegacy.String()})
				}
				return test.answer(ctx, req, from)
			}}
			s := open(t, &streamable.Server{Requests: peer, Sessions: dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) { return peer, nil })})
			check := func(era string, resp *http.Response) {
				t.Helper()
				text := s.read(resp)
				retry := ""
				if test.status == http.StatusServiceUnavailable {
					retry = "1"
				}
				if resp.StatusCode != test.status || resp.Header.Get("Retry-After") != retry || !strings.Contains(text, fmt.Sprintf(`"id":7,"error":{"code":%d`, test.code)) {
					t.Errorf("%s: %d, Retry-After %q, %s; want %d", era, resp.StatusCode, resp.Header.Get("Retry-After"), text, test.status)
				}
			}
			check("legacy", s.hello(protocol.LatestLegacy).do(t.Context(), http.MethodPost, `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`))
			check("modern", s.modern("tools/list", "").do(t.Context(), http.MethodPost, modernCall("7", "tools/list", "")))
		})
	}
}

func TestS37_TooManyRequestsOfASessionGet429(t *testing.T) {
	h := newHotel()
	s := open(t, &streamable.Server{Sessions: h, MaxRequests: 1})
	v := s.hello(protocol.LatestLegacy)
	stream := v.events(v.do(t.Context(), http.MethodPost, fmt.Sprintf(talkCall, "1")))
	stream.next()
	resp := v.do(t.Context(), http.MethodPost, listTools)
	text := v.read(resp)
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "1" || !strings.Contains(text, `"id":"adopt-1"`) ||
		!strings.Contains(text, fmt.Sprint(protocol.CodeOverloaded)) || !strings.Contains(text, `"not_sent"`) {
		t.Errorf("answered with %d %v %s", resp.StatusCode, resp.Header, text)
	}
	if resp := v.do(t.Context(), http.MethodPost, fmt.Sprintf(talkCall, "1")); resp.StatusCode != http.StatusBadRequest || resp.Header.Get("Retry-After") != "" {
		t.Errorf("an id in use: %d %v", resp.StatusCode, resp.Header)
	}
	if n := len(h.heard(0)); n != 3 {
		t.Errorf("the server heard %d things: %q", n, h.heard(0))
	}
	for range 3 {
		h.proceed <- struct{}{}
		stream.next()
	}
}

func TestS38_TooManySessionsGet503(t *testing.T) {
	s := open(t, &streamable.Server{Sessions: newHotel(), MaxSessions: 1})
	s.hello(protocol.LatestLegacy)
	resp := s.do(t.Context(), http.MethodPost, initialize(protocol.LatestLegacy, `{}`))
	text := s.read(resp)
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" || resp.Header.Get(protocol.HeaderSession) != "" ||
		!strings.Contains(text, fmt.Sprint(protocol.CodeOverloaded)) || !strings.Contains(text, `"not_sent"`) {
		t.Errorf("answered with %d %v %s", resp.StatusCode, resp.Header, text)
	}
}

func TestS47_ServerThatStopsSaysSo(t *testing.T) {
	server := &streamable.Server{Sessions: newHotel()}
	s, _ := serve(t, server)
	if err := server.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	resp := s.do(t.Context(), http.MethodPost, listTools)
	text := s.read(resp)
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" || !strings.Contains(text, fmt.Sprint(protocol.CodeDraining)) || !strings.Contains(text, `"not_sent"`) {
		t.Errorf("answered with %d %v %s", resp.StatusCode, resp.Header, text)
	}
}

// 404 says that the server has no such method. A server that has the method may
// refuse what a request names with the same code: that is an answer like any other.
func TestMethodNotFoundIs404UnlessTheRequestNamesSomething(t *testing.T) {
	s := open(t, &streamable.Server{Requests: dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		return req.Fail(&dragoman.Error{Code: protocol.CodeMethodNotFound, Message: "no such thing"}), nil
	}}})
	for _, test := range []struct {
		method, name, params string
		status               int
	}{
		{"tools/call", "x", `"name":"x"`, http.StatusOK},
		{"prompts/get", "x", `"name":"x"`, http.StatusOK},
		{"resources/read", "a:x", `"uri":"a:x"`, http.StatusOK},
		{"completion/complete", "", `"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":""}`, http.StatusOK},
		{"prompts/list", "", "", http.StatusNotFound},
		{"server/discover", "", "", http.StatusNotFound},
		{"subscriptions/listen", "", `"notifications":{}`, http.StatusNotFound},
		{"tasks/get", "1", `"taskId":"1"`, http.StatusNotFound},
		{"ping", "", "", http.StatusNotFound},
		{"initialize", "", "", http.StatusNotFound},
		{"vendor/unknown", "", `"name":"x"`, http.StatusNotFound},
	} {
		t.Run(test.method, func(t *testing.T) {
			c := s.modern(test.method, test.name)
			c.t = t
			c.want(modernCall("7", test.method, test.params), test.status, `"id":7,"error":{"code":-32601,"message":"no such thing"}`)
		})
	}
}

// An error that answers initialize has the status of any other of its era: with 404, as
// the modern era has it, a client would take the server for one of HTTP+SSE. But −32022
// says of which era the server is.
func TestErrorToInitializeIsNoSignOfHTTPAndSSE(t *testing.T) {
	fail := func(code int) func(req *dragoman.Message) (*dragoman.Message, error) {
		return func(req *dragoman.Message) (*dragoman.Message, error) {
			return req.Fail(&dragoman.Error{Code: code, Message: "no"}), nil
		}
	}
	refuse := func(code int) dragoman.AcceptFunc {
		return func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
			return nil, &dragoman.Error{Code: code, Message: "no"}
		}
	}
	answer := func(f func(*dragoman.Message) (*dragoman.Message, error)) dragoman.AcceptFunc {
		return func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
			return dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
				return f(req)
			}}, nil
		}
	}
	for _, test := range []struct {
		name   string
		accept dragoman.AcceptFunc
		code   int
		status int
	}{
		{"method not found", answer(fail(protocol.CodeMethodNotFound)), protocol.CodeMethodNotFound, http.StatusOK},
		{"missing capability", answer(fail(protocol.CodeMissingCapability)), protocol.CodeMissingCapability, http.StatusOK},
		{"invalid params", answer(fail(protocol.CodeInvalidParams)), protocol.CodeInvalidParams, http.StatusOK},
		{"unsupported revision", answer(fail(protocol.CodeUnsupported)), protocol.CodeUnsupported, http.StatusBadRequest},
		{"overloaded", answer(func(*dragoman.Message) (*dragoman.Message, error) { return nil, dragoman.ErrOverloaded }), protocol.CodeOverloaded, http.StatusServiceUnavailable},
		{"refused by the acceptor", refuse(protocol.CodeMethodNotFound), protocol.CodeMethodNotFound, http.StatusOK},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t, &streamable.Server{Sessions: test.accept})
			s.want(initialize(protocol.LatestLegacy, `{}`), test.status, fmt.Sprintf(`"code":%d`, test.code))
			client := &streamable.Client{URL: s.url, Fallback: dragoman.DialFunc(func(context.Context, dragoman.Peer) (dragoman.Conn, error) {
				t.Error("the client falls back to HTTP+SSE")
				return nil, errors.New("no")
			})}
			conn := dialScript(t, client, nil)
			resp, err := conn.Call(t.Context(), peertest.Parse(t, initialize(protocol.LatestLegacy, `{}`)), nil)
			if err != nil || resp.RPCError() == nil || resp.RPCError().Code != test.code {
				t.Errorf("the client gets %v, %v", resp, err)
			}
		})
	}
}
