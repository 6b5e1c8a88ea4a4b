//go:build unix

package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// TestS47_DrainHasALimit has calls that do not end. They are told, and the gateway
// ends all the same: by itself after a while, or at once when it is told twice.
func TestS47_DrainHasALimit(t *testing.T) {
	t.Parallel() // with a gateway of its own
	for name, c := range map[string]struct {
		flags  []string
		twice  bool
		within time.Duration
	}{
		"by itself":        {nil, false, 15 * time.Second},
		"by a short limit": {[]string{"--drain", "500ms"}, false, 5 * time.Second},
		"told twice":       {[]string{"--drain", "1h"}, true, 5 * time.Second},
	} {
		for _, mode := range []string{fault.Legacy, fault.Modern} {
			t.Run(name+", "+mode+" server", func(t *testing.T) {
				t.Parallel() // it mostly waits
				j := newJournal(t)
				g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": object{server: child(t, mode, j)}}, Flags: c.flags})
				s := &fixture{T: t, Gateway: g, server: server, mode: mode, journal: j, ctx: gatewaytest.Hurry(t, gatewaytest.Patience)}
				calls, silent := s.calls(gatewaytest.Size(10, 6)), s.silent()
				gatewaytest.Eventually(t, func() error {
					if n := g.Status()[server].InFlight; n != len(calls)+len(silent) {
						return fmt.Errorf("%d requests are in flight", n)
					}
					return nil
				})
				g.Leave()
				from := time.Now()
				g.Signal(syscall.SIGTERM)
				s.notReady(from)
				if c.twice {
					g.Signal(syscall.SIGTERM)
				}
				for key, done := range calls {
					e := <-done
					if code, outcome := gatewaytest.Outcome(e.err); code != protocol.CodeLost || outcome != protocol.OutcomeUnknown {
						t.Errorf("%s comes to %q, %v", key, e.text, e.err)
					}
				}
				for era, done := range silent {
					if e := <-done; e.err != nil || !strings.Contains(e.text, fmt.Sprint(protocol.CodeLost)) {
						t.Errorf("a call without a stream, %s, comes to %q, %v", era, e.text, e.err)
					}
				}
				g.Wait(gatewaytest.Patience)
				if took := time.Since(from); gatewaytest.Exceeds(took, c.within) {
					t.Errorf("it ends after %v", took)
				}
				if err := g.Unwell(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// silent makes a call of each era that has nothing to say before its answer, which
// never comes, and returns where the bodies will come that it is answered with.
func (s *fixture) silent() map[protocol.Era]<-chan ending {
	s.Helper()
	used := openSession(s.ctx, s.T, s.Gateway, s.server)
	ask := func(header http.Header, body string) <-chan ending {
		done := make(chan ending, 1)
		go func() { // ends with the gateway
			resp, err := patiently(s.ctx, http.MethodPost, used.url, header, body)
			if err != nil {
				done <- ending{err: err}
				return
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			done <- ending{text: string(text), err: err}
		}()
		return done
	}
	return map[protocol.Era]<-chan ending{
		protocol.Legacy: ask(used.header(), callText(5, "noanswer", nil)),
		protocol.Modern: ask(modernText(s.T, protocol.MethodCallTool, 5, object{"name": "noanswer"})),
	}
}

// TestS47_OneServerIsDrainedToo ends "dragoman run" while calls are in flight that do
// not end.
func TestS47_OneServerIsDrainedToo(t *testing.T) {
	t.Parallel() // with a gateway of its own
	for _, twice := range []bool{false, true} {
		t.Run(fmt.Sprintf("told twice: %v", twice), func(t *testing.T) {
			t.Parallel() // it mostly waits
			limit := "500ms"
			if twice {
				limit = "1h"
			}
			j := newJournal(t)
			g := gatewaytest.Run(t, append([]string{"--drain", limit}, runArguments(t, child(t, fault.Modern, j))...)...)
			s := &fixture{T: t, Gateway: g, server: server, mode: fault.Modern, journal: j, ctx: gatewaytest.Hurry(t, gatewaytest.Patience)}
			calls := s.calls(5)
			g.Leave()
			from := time.Now()
			g.Signal(syscall.SIGTERM)
			if twice {
				gatewaytest.Eventually(t, func() error { // it has begun to stop when it takes nothing new
					resp := modernPost(s.ctx, t, g.URL(server, "mcp"), protocol.MethodListTools, 1, object{})
					if body := read(t, resp); !strings.Contains(body, fmt.Sprint(protocol.CodeDraining)) {
						return fmt.Errorf("it says %s", body)
					}
					return nil
				})
				g.Signal(syscall.SIGTERM)
			}
			for key, done := range calls {
				e := <-done
				if code, outcome := gatewaytest.Outcome(e.err); code != protocol.CodeLost || outcome != protocol.OutcomeUnknown {
					t.Errorf("%s comes to %q, %v", key, e.text, e.err)
				}
			}
			g.Wait(gatewaytest.Patience)
			if took := time.Since(from); gatewaytest.Exceeds(took, 5*time.Second) {
				t.Errorf("it ends after %v", took)
			}
		})
	}
}
