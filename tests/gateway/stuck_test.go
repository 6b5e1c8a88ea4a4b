//go:build unix

package gateway

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/fault"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/tests/kit"
)

// TestS40_StoppedServerHoldsUpNobody stops a server's process and lets it go on.
func TestS40_StoppedServerHoldsUpNobody(t *testing.T) {
	scenes(t, object{"timeout": "1s"}, func(s *scene) {
		c := s.enter(kit.HTTP)
		echoes(s.ctx, s.T, c, "before")
		all := func(signal syscall.Signal) {
			for _, pid := range s.journal.PIDs() {
				_ = syscall.Kill(pid, signal) // some are gone
			}
		}
		defer all(syscall.SIGCONT)
		// A call may find a process that has just been started, or has not stopped yet.
		var late ending
		for late.err == nil && s.ctx.Err() == nil {
			all(syscall.SIGSTOP)
			late = <-begin(s.ctx, c, "echo", object{"text": "late"})
		}
		failed(s.T, late.err, protocol.CodeTimeout, protocol.OutcomeUnknown)
		if late.took > kit.Slow(5*time.Second) {
			s.Errorf("the call ends after %v", late.took)
		}
		all(syscall.SIGCONT)
		for i := range 10 { // the late answer is nobody's
			echoes(s.ctx, s.T, c, fmt.Sprint(i))
		}
	})
}

// TestS40_ServerThatDoesNotReadIsNotWaitedFor sends much to a server that reads
// nothing. All calls end, and others are served meanwhile.
func TestS40_ServerThatDoesNotReadIsNotWaitedFor(t *testing.T) {
	for _, mode := range []string{fault.Legacy, fault.Modern} {
		t.Run(mode, func(t *testing.T) {
			j := newJournal(t)
			g := kit.Serve(t, &kit.Options{Config: object{"servers": object{
				server:  with(child(t, mode, j), object{"timeout": "2s"}),
				"other": child(t, mode, j),
			}}})
			ctx := kit.Hurry(t, 2*kit.Patience)
			stuck, other := enter(ctx, t, g, server, kit.WS, protocol.Legacy), enter(ctx, t, g, "other", kit.HTTP, protocol.Legacy)
			before := kit.Resident(g.PID())
			s := &scene{T: t, Gateway: g, journal: j, ctx: ctx}
			frozen := begin(ctx, stuck, "freeze", object{"key": "frozen"})
			s.runs("frozen")
			text := strings.Repeat("x", 1<<20)
			calls := max(kit.Few(64), 16)
			var all sync.WaitGroup
			outcomes := make([]error, calls)
			for i := range calls {
				all.Go(func() { // ends with its call, which the gateway bounds
					_, outcomes[i] = stuck.Tool(ctx, "echo", object{"text": text})
				})
			}
			for i := range 20 {
				echoes(ctx, t, other, fmt.Sprint(i))
			}
			all.Wait()
			<-frozen
			for _, err := range outcomes {
				switch code, outcome := kit.Outcome(err); {
				case code == protocol.CodeTimeout && outcome == protocol.OutcomeUnknown:
				case code == protocol.CodeOverloaded && outcome == protocol.OutcomeNotSent:
				default:
					t.Errorf("a call comes to %v", err)
				}
			}
			if grown := kit.Resident(g.PID()) - before; grown > 1<<30 {
				t.Errorf("the gateway has grown by %d MiB", grown>>20)
			}
			echoes(ctx, t, other, "in the end")
			g.Leave() // the stuck server does not answer the witness
			g.Signal(syscall.SIGTERM)
			if status := g.Wait(kit.Patience); status != 0 {
				t.Errorf("it ends with status %d", status)
			}
		})
	}
}
