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
)

// soon is how long a client may be kept waiting after an accident.
const soon = 5 * time.Second

// watched is a resource that changes.
const watched = "test://watched-resource"

// eras runs a test for each pair of eras, over each of the two great ways.
func eras(t *testing.T, test func(t *testing.T, s *fixture)) {
	t.Helper()
	erasOver(t, []string{overHTTP, overWS}, test)
}

func erasOver(t *testing.T, ways []string, test func(t *testing.T, s *fixture)) {
	t.Helper()
	for _, client := range []protocol.Revision{protocol.LatestLegacy, protocol.Latest} {
		for _, server := range []protocol.Revision{protocol.LatestLegacy, protocol.Latest} {
			for _, way := range ways {
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
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
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

// begins calls a tool and returns when it runs.
func (s *fixture) begins(tool string, arguments object) <-chan outcome {
	s.t.Helper()
	done := make(chan outcome, 1)
	before := len(s.journal.of("run " + tool))
	go func() { // ends with the call
		resp, err := s.Request(s.ctx, protocol.MethodCallTool, object{"name": tool, "arguments": arguments})
		done <- outcome{resp, err}
	}()
	if err := gatewaytest.Until(patience, func() error {
		if len(s.journal.of("run "+tool)) == before {
			return fmt.Errorf("%s was not run", tool)
		}
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
	return done
}

// ends waits for a call, which must fail with a code of ours.
func (s *fixture) ends(done <-chan outcome, code int, result string) {
	s.t.Helper()
	select {
	case got := <-done:
		s.failed(got.err, code, result)
	case <-time.After(soon):
		s.t.Fatalf("the call has no answer after %v", soon)
	}
}

// failed fails the test unless err is an error of ours.
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
// before anybody can know of an accident may be lost, which the client is told.
func (s *fixture) works() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, soon)
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

// TestChildKilledInACall shows that a call whose server dies is answered, and
// is not run again.
func TestChildKilledInACall(t *testing.T) {
	eras(t, func(t *testing.T, s *fixture) {
		s.children()
		done := s.begins("wait", object{})
		killed := s.journal.kill(t)
		s.ends(done, protocol.CodeLost, protocol.OutcomeUnknown)
		s.replaced(killed)
		s.journal.ran(t, "wait", 1)
	})
}

// TestChildKilledBetweenCalls shows that a client which rests does not notice,
// and that what only reads is sent again, to the next child.
func TestChildKilledBetweenCalls(t *testing.T) {
	eras(t, func(t *testing.T, s *fixture) {
		s.children()
		s.works()
		for range 3 {
			killed := s.journal.kill(t)
			if _, err := s.Request(s.ctx, protocol.MethodListTools, object{}); err != nil {
				t.Errorf("the list of tools: %v", err)
			}
			s.replaced(killed)
		}
		s.journal.ran(t, "echo", 4)
	})
}

// TestChildKilledWhileItsQuestionIsOpen kills the server while the client thinks
// about an answer.
func TestChildKilledWhileItsQuestionIsOpen(t *testing.T) {
	const tool = "test_input_required_result_tampered_state" // takes answers of its own questions only
	eras(t, func(t *testing.T, s *fixture) {
		s.children()
		if s.Modern() {
			params := object{"name": tool, "arguments": object{}}
			resp, err := s.Once(s.ctx, protocol.MethodCallTool, params)
			if err != nil || !gatewaytest.NeedsInput(resp) {
				t.Fatalf("got %v, error %v, want a question", resp, err)
			}
			killed := s.journal.kill(t)
			next, err := s.NextRound(s.ctx, params, resp)
			if err != nil {
				t.Fatal(err)
			}
			// The first retry may come before anybody can know of the accident.
			for _, codes := range [][]int{{protocol.CodeInvalidParams, protocol.CodeLost}, {protocol.CodeInvalidParams}} {
				_, err = s.Once(s.ctx, protocol.MethodCallTool, next)
				if code, _ := gatewaytest.Outcome(err); !slices.Contains(codes, code) {
					t.Errorf("the retry got %v, want error %d", err, codes)
				}
			}
			s.replaced(killed)
			s.journal.ran(t, tool, 1)
			return
		}
		s.hold = make(chan struct{})
		done := s.begins(tool, object{})
		select {
		case <-s.asked:
		case <-time.After(soon):
			t.Fatal("the client is not asked")
		}
		killed := s.journal.kill(t)
		if s.server.Era() == protocol.Legacy {
			s.ends(done, protocol.CodeLost, protocol.OutcomeUnknown) // without an answer of the client
			close(s.hold)
		} else {
			close(s.hold)
			got := <-done // the next child does not take the state of the one before
			if code, _ := gatewaytest.Outcome(got.err); code != protocol.CodeInvalidParams && code != protocol.CodeLost {
				t.Errorf("got %v, error %v, want error %d or %d", got.resp, got.err, protocol.CodeInvalidParams, protocol.CodeLost)
			}
		}
		s.replaced(killed)
		s.journal.ran(t, tool, 1)
	})
}
