//go:build unix

package gateway

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A lineCase is a way to speak lines to the gateway.
type lineCase struct {
	name string
	eras []protocol.Era // of one client each
	open func(t *testing.T, config object, flags ...string) (*gatewaytest.Gateway, dragoman.Dialer)
}

// lineCases are a socket of either command, and standard input and output.
var lineCases = []lineCase{
	{"serve on TCP", gatewaytest.Eras, func(t *testing.T, config object, flags ...string) (*gatewaytest.Gateway, dragoman.Dialer) {
		g := gatewaytest.Serve(t, &gatewaytest.Options{Config: asOne(config), Flags: append(flags, "--listen", "tcp:127.0.0.1:0")})
		return g, g.Lines()
	}},
	{"run on TCP", gatewaytest.Eras, func(t *testing.T, config object, flags ...string) (*gatewaytest.Gateway, dragoman.Dialer) {
		g := gatewaytest.Run(t, slices.Concat(flags, []string{"--listen", "tcp:127.0.0.1:0"}, runArguments(t, config))...)
		return g, g.Lines()
	}},
	{"serve on standard input", gatewaytest.Eras[1:], func(t *testing.T, config object, flags ...string) (*gatewaytest.Gateway, dragoman.Dialer) {
		with, d := gatewaytest.Pipes(t)
		return gatewaytest.Serve(t, &gatewaytest.Options{Config: asOne(config), Flags: append(flags, "--stdio"), Launch: with}), d
	}},
}

// asOne returns the configuration of one server whose tools keep their names among
// all.
func asOne(config object) object {
	return object{"servers": object{server: with(config, object{"tools": object{"prefix": ""}})}}
}

// lines begins a call on each of the lines that ends when its key is released, and returns its
// clients, and where the endings will come by what they should say.
func (s *fixture) lines(way lineCase, d dragoman.Dialer) ([]*gatewaytest.Client, map[string]<-chan ending) {
	s.Helper()
	var all []*gatewaytest.Client
	calls := make(map[string]<-chan ending)
	for _, era := range way.eras {
		c, err := gatewaytest.Dial(s.ctx, d, "guest", era)
		if err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() { _ = c.Conn.Close() })
		key := s.key(era.String())
		calls[key] = begin(s.ctx, c, "hold", object{"key": key, "text": key})
		s.runs(key)
		all = append(all, c)
	}
	return all, calls
}

// TestS47_LinesAreDrainedToo ends the gateway while a call and a subscription are
// in progress on a line of JSON.
func TestS47_LinesAreDrainedToo(t *testing.T) {
	t.Parallel() // with a gateway of its own
	for _, way := range lineCases {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			j := newJournal(t)
			g, d := way.open(t, child(t, fault.Modern, j), patient...)
			s := &fixture{T: t, Gateway: g, mode: fault.Modern, journal: j, ctx: gatewaytest.Hurry(t, gatewaytest.Patience)}
			clients, calls := s.lines(way, d)
			listener := clients[len(clients)-1] // which is modern
			listen := make(chan error, 1)
			go func() { // ends with the gateway
				_, err := listener.Once(s.ctx, protocol.MethodListen, object{"notifications": object{"toolsListChanged": true}})
				listen <- err
			}()
			if err := listener.Add(s.ctx, protocol.NoteAcknowledged); err != nil {
				t.Fatal(err)
			}
			g.Leave()
			from := time.Now()
			g.Signal(syscall.SIGTERM)
			if g.File != "" {
				s.notReady(from)
			}
			for _, c := range clients {
				s.turnedAwayOn(c)
			}
			if err := <-listen; err != nil {
				t.Errorf("the listen ends with %v, not with its result", err)
			}
			from = time.Now()
			for key, done := range calls {
				j.Write(fault.Released, key)
				if got := ends(t, done); got != key {
					t.Errorf("%s comes to %q", key, got)
				}
			}
			for _, c := range clients {
				select {
				case <-c.Conn.Done():
				case <-s.ctx.Done():
					t.Fatal("a line stays open")
				}
			}
			status := g.Wait(gatewaytest.Patience)
			if took := time.Since(from); status != 0 || gatewaytest.Exceeds(took, 5*time.Second) {
				t.Errorf("it ends with status %d after %v", status, took)
			}
			if err := g.Unwell(); err != nil {
				t.Error(err)
			}
		})
	}
}

// turnedAwayOn fails the test unless what is new on a line is refused, soon.
func (s *fixture) turnedAwayOn(c *gatewaytest.Client) {
	s.Helper()
	gatewaytest.Eventually(s.T, func() error {
		_, err := c.Once(s.ctx, protocol.MethodListTools, nil)
		if err == nil {
			return errors.New("a new request is taken")
		}
		if code, outcome := gatewaytest.Outcome(err); code != protocol.CodeDraining || outcome != protocol.OutcomeNotSent {
			return fmt.Errorf("a new request gets %w", err)
		}
		return nil
	})
}

// TestS47_LinesHaveTheLimitToo has calls on lines that do not end.
func TestS47_LinesHaveTheLimitToo(t *testing.T) {
	t.Parallel() // with a gateway of its own
	for _, way := range lineCases {
		for limit, twice := range map[string]bool{"500ms": false, "1h": true} {
			t.Run(fmt.Sprintf("%s, told twice: %v", way.name, twice), func(t *testing.T) {
				t.Parallel() // it mostly waits
				j := newJournal(t)
				g, d := way.open(t, child(t, fault.Modern, j), "--drain", limit)
				s := &fixture{T: t, Gateway: g, mode: fault.Modern, journal: j, ctx: gatewaytest.Hurry(t, gatewaytest.Patience)}
				clients, calls := s.lines(way, d)
				g.Leave()
				from := time.Now()
				g.Signal(syscall.SIGTERM)
				if twice {
					s.turnedAwayOn(clients[0])
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
				if err := g.Unwell(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
