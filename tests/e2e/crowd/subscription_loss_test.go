//go:build unix

package crowd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// subscribes makes the client hear of changes of tools and of one resource. For
// a modern client, the listen that ends comes out of the channel.
func (s *fixture) subscribes() <-chan outcome {
	s.t.Helper()
	if !s.Modern() {
		if _, err := s.Request(s.ctx, protocol.MethodSubscribe, object{"uri": watched}); err != nil {
			s.t.Fatal(err)
		}
		return nil
	}
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan outcome, 1)
	over := make(chan struct{})
	go func() { // ends with ctx, or with the listen
		defer close(over)
		resp, err := s.Once(ctx, protocol.MethodListen, object{"notifications": object{
			"toolsListChanged": true, "resourceSubscriptions": []string{watched},
		}})
		done <- outcome{resp, err}
	}()
	s.t.Cleanup(func() {
		cancel()
		<-over
	})
	s.must(protocol.NoteAcknowledged)
	return done
}

// must waits until a notification of a method has come.
func (s *fixture) must(method string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, soon)
	defer cancel()
	if err := s.Add(ctx, method); err != nil {
		s.t.Fatal(err)
	}
}

// changes has the resource changed, and wants to hear of it.
func (s *fixture) changes() {
	s.t.Helper()
	s.begin("")
	if _, err := s.Tool(s.ctx, "update_resource", object{"uri": watched}); err != nil {
		s.t.Fatal(err)
	}
	s.must(protocol.NoteResourceUpdated)
	for _, n := range s.Notes(protocol.NoteResourceUpdated) {
		if n.URI() != watched {
			s.t.Errorf("an update of another resource: %s", n.Params())
		}
		if tagged := n.Meta(protocol.MetaSubscriptionID) != nil; tagged != s.Modern() {
			s.t.Errorf("an update that is tagged wrongly: %s", n.Bytes())
		}
	}
}

// wantReminded wants the client to be told that it may have missed something, and to
// hear of changes from then on. A listen may end instead, in good order; then the
// client begins another.
func (s *fixture) wantReminded(listen <-chan outcome) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, soon)
	defer cancel()
	for {
		news := s.News()
		if len(s.Notes(protocol.NoteToolsChanged)) > 0 && len(s.Notes(protocol.NoteResourceUpdated)) > 0 {
			s.changes()
			return
		}
		select {
		case <-news:
		case got := <-listen:
			if got.err != nil || gatewaytest.Text(got.resp.Get("resultType")) != protocol.ResultComplete {
				s.t.Fatalf("the listen ended with %v, error %v", got.resp, got.err)
			}
			s.t.Log("the listen has ended with its result")
			s.begin("")
			s.subscribes()
			s.changes()
			return
		case <-ctx.Done():
			s.t.Fatal("the client is not told that it may have missed something")
		}
	}
}

// TestChildKilledUnderASubscription shows that a client hears of changes after
// the server has died, and is told that it may have missed some.
func TestChildKilledUnderASubscription(t *testing.T) {
	eras(t, func(t *testing.T, s *fixture) {
		s.children()
		listen := s.subscribes()
		s.changes()
		s.begin("")
		killed := s.journal.kill(t)
		s.wantReminded(listen)
		s.replaced(killed)
	})
}

// TestListenEndsInGoodOrderIfTheServerStaysAway has a server die that cannot be
// started again.
func TestListenEndsInGoodOrderIfTheServerStaysAway(t *testing.T) {
	eras(t, func(t *testing.T, s *fixture) {
		var broken atomic.Bool
		command := child(t, s.server, s.journal)
		s.set(&era.Server{Dialer: dragoman.DialFunc(func(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
			if broken.Load() {
				return nil, errors.New("there is no server any more")
			}
			return command.Dial(ctx, local)
		})})
		listen := s.subscribes()
		broken.Store(true)
		killed := s.journal.kill(t)
		if s.Modern() {
			select {
			case got := <-listen:
				if got.err != nil || gatewaytest.Text(got.resp.Get("resultType")) != protocol.ResultComplete || got.resp.Meta(protocol.MetaSubscriptionID) == nil {
					t.Errorf("the listen ended with %v, error %v", got.resp, got.err)
				}
			case <-time.After(soon):
				t.Errorf("the listen has not ended after %v", soon)
			}
		}
		if err := gatewaytest.Until(patience, func() error {
			_, err := s.Request(s.ctx, protocol.MethodListTools, object{})
			if code, _ := gatewaytest.Outcome(err); code != protocol.CodeUnavailable {
				return fmt.Errorf("got %w, want error %d", err, protocol.CodeUnavailable)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		broken.Store(false)
		s.replaced(killed)
		if s.Modern() {
			s.subscribes()
		}
		s.changes() // a legacy client hears of it without another word
	})
}

// TestServerThatComesBack has a server on HTTP vanish and come back at the same
// address.
func TestServerThatComesBack(t *testing.T) {
	eras(t, func(t *testing.T, s *fixture) {
		h := s.web()
		s.works()
		done := s.begins("wait", object{})
		h.vanish()
		s.ends(done, protocol.CodeLost, protocol.OutcomeUnknown)
		_, err := s.Tool(s.ctx, "echo", object{"text": "x"})
		s.failed(err, protocol.CodeUnavailable, protocol.OutcomeNotSent)
		listen(t, s.server, s.journal, h.address)
		s.works()
		s.journal.ran(t, "wait", 1)
		s.journal.ran(t, "echo", 2)
	})
}

// TestServerThatComesBackIsListenedToAgain is the same for subscriptions.
func TestServerThatComesBackIsListenedToAgain(t *testing.T) {
	eras(t, func(t *testing.T, s *fixture) {
		h := s.web()
		listening := s.subscribes()
		s.changes()
		s.begin("")
		h.vanish()
		listen(t, s.server, s.journal, h.address)
		s.wantReminded(listening)
	})
}
