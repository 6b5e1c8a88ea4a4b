package up_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const created = `{"resultType":"task","taskId":"t1","status":"working","createdAt":"x","lastUpdatedAt":"x","ttlMs":null,"pollIntervalMs":%s}`

func TestTaskIsFollowedToItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		link := scripted(map[string]handler{
			protocol.MethodCallTool: inTurn(fmt.Sprintf(created, "2000")),
			protocol.MethodGetTask: inTurn(
				`{"resultType":"complete","taskId":"t1","status":"working","pollIntervalMs":3000}`,
				`{"resultType":"complete","taskId":"t1","status":"input_required","pollIntervalMs":1000,"inputRequests":{"a":{"method":"roots/list"}}}`,
				`{"resultType":"complete","taskId":"t1","status":"input_required","pollIntervalMs":1000,"inputRequests":{"a":{"method":"roots/list"},"b":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}}}`,
				`{"resultType":"complete","taskId":"t1","status":"input_required","pollIntervalMs":1000,"inputRequests":{"b":{"method":"roots/list"}}}`,
				`{"resultType":"complete","taskId":"t1","status":"completed","result":{"resultType":"complete","content":[{"type":"text","text":"12345678901234567890"}],"structuredContent":{"n":12345678901234567890}}}`,
			),
		})
		start := time.Now()
		c := connect(t, serve(t, link, nil), protocol.V20251125)
		resp := c.must(`{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"x","task":{"ttl":1}}}`)
		if string(resp.Get("structuredContent")) != `{"n":12345678901234567890}` || says(t, resp) == "" {
			t.Errorf("got %s", resp)
		}
		if link.requests(protocol.MethodCallTool)[0].Get("task") != nil {
			t.Error("the task of the legacy era reached the server")
		}
		updates := link.requests(protocol.MethodUpdateTask)
		if len(updates) != 2 || len(c.questions()) != 2 {
			t.Fatalf("%d updates, %d questions", len(updates), len(c.questions()))
		}
		for i, want := range []string{`{"a":{"roots":[{"uri":"file:///home"}]}}`, `{"b":` + c.answers[protocol.MethodElicit] + `}`} {
			if string(updates[i].Get("inputResponses")) != want || string(updates[i].Get("taskId")) != `"t1"` {
				t.Errorf("update %d: %s", i, updates[i])
			}
		}
		for _, req := range append(updates, link.requests(protocol.MethodGetTask)...) {
			if _, err := protocol.ReadEnvelope(req); err != nil {
				t.Errorf("%s: %v", req, err)
			}
		}
		// 2 s, 3 s, then 1 s in which the server takes in the second answer.
		if took := time.Since(start); took != 6*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestPollingOfTasksIsBounded(t *testing.T) {
	t.Parallel()
	for interval, want := range map[string]time.Duration{"0": 100 * time.Millisecond, "-5": 100 * time.Millisecond, "1e12": 30 * time.Second, "null": time.Second, "150": 150 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			link := scripted(map[string]handler{
				protocol.MethodCallTool: inTurn(fmt.Sprintf(created, interval)),
				protocol.MethodGetTask:  inTurn(`{"taskId":"t1","status":"completed","result":{"content":[]}}`),
			})
			c := connect(t, serve(t, link, nil), protocol.V20250618)
			start := time.Now()
			c.must(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`)
			if took := time.Since(start); took != want {
				t.Errorf("interval %s: looked after %v, want %v", interval, took, want)
			}
		})
	}
}

func TestTaskThatEndsOtherwise(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]struct {
		code int // 0 for a result that is an error
		text string
	}{
		`{"taskId":"t1","status":"failed","error":{"code":-32050,"message":"burst","data":{"x":1}}}`: {-32050, "burst"},
		`{"taskId":"t1","status":"failed"}`:                                                {protocol.CodeInternal, "without an error"},
		`{"taskId":"t1","status":"cancelled","statusMessage":"why not"}`:                   {0, "cancelled the task"},
		`{"taskId":"t1","status":"completed"}`:                                             {protocol.CodeInternal, "without a result"},
		`{"taskId":"t1","status":"asleep"}`:                                                {protocol.CodeInternal, "unknown status"},
		`{"status":"working"}`:                                                             {protocol.CodeInternal, "lacks"},
		`{"taskId":"t1","status":"input_required","inputRequests":{"a":{"method":"x/y"}}}`: {protocol.CodeInternal, "not a question"},
	} {
		synctest.Test(t, func(t *testing.T) {
			link := scripted(map[string]handler{protocol.MethodCallTool: inTurn(fmt.Sprintf(created, "100")), protocol.MethodGetTask: inTurn(got)})
			c := connect(t, serve(t, link, nil), protocol.V20251125)
			if want.code != 0 {
				wants(t, c.fails(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`, want.code).Message, want.text)
				return
			}
			resp := c.must(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`)
			wants(t, says(t, resp), want.text)
		})
	}
}

func TestTaskIsCancelledWhenNobodyWantsIt(t *testing.T) {
	t.Parallel()
	t.Run("by the client", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			link := scripted(map[string]handler{protocol.MethodCallTool: inTurn(fmt.Sprintf(created, "60000")), protocol.MethodGetTask: inTurn(`{"taskId":"t1","status":"working"}`)})
			c := connect(t, serve(t, link, nil), protocol.V20250618)
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Minute, func() { cancel(dragoman.ErrCancelled) })
			_, err := c.conn.Call(ctx, parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`), c)
			if !errors.Is(err, dragoman.ErrCancelled) {
				t.Errorf("got %v", err)
			}
			if all := link.requests(protocol.MethodCancelTask); len(all) != 1 || string(all[0].Get("taskId")) != `"t1"` {
				t.Errorf("cancelled by %v", all)
			}
		})
	})
	t.Run("because its questions have no answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			link := scripted(map[string]handler{
				protocol.MethodCallTool: inTurn(fmt.Sprintf(created, "100")),
				protocol.MethodGetTask:  inTurn(`{"taskId":"t1","status":"input_required","inputRequests":{"a":{"method":"roots/list"}}}`),
			})
			c := connect(t, serve(t, link, nil), protocol.V20250618)
			c.answers[protocol.MethodListRoots] = "!"
			wants(t, says(t, c.tool("x", `{}`)), "refused roots/list")
			if n := len(link.requests(protocol.MethodCancelTask)); n != 1 {
				t.Errorf("cancelled %d times", n)
			}
		})
	})
}

