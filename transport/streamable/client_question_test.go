package streamable_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

// sorted returns lines in order: questions and notifications come side by side.
func sorted(lines string) string {
	list := strings.Split(strings.TrimSpace(lines), "\n")
	slices.Sort(list)
	return strings.Join(list, "\n")
}

// A question of a legacy server goes to the caller on whose stream it comes, as
// long as the call is in flight, and else to the local peer: whose it is may be
// known there. It is answered once in any case.
func TestQuestionReachesTheCallOfItsStreamOrTheLocalPeer(t *testing.T) {
	const (
		question = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`
		log      = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"late"}}`
		changed  = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	)
	for _, c := range []struct {
		name       string
		background bool     // the question comes on the background stream
		before     []string // what the call's stream brings before the answer
		after      []string // and after it
		alone      bool     // the call has no caller
		modern     bool
		caller     string // what it is told and asked
		local      string // likewise
		answers    int
	}{
		{name: "on the background stream", background: true, local: question, answers: 1},
		{name: "on the stream of a call in flight", before: []string{question}, caller: question, answers: 1},
		{name: "on the stream of a call without a caller", before: []string{question}, alone: true, local: question, answers: 1},
		{name: "on the stream of a call that has its answer", after: []string{log, question, changed}, local: question + "\n" + changed, answers: 1},
		{name: "of a modern server", before: []string{question}, modern: true},
		{name: "of a modern server, after the answer", after: []string{question}, modern: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, answered := make(chan struct{}), make(chan struct{}, 1)
				s, client := serveInMemory(t, func(w http.ResponseWriter, k *took) {
					switch {
					case k.Method == http.MethodGet:
						sendEvents(w, ": ok")
						if c.background {
							<-begun
							sendEvents(w, oneEvent("", question))
						}
						<-k.Context().Done()
					case k.what() == "tools/call":
						close(begun)
						for _, text := range c.before {
							sendEvents(w, oneEvent("", text))
						}
						if c.answers > 0 && len(c.after) == 0 {
							<-answered
						}
						sendEvents(w, oneEvent("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, k.m.ID())))
						for _, text := range c.after {
							sendEvents(w, oneEvent("", text))
						}
					default:
						shakes(w, k, "2025-11-25")
						if k.what() == "response" {
							answered <- struct{}{}
						}
					}
				})
				local, caller := newHeard(), newHeard()
				var from dragoman.Peer = caller
				if c.alone {
					from = nil
				}
				conn := dialScript(t, client, local)
				text := modernTool
				if !c.modern {
					text = callTool
					shake(t, conn, "2025-11-25")
				}
				if resp, err := conn.Call(t.Context(), peertest.Parse(t, text), from); err != nil || resp.IsError() {
					t.Fatalf("got %v, %v", resp, err)
				}
				synctest.Wait()
				if got := sorted(caller.all()); got != c.caller {
					t.Errorf("the caller heard %q, want %q", got, c.caller)
				}
				if got := sorted(local.all()); got != c.local {
					t.Errorf("the local peer heard %q, want %q", got, c.local)
				}
				_, list := s.taken("response")
				if len(list) != c.answers {
					t.Fatalf("%d answers, want %d", len(list), c.answers)
				}
				for _, k := range list {
					if k.text != `{"jsonrpc":"2.0","id":"q","result":{"asked":"elicitation/create"}}` || k.Header.Get("Mcp-Session-Id") != "s1" {
						t.Errorf("the answer is %s in session %q", k.text, k.Header.Get("Mcp-Session-Id"))
					}
				}
			})
		})
	}
}

// A gateway that does not know whose a question is may use the stream of any call.
func TestQuestionThatOutlivesTheCallOfItsStreamIsTheLocalPeersIfItMayBeOfAnother(t *testing.T) {
	const (
		question = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`
		other    = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"other"}}`
		local    = `{"jsonrpc":"2.0","id":"q","result":{"asked":"elicitation/create"}}`
	)
	for name, c := range map[string]struct {
		others  bool
		answers string // contain this
	}{
		"another call is in flight": {true, local},
		"none is":                   {false, `cancelled on the way`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked, answered := make(chan struct{}), make(chan struct{})
				s, client := serveInMemory(t, func(w http.ResponseWriter, k *took) {
					switch {
					case k.what() == "tools/call" && k.m.Name() == "other":
						<-answered
						sendEvents(w, oneEvent("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, k.m.ID())))
					case k.what() == "tools/call":
						sendEvents(w, oneEvent("", question))
						<-asked
						sendEvents(w, oneEvent("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, k.m.ID())))
					default:
						shakes(w, k, "2025-11-25")
						if k.what() == "response" {
							close(answered)
						}
					}
				})
				conn := dialScript(t, client, newHeard())
				shake(t, conn, "2025-11-25")
				var calls sync.WaitGroup
				if c.others {
					calls.Go(func() {
						if resp, err := conn.Call(t.Context(), peertest.Parse(t, other), newHeard()); err != nil || resp.IsError() {
							t.Errorf("the other call: %v, %v", resp, err)
						}
					})
					synctest.Wait()
				}
				if resp, err := conn.Call(t.Context(), peertest.Parse(t, callTool), undecided(asked)); err != nil || resp.IsError() {
					t.Errorf("the call: %v, %v", resp, err)
				}
				calls.Wait()
				synctest.Wait()
				if _, list := s.taken("response"); len(list) != 1 || !strings.Contains(list[0].text, c.answers) {
					t.Errorf("the answers are %v", list)
				}
			})
		})
	}
}

// An undecided caller does not answer. It is closed when it is asked.
type undecided chan struct{}

func (undecided) Notify(context.Context, *dragoman.Message) error { return nil }

func (u undecided) Call(ctx context.Context, _ *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	close(u)
	<-ctx.Done()
	return nil, context.Cause(ctx)
}
