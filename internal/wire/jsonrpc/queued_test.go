package jsonrpc_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
)

func TestCallerDoesNotWaitForASlowWriteWhenAllIsQueued(t *testing.T) {
	w := newWire()
	w.hold = make(chan struct{})
	c := jsonrpc.New(w, &jsonrpc.Options{Queued: true})
	c.Start(nil)
	t.Cleanup(func() { _ = c.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	got := await(t, call(ctx, c, peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"a"}`), nil))
	if !errors.Is(got.err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the end of the context", got.err)
	}
	close(w.hold)
	if m := w.hear(t); m.Method() != "a" {
		t.Errorf("written %s", m)
	}
}

// failing is a wire that knows what becomes of a call.
type failing struct {
	*wire
	bad chan error
}

func (f *failing) Read() ([]byte, error) {
	select {
	case err := <-f.bad:
		return nil, err
	case <-f.closed:
		return nil, dragoman.ErrClosed
	}
}

func TestStreamMayFailOneCall(t *testing.T) {
	f := &failing{newWire(), make(chan error)}
	c := jsonrpc.New(f, nil)
	c.Start(nil)
	t.Cleanup(func() { _ = c.Close() })
	one := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":"a","method":"a"}`), nil)
	first := f.hear(t).ID()
	two := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":"b","method":"b"}`), nil)
	f.hear(t)
	refused := errors.New("refused")
	f.bad <- &jsonrpc.BadFrame{Err: refused, Call: first}
	f.bad <- &jsonrpc.BadFrame{Err: refused, Call: dragoman.IntID(99)} // nobody's
	if got := await(t, one); !errors.Is(got.err, refused) || errors.Is(got.err, dragoman.ErrClosed) {
		t.Errorf("the call failed with %v", got.err)
	}
	select {
	case got := <-two:
		t.Errorf("the other call returned %v, %v", got.resp, got.err)
	default:
	}
}
