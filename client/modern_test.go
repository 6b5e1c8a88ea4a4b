package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// scripted is a modern server whose answers to tools/call are results that a
// function gives, by how many there have been. Everything else is asked of
// other.
func scripted(answer func(n int, req *dragoman.Message) string, other dragoman.Funcs) *client.Server {
	var calls atomic.Int32
	return &client.Server{Name: "scripted", Dialer: dragoman.Local(dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
		return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			switch req.Method() {
			case protocol.MethodDiscover:
				return req.Reply(json.RawMessage(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true}},"ttlMs":0,"cacheScope":"private","resultType":"complete"}`))
			case protocol.MethodCallTool:
				return req.Reply(json.RawMessage(answer(int(calls.Add(1)), req)))
			}
			return other.Call(ctx, req, from)
		}}, nil
	}))}
}

func TestRoundsOfInputComeToAnEnd(t *testing.T) {
	const done = `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`
	asking := func(method, state string) string {
		return fmt.Sprintf(`{"resultType":"input_required","inputRequests":{"q":{"method":%q,"params":{"message":"m","mode":"form","requestedSchema":{}}}},"requestState":%q}`, method, state)
	}
	for name, test := range map[string]struct {
		answer func(n int, req *dragoman.Message) string
		want   string
	}{
		"with the state of the last round": {func(n int, req *dragoman.Message) string {
			switch {
			case n == 1:
				return asking(protocol.MethodElicit, "one")
			case string(req.Get("requestState")) != `"one"` || !strings.Contains(string(req.Get("inputResponses")), `"q":{"action":"decline"}`):
				return `{"content":[{"type":"text","text":"bad retry ` + strings.ReplaceAll(string(req.Params()), `"`, "'") + `"}]}`
			}
			return done
		}, "done"},
		"without questions": {func(n int, req *dragoman.Message) string {
			if n < 4 {
				return `{"resultType":"input_required","requestState":"s"}`
			}
			return done
		}, "done"},
		"without a type":         {func(int, *dragoman.Message) string { return `{"content":[{"type":"text","text":"done"}]}` }, "done"},
		"asking again and again": {func(int, *dragoman.Message) string { return asking(protocol.MethodElicit, "s") }, "after 10 rounds"},
		"asking what nobody said it may": {func(int, *dragoman.Message) string { return asking(protocol.MethodCreateMessage, "s") },
			"has not said that it answers"},
		"asking nothing":  {func(int, *dragoman.Message) string { return `{"resultType":"input_required"}` }, "neither asks"},
		"asking nonsense": {func(int, *dragoman.Message) string { return `{"resultType":"input_required","inputRequests":7}` }, "cannot be read"},
		"another type":    {func(int, *dragoman.Message) string { return `{"resultType":"task"}` }, "which it cannot have"},
		"not a result":    {func(int, *dragoman.Message) string { return `{"content":7}` }, "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := bubbled(t, scripted(test.answer, dragoman.Funcs{}), &client.Options{
					Elicitation: func(context.Context, json.RawMessage) (any, error) { return object{"action": "decline"}, nil },
				})
				got, err := c.CallTool(t.Context(), "x", nil, nil)
				text := fmt.Sprint(err)
				if err == nil {
					text = got.Text()
				} else if !errors.Is(err, client.NetworkError) {
					t.Errorf("the error is %v", err)
				}
				if !strings.Contains(text, test.want) {
					t.Errorf("got %s, want %s", text, test.want)
				}
			})
		})
	}
}

func TestAUserWhoCannotBeAskedCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubbled(t, scripted(func(n int, req *dragoman.Message) string {
			if n == 1 {
				return `{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"mode":"url","url":"https://x","message":"m"}}}}`
			}
			return `{"content":[{"type":"text","text":` + string(mustQuote(req.Get("inputResponses"))) + `}]}`
		}, dragoman.Funcs{}), &client.Options{
			ElicitationURL: func(context.Context, json.RawMessage) (any, error) { return nil, errors.New("no browser") },
		})
		got, err := c.CallTool(t.Context(), "x", nil, nil)
		if err != nil || got.Text() != `{"q":{"action":"cancel"}}` {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func mustQuote(text []byte) []byte {
	quoted, err := json.Marshal(string(text))
	if err != nil {
		panic(err)
	}
	return quoted
}

func TestARequestCarriesItsEnvelopeAndWhatTheCallerPutThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := make(chan *dragoman.Message, 1)
		c := bubbled(t, scripted(func(_ int, req *dragoman.Message) string {
			seen <- req
			return `{"content":[]}`
		}, dragoman.Funcs{}), &client.Options{Name: "n", Version: "v", Roots: func(context.Context, json.RawMessage) (any, error) { return nil, nil }})
		if err := c.SetLevel(t.Context(), "error"); err != nil {
			t.Fatal(err)
		}
		params := json.RawMessage(`{"name":"x","arguments":{"n":12345678901234567890},"_meta":{"progressToken":"mine","other":1}}`)
		if _, err := c.Request(t.Context(), protocol.MethodCallTool, params); err != nil {
			t.Fatal(err)
		}
		req := <-seen
		env, err := protocol.ReadEnvelope(req)
		if err != nil || env.Version != "2026-07-28" || string(env.Capabilities) != `{"roots":{}}` || string(env.LogLevel) != `"error"` || !strings.Contains(string(env.Client), `"name":"n"`) {
			t.Errorf("the envelope is %+v, %v", env, err)
		}
		if string(req.Get("arguments")) != `{"n":12345678901234567890}` || req.MetaText("progressToken") != "mine" || string(req.Meta("other")) != "1" {
			t.Errorf("it sends %s", req)
		}
	})
}
