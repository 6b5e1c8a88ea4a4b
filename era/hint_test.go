package era_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestServerThatWasLegacyIsNotAskedWhatItDoesNotKnow(t *testing.T) {
	u := ending(protocol.LatestLegacy, protocol.MethodDiscover)
	s := start(t, &era.Server{Dialer: u, Hint: new(protocol.Legacy)})
	if got, err := s.Start(t.Context()); err != nil || got != protocol.Legacy {
		t.Errorf("got %v, error %v", got, err)
	}
	if u.dials() != 1 || u.saw(protocol.MethodDiscover) != 0 {
		t.Errorf("%d dials; the server saw %q", u.dials(), u.asked)
	}
	join(t, s, protocol.LatestLegacy).echo()
	if u.dials() != 1 {
		t.Errorf("%d dials: the conversation that was asked is not used", u.dials())
	}
	join(t, s, protocol.Latest).echo()
}

func TestWrongHintCostsAQuestionAndNoMore(t *testing.T) {
	for _, test := range []struct {
		name   string
		hint   protocol.Era
		server *upstream
		want   protocol.Era
	}{
		{"modern, was legacy", protocol.Legacy, serving(protocol.Latest), protocol.Modern},
		{"legacy, was modern", protocol.Modern, serving(protocol.LatestLegacy), protocol.Legacy},
		{"legacy and ends when it is pinged", protocol.Legacy, ending(protocol.LatestLegacy, protocol.MethodPing), protocol.Legacy},
		{"legacy and ends at the probe, was modern", protocol.Modern, ending(protocol.LatestLegacy, protocol.MethodDiscover), protocol.Legacy},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := start(t, &era.Server{Dialer: test.server, Hint: &test.hint})
			if got, err := s.Start(t.Context()); err != nil || got != test.want {
				t.Errorf("got %v, error %v", got, err)
			}
			join(t, s, protocol.Latest).echo()
		})
	}
}

// slowly is a server that answers nothing before some time has passed.
func slowly(u *upstream, after time.Duration) *upstream {
	built := u.acceptor
	return &upstream{acceptor: dragoman.AcceptFunc(func(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
		began := time.Now()
		peer, err := built.Accept(ctx, client)
		return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			time.Sleep(after - time.Since(began))
			return peer.Call(ctx, req, from)
		}, OnNotify: peer.Notify}, err
	})}
}

func TestServerThatWasModernIsLeftItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := slowly(serving(protocol.Latest), 20*time.Second)
		s := &era.Server{Dialer: u, Hint: new(protocol.Modern), ProbeTimeout: 2 * time.Second}
		defer s.Close()
		if got, err := s.Start(t.Context()); err != nil || got != protocol.Modern || u.dials() != 1 {
			t.Errorf("got %v, error %v, %d dials", got, err, u.dials())
		}
	})
}