func TestTaskOutlivesABrokenLink(t *testing.T) {
	t.Parallel()
	for losses, lost := range map[int]bool{4: false, 5: true} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			link := scripted(map[string]handler{
				protocol.MethodCallTool: inTurn(fmt.Sprintf(created, "100")),
				protocol.MethodGetTask: func(context.Context, *dragoman.Message, dragoman.Peer) (string, error) {
					if n++; n <= losses {
						return "", dragoman.Closed(errors.New("cut"))
					}
					return `{"taskId":"t1","status":"completed","result":{"content":[]}}`, nil
				},
			})
			c := connect(t, serve(t, link, nil), protocol.V20250618)
			_, err := c.conn.Call(t.Context(), parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`), c)
			if lost != errors.Is(err, dragoman.ErrClosed) || !lost && err != nil {
				t.Errorf("after %d losses: %v", losses, err)
			}
			if n := len(link.requests(protocol.MethodCallTool)); n != 1 {
				t.Errorf("the tool was called %d times", n)
			}
		})
	}
	// The server's own word is final.
	link := scripted(map[string]handler{
		protocol.MethodCallTool: inTurn(fmt.Sprintf(created, "100")),
		protocol.MethodGetTask: func(context.Context, *dragoman.Message, dragoman.Peer) (string, error) {
			return "", &dragoman.Error{Code: protocol.CodeInvalidParams, Message: "no such task"}
		},
	})
	c := connect(t, serve(t, link, nil), protocol.V20250618)
	c.fails(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`, protocol.CodeInvalidParams)
}
