package jsonrpc_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
)

// quickened returns a Conn whose requests have been served quickly for a while.
// Its peer answers "ping" at once, and does what else says otherwise.
func quickened(t *testing.T, otherwise func(ctx context.Context, req *dragoman.Message, from dragoman.Peer)) (*jsonrpc.Conn, *wire) {
	t.Helper()
	c, w := start(t, dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() != "ping" {
			otherwise(ctx, req, from)
		}
		return req.Reply(nil)
	}}, &jsonrpc.Options{Server: true})
	for i := range 200 {
		w.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i))
		if m := w.hear(t); m.ID().String() != fmt.Sprint(i) {
			t.Fatalf("answer %d: %s", i, m)
		}
	}
	return c, w
}

func TestRequestThatTakesLongAfterAllHoldsUpNobody(t *testing.T) {
	release := make(chan struct{})
	_, w := quickened(t, func(context.Context, *dragoman.Message, dragoman.Peer) { <-release })
	for range 20 {
		w.say(`{"jsonrpc":"2.0","id":"slow","method":"slow"}`)
		for i := range 30 {
			w.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i))
			if m := w.hear(t); m.ID().String() != fmt.Sprint(i) {
				t.Fatalf("behind a slow request: %s", m)
			}
		}
		release <- struct{}{}
		if m := w.hear(t); m.ID().String() != `"slow"` {
			t.Fatalf("the slow request: %s", m)
		}
	}
}

func TestQuickRequestMayAskAfterAll(t *testing.T) {
	_, w := quickened(t, func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) {
		q, _ := dragoman.NewRequest(dragoman.StringID("mine"), "question", nil)
		if resp, err := from.Call(ctx, q, nil); err != nil || string(resp.Get("yes")) != "true" {
			t.Errorf("the question: %v, %v", resp, err)
		}
	})
	w.say(`{"jsonrpc":"2.0","id":"asks","method":"asks"}`)
	q := w.hear(t)
	w.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"yes":true}}`, q.ID()))
	if m := w.hear(t); m.ID().String() != `"asks"` {
		t.Errorf("answer: %s", m)
	}
}

func TestQuickRequestMayCloseTheConversation(t *testing.T) {
	closed := make(chan error, 1)
	var conn *jsonrpc.Conn
	ready := make(chan struct{})
	c, w := quickened(t, func(context.Context, *dragoman.Message, dragoman.Peer) {
		<-ready
		closed <- conn.Close()
	})
	conn = c
	close(ready)
	w.say(`{"jsonrpc":"2.0","id":"closes","method":"closes"}`)
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("Close does not return")
	}
}
