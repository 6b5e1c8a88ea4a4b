package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// handmade is a legacy server that answers tools/call by a function, which gets
// the client as it is outside of any call.
func handmade(call func(ctx context.Context, req *dragoman.Message, outside dragoman.Peer) (*dragoman.Message, error)) *client.Server {
	return &client.Server{Name: "handmade", Dialer: dragoman.Local(dragoman.AcceptFunc(func(_ context.Context, outside dragoman.Conn) (dragoman.Peer, error) {
		return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			switch req.Method() {
			case protocol.MethodInitialize:
				return req.Reply(json.RawMessage(`{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"h","version":"1"}}`))
			case protocol.MethodCallTool:
				return call(ctx, req, outside)
			}
			return dragoman.NoPeer.Call(ctx, req, from)
		}}, nil
	}))}
}

type fault string

func (f fault) Error() string   { return "fault" }
func (f fault) Outcome() string { return string(f) }

func TestC08_ErrorsAreToldApart(t *testing.T) {
	for _, test := range []struct {
		err    error
		kind   client.Kind
		sent   bool
		advice string
	}{
		{dragoman.Closed(io.EOF), client.ConnectionLost, true, "connects again"},
		{dragoman.Closed(&stdio.ExitError{Command: "x", Status: -1, Signal: "killed"}), client.ProcessCrashed, true, "standard error"},
		{dragoman.ErrOverloaded, client.NetworkError, false, "fewer"},
		{dragoman.ErrTooLarge, client.NetworkError, true, "larger"},
		{fault(protocol.OutcomeNotSent), client.ConnectionFailed, false, "is running"},
		{fault(protocol.OutcomeUnknown), client.NetworkError, true, "may have been carried out"},
		{&dragoman.TimeoutError{}, client.Timeout, true, "more time"},
		{&protocol.StatusError{Status: http.StatusTooManyRequests}, client.NetworkError, false, "later"},
		{&protocol.StatusError{Status: http.StatusBadGateway}, client.NetworkError, true, "later"},
		{&protocol.StatusError{Status: http.StatusNotFound}, client.NetworkError, false, "path"},
		{fmt.Errorf("ws: no socket: %w", &protocol.StatusError{Status: http.StatusBadRequest}), client.NetworkError, false, "URL"},
		{errors.New("whatever"), client.NetworkError, true, "still open"},
	} {
		c := connect(t, handmade(func(context.Context, *dragoman.Message, dragoman.Peer) (*dragoman.Message, error) {
			return nil, test.err
		}), nil)
		_, err := c.CallTool(within(t), "x", nil, nil)
		e := failure(t, err, test.kind)
		if e.Sent != test.sent || !strings.Contains(e.Advice, test.advice) || !errors.Is(err, test.err) || e.Server != "handmade" {
			t.Errorf("%v: %+v", test.err, e)
		}
		for _, want := range []string{"client: handmade: " + test.kind.String() + " in ", protocol.MethodCallTool, test.err.Error(), e.Advice} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v does not say %q", err, want)
			}
		}
	}
}

func TestD17_AnErrorOfTheServerIsNoErrorOfOurs(t *testing.T) {
	for _, code := range []int{-32602, protocol.CodeUnavailable, 7} { // the second of another gateway
		c := connect(t, handmade(func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			return req.Fail(&dragoman.Error{Code: code, Message: "no", Data: json.RawMessage(`{"reason":"x"}`)}), nil
		}), nil)
		if c.Revision() != protocol.V20241105 {
			t.Errorf("the server speaks %v", c.Revision())
		}
		_, err := c.CallTool(within(t), "x", nil, nil)
		e, ok := errors.AsType[*dragoman.Error](err)
		if _, ours := errors.AsType[*client.Error](err); !ok || ours || e.Code != code || string(e.Data) != `{"reason":"x"}` {
			t.Errorf("%d: %v", code, err)
		}
	}
}

func TestQuestionsOutsideOfCallsAreAnswered(t *testing.T) {
	c := connect(t, handmade(func(ctx context.Context, req *dragoman.Message, outside dragoman.Peer) (*dragoman.Message, error) {
		q, err := dragoman.NewRequest(dragoman.IntID(1), req.Name(), nil)
		if err != nil {
			return nil, err
		}
		resp, err := outside.Call(ctx, q, nil)
		if err != nil {
			return nil, err
		}
		return req.Reply(object{"content": []object{{"type": "text", "text": resp.String()}}})
	}), &client.Options{
		Roots: func(context.Context, json.RawMessage) (any, error) {
			return []byte(`{"roots":[{"uri":"file:///x"}]}`), nil
		},
		Sampling: func(context.Context, json.RawMessage) (any, error) {
			return nil, fmt.Errorf("today: %w", &dragoman.Error{Code: -1, Message: "refused by the user"})
		},
		Elicitation: func(context.Context, json.RawMessage) (any, error) { return func() {}, nil },
	})
	for question, want := range map[string]string{
		protocol.MethodPing:          `"result":{}`,
		protocol.MethodListRoots:     `"uri":"file:///x"`,
		protocol.MethodCreateMessage: `"code":-1`,
		"nonsense":                   `"code":-32601`,
	} {
		got, err := c.CallTool(within(t), question, nil, nil)
		if err != nil || !strings.Contains(got.Text(), want) {
			t.Errorf("%s: %v, %v", question, got, err)
		}
	}
}

func TestWhatCannotBeEncodedIsNotSent(t *testing.T) {
	c := connect(t, handmade(func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		t.Errorf("it was sent %s", req)
		return req.Reply(nil)
	}), nil)
	if _, err := c.CallTool(within(t), "x", func() {}, nil); err == nil {
		t.Error("a function is sent as arguments")
	}
	if _, err := c.CallTool(within(t), "x", []byte(`{"a":`), nil); err == nil {
		t.Error("half a text is sent as arguments")
	}
	for _, params := range []any{func() {}, json.RawMessage(`[1]`), 7} {
		if _, err := c.Request(within(t), protocol.MethodCallTool, params); err == nil {
			t.Errorf("%T is sent as params", params)
		}
	}
}
