//go:build unix

package gateway

import (
	"context"
	"fmt"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// ways returns the ways that there are for clients of an era.
func ways(era protocol.Era) []string {
	if era == protocol.Modern {
		return []string{gatewaytest.HTTP, gatewaytest.WS}
	}
	return []string{gatewaytest.HTTP, gatewaytest.SSE, gatewaytest.WS}
}

// TestS51_Pain16_CancellationReachesTheTool cancels one of two calls, by every
// transport. The other one is not touched.
func TestS51_Pain16_CancellationReachesTheTool(t *testing.T) {
	t.Parallel() // it mostly waits
	fixtures(t, nil, func(s *fixture) {
		for _, way := range ways(s.era) {
			s.Run(way, func(t *testing.T) {
				c := enter(s.ctx, t, s.Gateway, s.server, way, s.era)
				stays, goes := t.Name()+" stays", t.Name()+" goes"
				other, end := context.WithCancel(s.ctx)
				defer end()
				first := begin(other, c, "count", object{"key": stays, "ms": forever})
				s.runs(stays)
				ctx, cancel := context.WithCancel(s.ctx)
				second := begin(ctx, c, "count", object{"key": goes, "ms": forever})
				s.runs(goes)
				cancel()
				<-second
				s.written(fault.Cancelled, goes)
				echoes(s.ctx, t, c, "still there")
				if got := s.journal.Of(fault.Cancelled, stays); len(got) > 0 {
					t.Errorf("the other call was cancelled: %v", got)
				}
				end()
				<-first
				s.written(fault.Cancelled, stays)
				if got := s.journal.Of(fault.Cancelled, goes); len(got) != 1 {
					t.Errorf("the call was cancelled %d times", len(got))
				}
			})
		}
	})
}

// TestS51_CancellationOfALegacyClient is about what ends a call, and what does not.
func TestS51_CancellationOfALegacyClient(t *testing.T) {
	t.Parallel() // it mostly waits
	fixtures(t, nil, func(s *fixture) {
		if s.era == protocol.Modern {
			return // it cancels by closing the stream, as shown above
		}
		s.Run("a connection that breaks does not cancel", s.brokenConnection)
		s.Run("a cancel is passed on once", func(t *testing.T) {
			v, key := openSession(s.ctx, t, s.Gateway, s.server), t.Name()
			answer := v.call(s.ctx, 5, "count", object{"key": key, "ms": forever})
			defer answer.Body.Close()
			s.runs(key)
			for range 2 { // the second one comes after completion
				v.cancels(s.ctx, 5)
			}
			s.written(fault.Cancelled, key)
			v.cancels(s.ctx, 5)
			v.cancels(s.ctx, 4711)
			v.mustEcho(s.ctx, 6)
			if got := s.journal.Of(fault.Cancelled, key); len(got) != 1 {
				t.Errorf("the call was cancelled %d times", len(got))
			}
		})
		s.Run("another session's cancel does nothing", func(t *testing.T) {
			mine, theirs := openSession(s.ctx, t, s.Gateway, s.server), openSession(s.ctx, t, s.Gateway, s.server)
			key := t.Name()
			answer := mine.call(s.ctx, 5, "hold", object{"key": key, "text": key})
			defer answer.Body.Close()
			s.runs(key)
			theirs.cancels(s.ctx, 5)
			theirs.mustEcho(s.ctx, 6) // behind the cancel
			s.journal.Write(fault.Released, key)
			if got := mine.answer(answer, 5); got != key {
				t.Errorf("the call says %q", got)
			}
			if got := s.journal.Of(fault.Cancelled, key); len(got) != 0 {
				t.Errorf("the call was cancelled: %v", got)
			}
		})
	})
}

// brokenConnection drops the connection of a call in the legacy era: the call goes
// on, and its answer is there for who comes back.
func (s *fixture) brokenConnection(t *testing.T) {
	v, key := openSession(s.ctx, t, s.Gateway, s.server), t.Name()
	ctx, drop := context.WithCancel(s.ctx)
	defer drop()
	answer := v.call(ctx, 5, "hold", object{"key": key, "text": key})
	events := newEvents(answer.Body)
	last := ""
	for last == "" { // the progress that it tells when it begins
		e, err := events.next()
		if err != nil {
			t.Fatal(err)
		}
		last = e.id
	}
	drop()
	_ = answer.Body.Close()
	v.mustEcho(s.ctx, 6)
	s.journal.Write(fault.Released, key)
	s.written(fault.Ended, key)
	if got := s.journal.Of(fault.Cancelled, key); len(got) != 0 {
		t.Errorf("the call was cancelled: %v", got)
	}
	resumed := v.get(s.ctx, last)
	defer resumed.Body.Close()
	events = newEvents(resumed.Body)
	for {
		e, err := events.next()
		if err != nil {
			t.Fatalf("the answer does not come: %v", err)
		}
		if got, ok := textOf(e.data, 5); ok {
			if got != key {
				t.Errorf("the answer is %q", got)
			}
			return
		}
		if e.data != "" && e.id <= last {
			t.Errorf("event %s comes again after %s", e.id, last)
		}
	}
}

// TestPain26_ClientThatLeavesInMidResponseHarmsNobody has clients leave while they
// are answered.
func TestPain26_ClientThatLeavesInMidResponseHarmsNobody(t *testing.T) {
	t.Parallel() // it mostly waits
	fixtures(t, nil, func(s *fixture) {
		stays := s.enter(gatewaytest.HTTP)
		for _, way := range ways(s.era) {
			for _, closes := range []bool{true, false} {
				c, err := gatewaytest.Dial(s.ctx, s.Dialer(s.server, way), "leaves", s.era)
				if err != nil {
					s.Fatal(err)
				}
				ctx, cancel := context.WithCancel(s.ctx)
				done := begin(ctx, c, "notify", object{"n": gatewaytest.Few(100_000)})
				if err := c.Add(s.ctx, protocol.NoteProgress); err != nil {
					s.Fatal(err)
				}
				cancel()
				if closes {
					_ = c.Conn.Close()
				}
				<-done
				_ = c.Conn.Close()
				echoes(s.ctx, s.T, stays, fmt.Sprint(way, closes))
			}
		}
	})
}
