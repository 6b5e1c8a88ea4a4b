package jsonrpc_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
)

// TestFromIsNotUsedAfterACallThatWasNotSent has a server that asks while the request
// is being written, which then fails.
func TestFromIsNotUsedAfterACallThatWasNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		w.hold = make(chan struct{})
		c := jsonrpc.New(w, nil)
		c.Start(nil)
		defer c.Close()
		var returned atomic.Bool
		asked := make(chan struct{})
		from := dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			close(asked)
			<-ctx.Done()
			synctest.Wait() // whoever does not wait for us has gone on
			if returned.Load() {
				t.Error("from is in use after Call has returned")
			}
			return nil, ctx.Err()
		}}
		done := make(chan error, 1)
		go func() {
			_, err := c.Call(t.Context(), peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"a"}`), from)
			returned.Store(true)
			done <- err
		}()
		synctest.Wait()
		w.say(`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`)
		<-asked
		_ = w.Close()
		if err := <-done; err == nil {
			t.Error("a call that was not sent has an answer")
		}
	})
}

// TestCallThatWaitsForRoomIsNotTheOnlyCall has a server that asks while one call is
// sent and another one is not.
func TestCallThatWaitsForRoomIsNotTheOnlyCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tagged := func(name string, asked chan<- string) dragoman.Peer {
			return dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
				asked <- name
				return req.Reply(nil)
			}}
		}
		asked := make(chan string, 1)
		w := newWire()
		w.hold = make(chan struct{})
		c := jsonrpc.New(w, &jsonrpc.Options{MaxQueue: 2000, Queued: true})
		c.Start(tagged("local", asked))
		defer c.Close()
		if err := c.Notify(t.Context(), peertest.Parse(t, `{"jsonrpc":"2.0","method":"n","params":{"p":"`+strings.Repeat("x", 900)+`"}}`)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		large := peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"a","params":{"p":"`+strings.Repeat("x", 1500)+`"}}`)
		unsent := call(ctx, c, large, tagged("unsent", asked))
		synctest.Wait()
		w.say(`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`)
		if got := <-asked; got != "local" {
			t.Errorf("with no call sent the question goes to %q, want the local peer", got)
		}
		sent := call(ctx, c, peertest.Parse(t, `{"jsonrpc":"2.0","id":2,"method":"a"}`), tagged("sent", asked))
		synctest.Wait()
		w.say(`{"jsonrpc":"2.0","id":"r","method":"roots/list"}`)
		if got := <-asked; got != "sent" {
			t.Errorf("with one call sent the question goes to %q, want its caller", got)
		}
		cancel()
		<-unsent
		<-sent
	})
}
