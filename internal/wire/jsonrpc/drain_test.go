package jsonrpc_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
)

// TestDrainWaitsUntilTheAnswersAreWritten has another side that is slow to read: the
// queue is full of answers when all requests have been served.
func TestDrainWaitsUntilTheAnswersAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		w.hold = make(chan struct{})
		c := jsonrpc.New(w, nil)
		defer c.Close()
		c.Start(dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			return req.Reply(struct{}{})
		}})
		for _, id := range []string{"1", "2", "3"} {
			w.got <- []byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"x"}`)
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := c.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while nothing is read, Drain returns %v", err)
		}
		drained := make(chan error, 1)
		go func() { drained <- c.Drain(t.Context()) }() // ends when all is written
		close(w.hold)
		if err := <-drained; err != nil {
			t.Errorf("Drain returns %v", err)
		}
		if n := len(w.sent); n != 3 {
			t.Errorf("%d answers are written when Drain returns", n)
		}
		for range 3 {
			w.hear(t)
		}
		w.got <- []byte(`{"jsonrpc":"2.0","id":4,"method":"x"}`)
		if got := w.hear(t); !strings.Contains(got.String(), "-31005") {
			t.Errorf("a request after Drain is answered by %s", got)
		}
	})
}

func TestDrainReturnsWithTheConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, over := newWire(), make(chan struct{})
		c := jsonrpc.New(w, nil)
		c.Start(dragoman.Funcs{OnCall: func(ctx context.Context, _ *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			defer close(over)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}})
		w.got <- []byte(`{"jsonrpc":"2.0","id":1,"method":"x"}`)
		synctest.Wait() // it is being served: Drain would refuse it
		drained := make(chan error, 1)
		go func() { drained <- c.Drain(t.Context()) }() // ends with the conversation
		synctest.Wait()
		close(w.got) // the other side leaves
		if err := <-drained; err != nil {
			t.Errorf("Drain returns %v", err)
		}
		<-over
		_ = c.Close()
	})
}

// TestDrainMayBeCalledWhenTheConversationIsOver has a write that another Drain waits
// for, and that ends after both.
func TestDrainMayBeCalledWhenTheConversationIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		w.hold = make(chan struct{})
		c := jsonrpc.New(w, nil)
		c.Start(nil)
		ends := make(chan error, 4)
		for _, f := range []func() error{
			func() error { return c.Notify(t.Context(), peertest.Parse(t, `{"jsonrpc":"2.0","method":"x"}`)) },
			func() error { return c.Drain(t.Context()) },
			c.Close,
			func() error { return c.Drain(t.Context()) },
		} {
			go func() { ends <- f() }() // ends when w.hold does
			synctest.Wait()
		}
		close(w.hold)
		for range cap(ends) {
			if err := <-ends; err != nil {
				t.Error(err)
			}
		}
	})
}
