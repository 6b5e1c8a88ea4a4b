//go:build unix

package gateway

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// TestS32_CrashInACallEndsEveryCallOnce has five clients wait for their calls when
// the server crashes, in each process that carries one out.
func TestS32_CrashInACallEndsEveryCallOnce(t *testing.T) {
	t.Parallel() // it mostly waits
	fixtures(t, nil, func(s *fixture) {
		clients := gatewaytest.Size(5, 3)
		var (
			calls []<-chan ending
			all   []*gatewaytest.Client
			keys  []string
		)
		for i := range clients {
			c, key := s.enter(gatewaytest.HTTP), s.key(fmt.Sprint("call ", i))
			all, keys = append(all, c), append(keys, key)
			calls = append(calls, s.count(c, key, forever))
		}
		calls = append(calls, begin(s.ctx, s.enter(gatewaytest.HTTP), "crash", nil))
		for _, key := range keys {
			for _, e := range s.journal.Of(fault.Ran, key) {
				_ = syscall.Kill(e.PID, syscall.SIGKILL) // the crash may have been its own
			}
		}
		for _, done := range calls {
			fails(s.T, done, time.Second, protocol.CodeLost, protocol.OutcomeUnknown)
		}
		for _, c := range all {
			recovers(s.ctx, s.T, c)
		}
		echoes(s.ctx, s.T, s.enter(gatewaytest.HTTP), "a new session")
		// That no key is in the journal twice is looked at in the end.
	})
}
