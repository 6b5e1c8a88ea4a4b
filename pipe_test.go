package dragoman_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

func ping(t testing.TB) *dragoman.Message {
	return peertest.Parse(t, `{"jsonrpc":"2.0","id":"\u0070-1","method":"ping"}`)
}

// echo answers every request with its method.
var echo = dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	return req.Reply(map[string]string{"method": req.Method()})
}}

// stuck answers when its context ends, and says so.
var stuck = dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	<-ctx.Done()
	return req.Reply(nil)
}}

func TestPipeConnectsBothWays(t *testing.T) {
	var told []string
	note := func(name string) dragoman.Funcs {
		f := echo
		f.OnNotify = func(_ context.Context, note *dragoman.Message) error {
			told = append(told, name+" hears "+note.Method())
			return nil
		}
		return f
	}
	toRight, toLeft := dragoman.Pipe(note("left"), note("right"))
	for _, c := range []dragoman.Conn{toRight, toLeft} {
		resp, err := c.Call(t.Context(), ping(t), nil)
		if err != nil || resp.ID() != ping(t).ID() || string(resp.Get("method")) != `"ping"` {
			t.Errorf("Call gave %v, %v", resp, err)
		}
		if err := c.Notify(t.Context(), peertest.Parse(t, `{"jsonrpc":"2.0","method":"n"}`)); err != nil {
			t.Error(err)
		}
	}
	if len(told) != 2 || told[0] != "right hears n" || told[1] != "left hears n" {
		t.Errorf("told %q", told)
	}
	if toRight.Err() != nil || toLeft.Err() != nil {
		t.Error("an open pipe has an error")
	}
}

func TestPipeToNobody(t *testing.T) {
	toRight, toLeft := dragoman.Pipe(nil, nil)
	for _, c := range []dragoman.Peer{toRight, toLeft, dragoman.NoPeer, dragoman.Funcs{}} {
		resp, err := c.Call(t.Context(), ping(t), nil)
		if err != nil || resp.ID() != ping(t).ID() || resp.RPCError() == nil || resp.RPCError().Code != -32601 {
			t.Errorf("Call gave %v, %v; want \"method not found\"", resp, err)
		}
		if err := c.Notify(t.Context(), peertest.Parse(t, `{"jsonrpc":"2.0","method":"n"}`)); err != nil {
			t.Error(err)
		}
	}
}

func TestPipePassesTheCallerOn(t *testing.T) {
	var received []string
	from := dragoman.Funcs{OnNotify: func(_ context.Context, note *dragoman.Message) error {
		received = append(received, note.Method())
		return nil
	}}
	right := dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		if from != nil {
			if err := from.Notify(ctx, peertest.Parse(t, `{"jsonrpc":"2.0","method":"notifications/progress"}`)); err != nil {
				return nil, err
			}
		}
		return req.Reply(nil)
	}}
	toRight, _ := dragoman.Pipe(nil, right)
	for _, f := range []dragoman.Peer{nil, from} {
		if _, err := toRight.Call(t.Context(), ping(t), f); err != nil {
			t.Fatal(err)
		}
	}
	if len(received) != 1 || received[0] != "notifications/progress" {
		t.Errorf("received %q", received)
	}
}

func TestClosingOneEndClosesBoth(t *testing.T) {
	for end := range 2 {
		toRight, toLeft := dragoman.Pipe(echo, echo)
		ends := []dragoman.Conn{toRight, toLeft}
		for range 2 { // a second time changes nothing
			if err := ends[end].Close(); err != nil {
				t.Error(err)
			}
		}
		for _, c := range ends {
			<-c.Done()
			if !errors.Is(c.Err(), dragoman.ErrClosed) {
				t.Errorf("Err is %v", c.Err())
			}
			if resp, err := c.Call(t.Context(), ping(t), nil); resp != nil || !errors.Is(err, dragoman.ErrClosed) {
				t.Errorf("Call gave %v, %v", resp, err)
			}
			if err := c.Notify(t.Context(), peertest.Parse(t, `{"jsonrpc":"2.0","method":"n"}`)); !errors.Is(err, dragoman.ErrClosed) {
				t.Errorf("Notify gave %v", err)
			}
		}
	}
}

func TestCloseEndsCallsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		toRight, toLeft := dragoman.Pipe(nil, stuck)
		result := make(chan error)
		go func() { // ends when its call does
			resp, err := toRight.Call(t.Context(), ping(t), nil)
			if resp != nil {
				t.Errorf("Call gave %v", resp)
			}
			result <- err
		}()
		synctest.Wait()
		if err := toLeft.Close(); err != nil {
			t.Error(err)
		}
		if err := <-result; !errors.Is(err, dragoman.ErrClosed) {
			t.Errorf("Call gave %v, want ErrClosed", err)
		}
	})
}

func TestCallThatClosesItsOwnPipe(t *testing.T) {
	var toLeft dragoman.Conn
	toRight, toLeft := dragoman.Pipe(nil, dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		toLeft.Close()
		return req.Reply(nil)
	}})
	if resp, err := toRight.Call(t.Context(), ping(t), nil); resp != nil || !errors.Is(err, dragoman.ErrClosed) {
		t.Errorf("Call gave %v, %v; want ErrClosed", resp, err)
	}
}

func TestEndOfContextEndsACall(t *testing.T) {
	toRight, _ := dragoman.Pipe(nil, stuck)
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if resp, err := toRight.Call(ctx, ping(t), nil); resp != nil || !errors.Is(err, why) {
		t.Errorf("Call gave %v, %v; want the context's cause", resp, err)
	}
	if toRight.Err() != nil {
		t.Errorf("the pipe is closed: %v", toRight.Err())
	}
}

func TestErrorsOfACallPassThePipe(t *testing.T) {
	toRight, _ := dragoman.Pipe(nil, dragoman.Funcs{OnCall: func(context.Context, *dragoman.Message, dragoman.Peer) (*dragoman.Message, error) {
		return nil, dragoman.ErrOverloaded
	}})
	if _, err := toRight.Call(t.Context(), ping(t), nil); !errors.Is(err, dragoman.ErrOverloaded) {
		t.Errorf("Call gave %v, want ErrOverloaded", err)
	}
}

func TestLocalDialsAnAcceptor(t *testing.T) {
	var client dragoman.Conn
	var received string
	d := dragoman.Local(dragoman.AcceptFunc(func(_ context.Context, c dragoman.Conn) (dragoman.Peer, error) {
		client = c
		return echo, nil
	}))
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := d.Dial(ctx, dragoman.Funcs{OnNotify: func(_ context.Context, note *dragoman.Message) error {
		received = note.Method()
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	cancel() // bounds Dial alone
	if resp, err := conn.Call(t.Context(), ping(t), nil); err != nil || resp.ID() != ping(t).ID() {
		t.Errorf("Call gave %v, %v", resp, err)
	}
	if err := client.Notify(t.Context(), peertest.Parse(t, `{"jsonrpc":"2.0","method":"n"}`)); err != nil || received != "n" {
		t.Errorf("received %q, %v", received, err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	<-conn.Done()
	if !errors.Is(conn.Err(), dragoman.ErrClosed) {
		t.Errorf("Err is %v", conn.Err())
	}
}

func TestLocalWithNilPeers(t *testing.T) {
	var client dragoman.Conn
	conn, err := dragoman.Local(dragoman.AcceptFunc(func(_ context.Context, c dragoman.Conn) (dragoman.Peer, error) {
		client = c
		return nil, nil
	})).Dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []dragoman.Conn{conn, client} {
		if resp, err := c.Call(t.Context(), ping(t), nil); err != nil || !resp.IsError() {
			t.Errorf("Call gave %v, %v", resp, err)
		}
	}
}

func TestLocalRefused(t *testing.T) {
	no := errors.New("no")
	var client dragoman.Conn
	conn, err := dragoman.Local(dragoman.AcceptFunc(func(_ context.Context, c dragoman.Conn) (dragoman.Peer, error) {
		client = c
		return nil, no
	})).Dial(t.Context(), nil)
	if conn != nil || !errors.Is(err, no) {
		t.Errorf("Dial gave %v, %v", conn, err)
	}
	<-client.Done()
	if !errors.Is(client.Err(), dragoman.ErrClosed) {
		t.Errorf("the refused client has the error %v", client.Err())
	}
}
