package jsonrpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const callLimit = 10 * time.Second

// limited runs a test with a Conn whose calls are limited, in a bubble of synctest.
func limited(t *testing.T, opts *jsonrpc.Options, f func(t *testing.T, c *jsonrpc.Conn, w *wire)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		c := jsonrpc.New(w, opts)
		c.Start(nil)
		c.LimitCalls(callLimit)
		f(t, c, w)
		_ = c.Close()
	})
}

// pending fails if a call has returned.
func pending(t *testing.T, done <-chan reply) {
	t.Helper()
	synctest.Wait()
	select {
	case r := <-done:
		t.Fatalf("the call has returned: %v, %v", r.resp, r.err)
	default:
	}
}

// expired fails unless a call has ended because it took too long.
func expired(t *testing.T, done <-chan reply) {
	t.Helper()
	synctest.Wait()
	select {
	case r := <-done:
		if !errors.Is(r.err, context.DeadlineExceeded) {
			t.Errorf("the call returned %v, %v", r.resp, r.err)
		}
	default:
		t.Fatal("the call continues")
	}
}

func TestCallThatTakesTooLongEndsAndIsCancelled(t *testing.T) {
	limited(t, nil, func(t *testing.T, c *jsonrpc.Conn, w *wire) {
		first := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":"a","method":"a"}`), nil)
		w.hear(t)
		time.Sleep(callLimit / 2)
		second := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":"b","method":"b"}`), nil)
		w.hear(t)
		time.Sleep(callLimit/2 - 1)
		pending(t, first)
		time.Sleep(time.Nanosecond)
		expired(t, first)
		if m := w.hear(t); m.Method() != protocol.NoteCancelled || string(m.Get("requestId")) != w.real("#1") {
			t.Errorf("then the wire carries %s", m)
		}
		time.Sleep(callLimit/2 - 1)
		pending(t, second)
		time.Sleep(time.Nanosecond)
		expired(t, second)
		w.hear(t)
		w.say(`{"jsonrpc":"2.0","id":#1,"result":{}}`)

		time.Sleep(3 * callLimit) // with nothing in flight
		third := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":"c","method":"c"}`), nil)
		time.Sleep(callLimit - 1)
		pending(t, third)
		time.Sleep(time.Nanosecond)
		expired(t, third)
	})
}

func TestProgressCountsAgainForACall(t *testing.T) {
	limited(t, nil, func(t *testing.T, c *jsonrpc.Conn, w *wire) {
		done := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":"a","method":"a","params":{"_meta":{"progressToken":1}}}`), make(notes, 8))
		for range 5 {
			time.Sleep(callLimit - 1)
			w.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":#1,"progress":1}}`)
		}
		time.Sleep(callLimit - 1)
		pending(t, done)
		time.Sleep(time.Nanosecond)
		expired(t, done)
	})
}

func TestCallTakesNoTimeWhileItsQuestionIsAnswered(t *testing.T) {
	limited(t, nil, func(t *testing.T, c *jsonrpc.Conn, w *wire) {
		user := dragoman.Funcs{OnCall: func(_ context.Context, q *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			time.Sleep(5 * callLimit)
			return q.Reply(nil)
		}}
		done := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":"a","method":"a"}`), user)
		w.hear(t)
		w.say(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`)
		time.Sleep(5 * callLimit)
		synctest.Wait()
		time.Sleep(callLimit - 1)
		pending(t, done)
		time.Sleep(time.Nanosecond)
		expired(t, done)
	})
}

func TestListenMayTakeForever(t *testing.T) {
	limited(t, nil, func(t *testing.T, c *jsonrpc.Conn, _ *wire) {
		done := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":"a","method":"subscriptions/listen","params":{}}`), nil)
		time.Sleep(10 * callLimit)
		pending(t, done)
		_ = c.Close()
		if r := await(t, done); !errors.Is(r.err, dragoman.ErrClosed) {
			t.Errorf("the listen returned %v", r.err)
		}
	})
}

// It has not been sent, and its caller gets an error.
func TestCallThatWaitsForRoomTakesTooLongToo(t *testing.T) {
	limited(t, &jsonrpc.Options{MaxQueue: 160, Queued: true}, func(t *testing.T, c *jsonrpc.Conn, w *wire) {
		w.hold = make(chan struct{})
		first := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":"a","method":"a"}`), nil)
		synctest.Wait()
		second := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":"b","method":"`+strings.Repeat("b", 160)+`"}`), nil)
		time.Sleep(callLimit - 1)
		pending(t, first)
		pending(t, second)
		time.Sleep(time.Nanosecond)
		expired(t, first)
		if r := await(t, second); !errors.Is(r.err, dragoman.ErrOverloaded) || errors.Is(r.err, context.DeadlineExceeded) {
			t.Errorf("the call that was not sent returned %v, %v", r.resp, r.err)
		}
		close(w.hold)
		var sent []string
		synctest.Wait()
		for len(w.sent) > 0 {
			sent = append(sent, w.hear(t).Method())
		}
		if len(sent) != 2 || sent[0] != "a" || sent[1] != protocol.NoteCancelled {
			t.Errorf("written %q, want the call that was sent and its end", sent)
		}
	})
}

func TestWhatComesBeforeARequestIsSentIsTakenAfterwards(t *testing.T) {
	limited(t, &jsonrpc.Options{MaxQueue: 160, Queued: true}, func(t *testing.T, c *jsonrpc.Conn, w *wire) {
		w.hold = make(chan struct{})
		id := jsonrpc.NewID[any](nil) + 2 // the second call's
		call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":"a","method":"a"}`), nil)
		synctest.Wait()
		received := make(notes, 1)
		second := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":"b","method":"`+strings.Repeat("b", 160)+`","params":{"_meta":{"progressToken":2}}}`), received)
		synctest.Wait()
		w.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":1}}`, id))
		pending(t, second)
		w.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"soon":true}}`, id))
		pending(t, second)
		close(w.hold)
		if r := await(t, second); r.err != nil || string(r.resp.Get("soon")) != "true" || len(received) != 1 {
			t.Errorf("the call returned %v, %v, and %d notifications", r.resp, r.err, len(received))
		}
		w.hear(t)
		w.hear(t) // the second has been sent all the same
	})
}

func TestQuestionThatTheLocalPeerIsAskedOutlivesTheOnlyCallAndStopsTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer, asked := make(chan struct{}), make(chan context.Context, 1)
		w := newWire()
		c := jsonrpc.New(w, nil)
		c.Start(dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			asked <- ctx
			<-answer
			return req.Reply(nil)
		}})
		c.LimitCalls(callLimit)
		c.AskLocal()
		from := dragoman.Funcs{OnCall: func(context.Context, *dragoman.Message, dragoman.Peer) (*dragoman.Message, error) {
			return nil, errors.New("the call is not to be asked")
		}}
		first := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":"a","method":"a"}`), from)
		w.hear(t)
		w.say(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create"}`)
		ctx := <-asked
		time.Sleep(10 * callLimit)
		pending(t, first)
		w.say(`{"jsonrpc":"2.0","id":#1,"result":{}}`)
		if r := <-first; r.err != nil {
			t.Errorf("the call ended with %v", r.err)
		}
		if synctest.Wait(); ctx.Err() != nil {
			t.Errorf("the question ended with the call: %v", context.Cause(ctx))
		}
		close(answer)
		if m := w.hear(t); m.ID().String() != `"q"` || m.IsError() {
			t.Errorf("the question is answered by %s", m)
		}
		_ = c.Close()
	})
}
