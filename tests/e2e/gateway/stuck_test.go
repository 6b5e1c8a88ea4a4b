//go:build unix

package gateway

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// TestS40_StoppedServerHoldsUpNobody stops a server's process and lets it continue. What
// nobody waits for any more is cancelled then, and answers come too late for anybody.
func TestS40_StoppedServerHoldsUpNobody(t *testing.T) {
	t.Parallel()                    // it mostly waits
	const timeout = 4 * time.Second // and an echo must not take that long
	fixtures(t, object{"timeout": timeout.String()}, func(s *fixture) {
		c, other := s.enter(gatewaytest.HTTP), s.enter(gatewaytest.WS)
		echoes(s.ctx, s.T, c, "before")
		all := func(signal syscall.Signal) {
			for _, pid := range s.journal.PIDs() {
				_ = syscall.Kill(pid, signal) // some are gone
			}
		}
		defer all(syscall.SIGCONT)
		intime := func(e ending) {
			s.Helper()
			failed(s.T, e.err, protocol.CodeTimeout, protocol.OutcomeUnknown)
			if e.took < timeout || gatewaytest.Exceeds(e.took, timeout+time.Second) {
				s.Errorf("the call ends after %v", e.took)
			}
		}
		running := s.count(c, s.key("running"), forever)
		// A call may find a process that has just been started, or has not stopped yet.
		var late ending
		for late.err == nil && s.ctx.Err() == nil {
			all(syscall.SIGSTOP)
			late = <-begin(s.ctx, c, "echo", object{"text": "late"})
		}
		intime(late)
		intime(<-running)
		all(syscall.SIGCONT)
		s.written(fault.Cancelled, s.key("running"))
		for i := range 10 { // the late answer is nobody's
			echoes(s.ctx, s.T, c, fmt.Sprint(i))
			echoes(s.ctx, s.T, other, fmt.Sprint("other ", i))
		}
		if n := len(s.journal.Of(fault.Cancelled, s.key("running"))); n != 1 {
			s.Errorf("the call was cancelled %d times", n)
		}
	})
}

// TestS40_ServerThatDoesNotReadIsNotWaitedFor sends 64 MiB to a server that reads
// nothing. All calls end in time, and others are served meanwhile.
func TestS40_ServerThatDoesNotReadIsNotWaitedFor(t *testing.T) {
	const timeout = 2 * time.Second
	for _, mode := range []string{fault.Legacy, fault.Modern} {
		t.Run(mode, func(t *testing.T) {
			j := newJournal(t)
			g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": object{
				server:  with(child(t, mode, j), object{"timeout": timeout.String()}),
				"other": child(t, mode, j),
			}}})
			ctx := gatewaytest.Hurry(t, 2*gatewaytest.Patience)
			stuck := enter(ctx, t, g, server, gatewaytest.WS, protocol.Legacy)
			text := strings.Repeat("x", 1<<20)
			calls := max(gatewaytest.Few(64), 8) // more than may wait
			// How long it takes here with a server that reads.
			healthy := enter(ctx, t, g, "other", gatewaytest.WS, protocol.Legacy)
			began := time.Now()
			gatewaytest.Together(t, calls, func(int) error {
				_, err := healthy.Tool(ctx, "echo", object{"text": text})
				return err
			})
			fair := time.Since(began)
			before := gatewaytest.Resident(g.PID())
			s := &fixture{T: t, Gateway: g, journal: j, ctx: ctx}
			frozen := begin(ctx, stuck, "freeze", object{"key": "frozen"})
			s.runs("frozen")
			var all sync.WaitGroup
			endings := make([]ending, calls)
			quick := watchOthers(ctx, t, g, protocol.Legacy)
			for i := range calls {
				all.Go(func() { // ends with its call, which the gateway bounds
					endings[i] = <-begin(ctx, stuck, "echo", object{"text": text})
				})
			}
			all.Wait()
			quick()
			fails(t, frozen, time.Second, protocol.CodeTimeout, protocol.OutcomeUnknown)
			queued := 0
			for _, e := range endings {
				if gatewaytest.Exceeds(e.took, timeout+5*time.Second+fair) {
					t.Errorf("a call ends after %v; all of them take %v with a server that reads", e.took, fair)
				}
				switch code, outcome := gatewaytest.Outcome(e.err); {
				case code == protocol.CodeTimeout && outcome == protocol.OutcomeUnknown:
					queued++
				case code == protocol.CodeOverloaded && outcome == protocol.OutcomeNotSent:
				default:
					t.Errorf("a call comes to %v", e.err)
				}
			}
			// What waits to be written is bounded, and the rest was not sent.
			if queued > 5 {
				t.Errorf("%d MiB were waiting to be written, want 4 and what is being written at most", queued)
			}
			if grown := gatewaytest.Resident(g.PID()) - before; grown > 512<<20 {
				t.Errorf("the gateway has grown by %d MiB", grown>>20)
			}
			echoes(ctx, t, enter(ctx, t, g, "other", gatewaytest.HTTP, protocol.Modern), "in the end")
			g.Leave() // the stuck server does not answer the probe
			g.Signal(syscall.SIGTERM)
			if status := g.Wait(gatewaytest.Patience); status != 0 {
				t.Errorf("it ends with status %d", status)
			}
		})
	}
}
