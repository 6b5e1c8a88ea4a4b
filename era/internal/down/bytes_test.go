package down_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/down"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const mib = 1 << 20

// asksMuch is a server whose tools ask with a text of so many bytes, and answer with how that went.
func asksMuch(size int) *script {
	s := &script{rev: protocol.V20251125}
	form := confirmForm(strings.Repeat("x", size))
	s.on = map[string]handler{protocol.MethodCallTool: func(ctx context.Context, c *scripted, _ *dragoman.Message, from dragoman.Peer) (any, error) {
		if _, err := c.ask(ctx, from, protocol.MethodElicit, form); err != nil {
			return text("not asked: " + err.Error()), nil //nolint:nilerr // the result says it
		}
		return text("asked"), nil
	}}
	return s
}

// A client that leaves large questions unanswered uses up its own room, and not that of others.
func TestBytesThatWaitForAClientAreBounded(t *testing.T) {
	peertest.NoLeak(t)
	r := newRig(t, dragoman.Local(asksMuch(5*mib)), nil, nil)
	call := func(who string, i int) *dragoman.Message {
		return r.send(as(t.Context(), who), r.request(protocol.MethodCallTool, canAll, callParams(fmt.Sprint(i), nil)), nil)
	}
	var states []string
	for i := range 20 {
		resp := call("ada", i)
		if result(t, resp)["resultType"] == "complete" {
			if got := said(t, complete(t, resp)); !strings.Contains(got, "too many bytes") {
				t.Errorf("got %q", got)
			}
			break
		}
		_, state := asked(t, resp)
		states = append(states, state)
	}
	if n := len(states); n < 2 || n > 6 {
		t.Fatalf("%d calls of 5 MiB wait, want about 32 MiB in all", n)
	}
	_, bob := asked(t, call("bob", 100))
	for i, state := range states {
		complete(t, r.send(as(t.Context(), "ada"), r.request(protocol.MethodCallTool, canAll, with(callParams(fmt.Sprint(i), nil), state, yes(fmt.Sprint(i+1)))), nil))
	}
	asked(t, call("ada", 200)) // there is room again
	complete(t, r.send(as(t.Context(), "bob"), r.request(protocol.MethodCallTool, canAll, with(callParams("100", nil), bob, yes("1"))), nil))
}

// What a server answers while its client is away is kept if there is room, and else lost.
func TestAnswersThatWaitForAClientAreBounded(t *testing.T) {
	for size, kept := range map[int]bool{mib: true, 40 * mib: false} {
		synctest.Test(t, func(t *testing.T) {
			patient, cancel := context.WithCancel(t.Context())
			s := &script{rev: protocol.V20251125}
			s.on = map[string]handler{protocol.MethodCallTool: func(ctx context.Context, c *scripted, _ *dragoman.Message, from dragoman.Peer) (any, error) {
				ctx, stop := context.WithCancel(ctx)
				defer stop()
				context.AfterFunc(patient, stop)
				_, _ = c.ask(ctx, from, protocol.MethodElicit, confirmForm("?"))
				return text(strings.Repeat("x", size)), nil
			}}
			r := newRig(t, dragoman.Local(s), nil, nil)
			params := callParams("x", nil)
			_, state := asked(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, params), nil))
			cancel()
			synctest.Wait() // the server answers by itself
			resp := r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, with(params, state, yes("1"))), nil)
			if !kept {
				wantError(t, resp, protocol.CodeInvalidParams, "too many bytes wait")
			} else if got := said(t, complete(t, resp)); len(got) != size {
				t.Errorf("got %d bytes", len(got))
			}
		})
	}
}

// A client that is sent to many web sites uses up its own states, and not those of others.
func TestVisitsOfOneCallerLeaveRoomForOthers(t *testing.T) {
	peertest.NoLeak(t)
	var j journal
	r := newRig(t, dragoman.Local(consenting(4, &j)), nil, &down.Options{MaxSuspended: 2})
	callers := []string{"ada", "ada", "ada", "bob"}
	var states []string
	for _, who := range callers {
		_, state := asked(t, r.send(as(t.Context(), who), r.request(protocol.MethodCallTool, canAll, callParams("x", nil)), nil))
		states = append(states, state)
	}
	all := object{"1": object{"action": "accept"}, "2": object{"action": "accept"}}
	for i, state := range states {
		resp := r.send(as(t.Context(), callers[i]), r.request(protocol.MethodCallTool, canAll, with(callParams("x", nil), state, all)), nil)
		if i == 2 {
			wantError(t, resp, protocol.CodeOverloaded, "too many")
		} else {
			complete(t, resp)
		}
	}
}
