package aggregate_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Calls, lists and subscriptions continue while members come and go: every call ends
// with an answer, and what stays is never unknown.
func TestPain32_MembersComeAndGoUnderLoad(t *testing.T) {
	peertest.NoLeak(t)
	stays, comes := fake("stays", "x", "y"), newShelf("comes", "c://1")
	a := of(t, nil, stays)
	const rounds = 30
	var wg sync.WaitGroup
	for i := range 8 {
		// Ends after some rounds.
		wg.Go(func() {
			ctx := dragoman.WithCaller(t.Context(), &dragoman.Caller{Principal: fmt.Sprint(i % 3)})
			for range rounds {
				resp, err := a.Call(ctx, request(t, protocol.MethodCallTool, nil, call("stays_x", nil)), nil)
				if err != nil || resp.IsError() {
					t.Errorf("a call: %v, %v", resp, err)
					return
				}
				resp, err = a.Call(ctx, request(t, protocol.MethodListTools, nil, nil), nil)
				if err != nil || resp.IsError() {
					t.Errorf("a list: %v, %v", resp, err)
					return
				}
				if _, err = a.Call(ctx, request(t, protocol.MethodReadResource, nil, object{"uri": "c://1"}), nil); err != nil {
					t.Errorf("a read: %v", err)
					return
				}
			}
		})
	}
	s := listen(t, a, object{"toolsListChanged": true, "resourceSubscriptions": []string{"c://1"}})
	s.acked()
	for i := range rounds {
		if i%2 == 0 {
			a.Set(list(stays, comes.server))
		} else {
			a.Set(list(stays))
		}
		stays.changed(protocol.NoteToolsChanged)
	}
	wg.Wait()
	if n := stays.registered(); n != 1 {
		t.Errorf("%d registrations", n)
	}
}

func BenchmarkCall(b *testing.B) {
	t := new(testing.T)
	s := fake("a", "x.y")
	req := request(t, protocol.MethodCallTool, nil, call("a_x_y", object{"text": "hello"}))
	resp, err := req.Reply(object{"content": []any{}})
	if err != nil {
		b.Fatal(err)
	}
	a := of(t, nil, s)
	if _, err := a.Call(b.Context(), req, nil); err != nil {
		b.Fatal(err)
	}
	s.becomes(answers(map[string]any{protocol.MethodCallTool: string(resp.Result())}))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Call(b.Context(), req, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func TestManyWhoWantToKnowTheSameAskOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fake("a", "x")
		quick := s.peer
		s.peer = dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			if req.Method() == protocol.MethodListTools {
				time.Sleep(100 * time.Millisecond) // in which all others come
			}
			return quick.Call(ctx, req, from)
		}}
		a := of(t, nil, s)
		var wg sync.WaitGroup
		for range 50 {
			// Ends with its call.
			wg.Go(func() {
				resp, err := a.Call(t.Context(), request(t, protocol.MethodCallTool, nil, call("a_x", nil)), nil)
				if err != nil || resp.IsError() {
					t.Errorf("got %v, %v", resp, err)
				}
			})
		}
		wg.Wait()
		if n := s.saw(protocol.MethodListTools); n != 1 {
			t.Errorf("the member was asked for its list %d times", n)
		}
		for range 10 { // nor does the unknown make a storm
			refusal(t, a, protocol.MethodCallTool, call("a_none", nil))
		}
		if n := s.saw(protocol.MethodListTools); n > 3 {
			t.Errorf("the member was asked for its list %d times", n)
		}
	})
}
