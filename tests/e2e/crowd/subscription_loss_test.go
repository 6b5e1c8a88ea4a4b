//go:build unix

package crowd

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// watched is a resource that changes.
const watched = "test://watched-resource"

// eras runs a test for each pair of eras, over each of the two great ways.
func eras(t *testing.T, test func(t *testing.T, s *fixture)) {
	t.Helper()
	for _, client := range []protocol.Revision{protocol.LatestLegacy, protocol.Latest} {
		for _, server := range []protocol.Revision{protocol.LatestLegacy, protocol.Latest} {
			for _, way := range []string{overHTTP, overWS} {
				t.Run(fmt.Sprintf("%s client over %s, %s server", client.Era(), way, server.Era()), func(t *testing.T) {
					peertest.NoLeak(t)
					test(t, &fixture{t: t, client: client, server: server, way: way, journal: newJournal(t)})
				})
			}
		}
	}
}

// A fixture is where an accident happens: one client, a bridge, a server.
type fixture struct {
	t              *testing.T
	client, server protocol.Revision
	way            string
	journal        journal
	*testClient
	ctx context.Context
}

// set sets the fixture.
func (s *fixture) set(settings *era.Server) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), inTime)
	s.t.Cleanup(cancel)
	s.ctx = ctx
	s.testClient = newBridge(s.t, settings).mustEnter(ctx, s.t, "guest", s.way, s.client)
}

// children sets the fixture with a server on stdio.
func (s *fixture) children() {
	s.t.Helper()
	s.set(&era.Server{Dialer: child(s.t, s.server, s.journal)})
}

// An outcome is what a call has come to.
type outcome struct {
	resp *dragoman.Message
	err  error
}

// failed fails the test unless err is an error of Dragoman.
func (s *fixture) failed(err error, code int, result string) {
	s.t.Helper()
	got, what := gatewaytest.Outcome(err)
	if got != code {
		s.t.Fatalf("got %v, want error %d", err, code)
	}
	if what != result {
		s.t.Errorf("%v has the outcome %q, want %q", err, what, result)
	}
}

// works fails the test unless requests are answered, in time. Those that are sent
// before a failure can be noticed may be lost, and the client gets an error.
func (s *fixture) works() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	for {
		err := s.wants(ctx, "echo", "still there", "still there")
		if err == nil {
			return
		}
		if s.failed(err, protocol.CodeLost, protocol.OutcomeUnknown); ctx.Err() != nil {
			s.t.Fatalf("requests fail: %v", err)
		}
	}
}

// replaced fails the test unless a child answers that was not killed.
func (s *fixture) replaced(killed []int) {
	s.t.Helper()
	before := len(s.journal.of("run echo"))
	s.works()
	ran := s.journal.of("run echo")
	if len(ran) != before+1 || slices.Contains(killed, ran[len(ran)-1]) {
		s.t.Errorf("echo was run by %d, which is not once more than %d times, and %d were killed", ran, before, killed)
	}
}

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
	ctx, cancel := context.WithTimeout(s.ctx, patience)
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
	ctx, cancel := context.WithTimeout(s.ctx, patience)
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

// web sets the fixture with a server on HTTP.
func (s *fixture) web() *httpHost {
	s.t.Helper()
	h := listen(s.t, s.server, s.journal, "")
	s.set(&era.Server{Dialer: &streamable.Client{URL: h.url(), Timeout: -1, Retry: &streamable.Retry{Min: 10 * time.Millisecond}}})
	return h
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

// TestServerThatComesBackIsListenedToAgain has a server on HTTP vanish and come back at the same
// address.
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
