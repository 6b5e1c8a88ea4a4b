package peertest

import (
	"context"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
)

// Patience is how long a test waits for what must happen, on a machine with much else to do.
const Patience = 30 * time.Second

// Parse returns the message that a text is.
func Parse[T string | []byte](t testing.TB, text T) *dragoman.Message {
	t.Helper()
	m, err := dragoman.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return m
}

// Receive returns the next value of a channel, or fails the test.
func Receive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case v := <-ch:
		return v
	case <-timer.C:
	}
	t.Fatalf("timed out waiting: %s", what)
	panic("unreachable")
}

// Accept returns an acceptor of which every client gets the same peer.
func Accept(p dragoman.Peer) dragoman.Acceptor {
	return dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) { return p, nil })
}
