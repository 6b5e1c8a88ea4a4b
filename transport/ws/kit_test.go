package ws

import (
	"context"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
)

// patience is how long a test waits for what must come at once.
const patience = 30 * time.Second

// stop ends all conversations of a server, without waiting for what is under way.
func stop(t testing.TB, s *Server) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Shutdown(ctx) // what it returns is that ctx has ended, or nothing
}

// wait returns the next value of ch, or the zero one if it is closed.
func wait[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v := <-ch:
		return v
	case <-timer.C:
		t.Fatalf("waited in vain for this: %s", what)
		panic("unreachable")
	}
}

// accept is an Acceptor that has one peer answer everybody.
func accept(p dragoman.Peer) dragoman.Acceptor {
	return dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) { return p, nil })
}

func parse(t testing.TB, text string) *dragoman.Message {
	t.Helper()
	m, err := dragoman.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}
