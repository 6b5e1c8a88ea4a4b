package jsonrpc_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
)

// A server may continue with a call that was cancelled, and log. Its log messages must not reach
// the client of the next call.
func TestLogMessagesOfACancelledCallDoNotReachTheNextCaller(t *testing.T) {
	const log = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"secret"}}`
	answered := func(w *wire) { w.say(`{"jsonrpc":"2.0","id":#1,"result":{}}`) }
	for name, c := range map[string]struct {
		sent  bool // the first call is on the wire when it is cancelled
		then  func(w *wire)
		wants int // log messages that the second caller gets
	}{
		"the first call has no response":           {true, func(*wire) {}, 0},
		"it has a response by now":                 {true, answered, 1},
		"it was cancelled long ago":                {true, func(*wire) { time.Sleep(jsonrpc.AbandonedFor) }, 1},
		"it was cancelled not quite so long ago":   {true, func(*wire) { time.Sleep(jsonrpc.AbandonedFor - time.Millisecond) }, 0},
		"it was cancelled before it had been sent": {false, func(*wire) {}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWire()
				local, first, second := make(notes, 8), make(notes, 8), make(notes, 8)
				conn := jsonrpc.New(w, nil)
				conn.Start(local)
				defer conn.Close()
				ctx, cancel := context.WithCancel(t.Context())
				if !c.sent {
					cancel()
				}
				one := call(ctx, conn, peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"a"}`), first)
				synctest.Wait()
				cancel()
				await(t, one)
				two := call(t.Context(), conn, peertest.Parse(t, `{"jsonrpc":"2.0","id":2,"method":"b"}`), second)
				synctest.Wait()
				c.then(w)
				w.say(log)
				synctest.Wait()
				if len(second) != c.wants || len(local) != 1-c.wants || len(first) != 0 {
					t.Errorf("the second caller got %d, the first %d, the local peer %d", len(second), len(first), len(local))
				}
				_ = conn.Close()
				await(t, two)
			})
		})
	}
}

func TestAnErrorWithoutAnIdStillEndsTheOnlyCallAfterACancelledOne(t *testing.T) {
	c, w := start(t, nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	one := call(ctx, c, peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"a"}`), nil)
	w.hear(t)
	cancel()
	await(t, one)
	w.hear(t)
	two := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":2,"method":"b"}`), nil)
	w.hear(t)
	w.say(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}`)
	if r := await(t, two); r.err != nil || r.resp.ID() != dragoman.IntID(2) {
		t.Errorf("answer: %v, %v", r.resp, r.err)
	}
}
