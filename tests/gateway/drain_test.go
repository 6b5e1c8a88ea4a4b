//go:build unix

package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/fault"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/tests/kit"
)

// TestS47_DrainLetsCallsEnd ends the gateway while calls are under way and streams
// are open.
func TestS47_DrainLetsCallsEnd(t *testing.T) {
	const calls = 20
	for _, mode := range []string{fault.Legacy, fault.Modern} {
		t.Run(mode+" server", func(t *testing.T) {
			j := newJournal(t)
			g := kit.Serve(t, &kit.Options{Config: object{"servers": object{server: child(t, mode, j)}}})
			ctx := kit.Hurry(t, kit.Patience)
			s := &scene{T: t, Gateway: g, server: server, mode: mode, journal: j, ctx: ctx}
			var done []<-chan ending
			for i := range calls {
				era := kit.Eras[i%2]
				way := ways(era)[i/2%len(ways(era))]
				c := enter(ctx, t, g, server, way, era)
				key := fmt.Sprintf("%s call %d of a %s client over %s", mode, i, era, way)
				done = append(done, s.count(c, key, int(kit.Slow(500*time.Millisecond).Milliseconds())))
			}
			idle := openSession(ctx, t, g, server).get(ctx, "")
			defer idle.Body.Close()
			socket := enter(ctx, t, g, server, kit.WS, protocol.Legacy)
			listening := enter(ctx, t, g, server, kit.HTTP, protocol.Modern)
			listened := make(chan error, 1)
			go func() { // ends with the gateway
				_, err := listening.Once(ctx, protocol.MethodListen, object{"notifications": object{"toolsListChanged": true}})
				listened <- err
			}()
			if err := listening.Hear(ctx, protocol.NoteAcknowledged); err != nil {
				t.Fatal(err)
			}
			g.Leave()
			g.Signal(syscall.SIGTERM)
			for _, d := range done {
				ends(t, d)
			}
			if err := <-listened; err != nil {
				t.Errorf("the listen ends with %v, not with its result", err)
			}
			select {
			case <-socket.Conn.Done():
				if err := socket.Conn.Err(); !strings.Contains(err.Error(), "1001") {
					t.Errorf("the socket ends with %v", err)
				}
			case <-ctx.Done():
				t.Error("the socket stays open")
			}
			for events := newEvents(idle.Body); ; {
				if _, err := events.next(); err != nil {
					break // it ends
				}
			}
			if status := g.Wait(kit.Slow(5 * time.Second)); status != 0 {
				t.Errorf("it ends with status %d", status)
			}
			if err := g.Unwell(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestS47_DrainHasALimit has a call that does not end. It is told, and the gateway
// ends all the same: by itself after a while, or at once when it is told twice.
func TestS47_DrainHasALimit(t *testing.T) {
	for _, twice := range []bool{false, true} {
		t.Run(fmt.Sprintf("twice: %v", twice), func(t *testing.T) {
			t.Parallel() // it mostly waits
			j := newJournal(t)
			g := kit.Serve(t, &kit.Options{Config: object{"servers": object{server: child(t, fault.Legacy, j)}}})
			ctx := kit.Hurry(t, kit.Patience)
			s := &scene{T: t, Gateway: g, server: server, journal: j, ctx: ctx}
			done := s.count(enter(ctx, t, g, server, kit.HTTP, protocol.Legacy), t.Name(), forever)
			g.Leave()
			from := time.Now()
			g.Signal(syscall.SIGTERM)
			// Whoever comes now is turned away.
			kit.Eventually(t, func() error {
				if status, _ := g.Get("/readyz"); status == http.StatusOK {
					return fmt.Errorf("it still takes requests")
				}
				return nil
			})
			if twice {
				g.Signal(syscall.SIGTERM)
			}
			e := <-done
			if e.err == nil {
				t.Errorf("the call comes to %q", e.text)
			} else if code, outcome := kit.Outcome(e.err); !twice && (code != protocol.CodeLost || outcome != protocol.OutcomeUnknown) {
				t.Errorf("the call comes to %v", e.err)
			}
			g.Wait(kit.Patience)
			if took := time.Since(from); twice && took > kit.Slow(5*time.Second) || took > kit.Slow(16*time.Second) {
				t.Errorf("it ends after %v", took)
			}
		})
	}
}
