package era_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestPingReachesTheServerOfEitherEra(t *testing.T) {
	for method, r := range map[string]protocol.Revision{protocol.MethodPing: protocol.LatestLegacy, protocol.MethodDiscover: protocol.Latest} {
		t.Run(r.String(), func(t *testing.T) {
			u := serving(r)
			s := start(t, &era.Server{Dialer: u})
			if _, err := s.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			before := u.saw(method)
			if err := s.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := u.saw(method) - before; got != 1 {
				t.Errorf("the server was asked %d times by %s", got, method)
			}
		})
	}
}

func TestPingFailsWithoutAServer(t *testing.T) {
	for _, found := range []protocol.Era{protocol.Legacy, protocol.Modern} {
		gone := dragoman.DialFunc(func(context.Context, dragoman.Peer) (dragoman.Conn, error) { return nil, context.DeadlineExceeded })
		s := start(t, &era.Server{Dialer: gone, Era: &found})
		if err := s.Ping(t.Context()); err == nil {
			t.Errorf("%s era: nobody answered, and there is no error", found)
		}
	}
}

// A server that dies before it says anything is no legacy server yet.
func TestServerThatComesUpLateMayStillBeModern(t *testing.T) {
	u := serving(protocol.Latest)
	var dials atomic.Int32
	s := start(t, &era.Server{Dialer: dragoman.DialFunc(func(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
		conn, err := u.Dial(ctx, local)
		if err == nil && dials.Add(1) <= 2 {
			u.fail()
		}
		return conn, err
	})})
	if _, err := s.Start(t.Context()); err == nil {
		t.Fatal("the server died, and there is no error")
	}
	if found, err := s.Start(t.Context()); err != nil || found != protocol.Modern {
		t.Fatalf("got the %s era, error %v", found, err)
	}
	join(t, s, protocol.LatestLegacy).echo()
}
