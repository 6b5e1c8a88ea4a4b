//go:build unix

package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// TestPain6_ServersAskTheirClients has servers ask for roots, for a model and for
// the user's input, by every transport.
func TestPain6_ServersAskTheirClients(t *testing.T) {
	t.Parallel() // its gateways are its own
	fixtures(t, nil, func(s *fixture) {
		for _, way := range ways(s.era) {
			s.Run(way, func(t *testing.T) {
				c := enter(s.ctx, t, s.Gateway, s.server, way, s.era)
				if got := says(s.ctx, t, c, "serverreq", nil); got != "file:///guest" {
					t.Errorf("the server gets the root %q", got)
				}
				for tool, arguments := range map[string]object{
					"test_sampling": {"prompt": "who are you?"}, "test_elicitation": {"message": "who are you?"},
				} {
					if got := says(s.ctx, t, c, tool, arguments); !strings.Contains(got, c.Name) {
						t.Errorf("%s does not get the answer: %q", tool, got)
					}
				}
			})
		}
	})
}

// TestS23_Pain7_ClientsWithTheSameIDsGetTheirOwn has clients whose requests all have the
// same ids and tokens, at the same time. Two sessions never share a process of a
// server that remembers them.
func TestS23_Pain7_ClientsWithTheSameIDsGetTheirOwn(t *testing.T) {
	t.Parallel() // its gateways are its own
	fixtures(t, nil, func(s *fixture) {
		const clients = 6 // two for each way at least
		calls := max(gatewaytest.Few(20), 4)
		var all sync.WaitGroup
		pids := make([]int, clients)
		for i := range clients {
			all.Go(func() { // ends after its calls
				way := ways(s.era)[i%len(ways(s.era))]
				c, err := gatewaytest.Dial(s.ctx, s.Dialer(s.server, way), fmt.Sprint("client ", i), s.era)
				if err != nil {
					s.Error(err)
					return
				}
				defer c.Conn.Close()
				for n := range calls {
					mine := fmt.Sprintf("client %d, call %d over %s", i, n, way)
					if got, err := c.Tool(s.ctx, "sleep", object{"ms": (i*7 + n*3) % 20, "text": mine}); err != nil || got != mine {
						s.Errorf("%s gets %q, error %v", mine, got, err)
					}
				}
				text, err := c.Tool(s.ctx, "whoami", nil)
				var p fault.Process
				if err != nil || json.Unmarshal([]byte(text), &p) != nil {
					s.Errorf("who is it: %q, error %v", text, err)
				}
				pids[i] = p.PID
			})
		}
		all.Wait()
		if s.era == protocol.Legacy && s.mode == fault.Legacy {
			seen := map[int]int{}
			for i, pid := range pids {
				if before, twice := seen[pid]; twice {
					s.Errorf("clients %d and %d share process %d", before, i, pid)
				}
				seen[pid] = i
			}
		}
	})
}

// TestPain18_LargeMessagesPassWhole sends 5 MiB each way, of characters that do not
// fall on the edges of anybody's buffers. What is too large fails alone.
func TestPain18_LargeMessagesPassWhole(t *testing.T) {
	t.Parallel() // its gateways are its own
	const unit = "aé漢🙂"
	fixtures(t, nil, func(s *fixture) {
		for _, way := range ways(s.era) {
			s.Run(way, func(t *testing.T) {
				c := enter(s.ctx, t, s.Gateway, s.server, way, s.era)
				size := gatewaytest.Few(5 << 20)
				if way != gatewaytest.HTTP || s.server != server { // the rest need not be that large
					size /= 10
				}
				large := strings.Repeat(unit, size/len(unit))
				if got := says(s.ctx, t, c, "echo", object{"text": large}); got != large {
					t.Errorf("of %d bytes %d come back, or others", len(large), len(got))
				}
			})
		}
		if s.server != server || s.File == "" || s.mode != s.era.String() {
			return // to the gateway the rest is the same
		}
		s.Run("too large", func(t *testing.T) {
			c := enter(s.ctx, t, s.Gateway, s.server, gatewaytest.HTTP, s.era)
			_, err := c.Tool(s.ctx, "big", object{"bytes": 17 << 20})
			failed(t, err, protocol.CodeTooLarge, protocol.OutcomeUnknown)
			echoes(s.ctx, t, c, "after it")
		})
	})
}

// TestPain19_SlowCallHoldsUpNobody has quick calls beside one that does not end, in
// one session.
func TestPain19_SlowCallHoldsUpNobody(t *testing.T) {
	t.Parallel() // its gateways are its own
	fixtures(t, nil, func(s *fixture) {
		for _, way := range ways(s.era) {
			s.Run(way, func(t *testing.T) {
				c := enter(s.ctx, t, s.Gateway, s.server, way, s.era)
				ctx, cancel := context.WithCancel(s.ctx)
				slow := begin(ctx, c, "count", object{"key": t.Name(), "ms": forever})
				s.runs(t.Name())
				for i := range 20 {
					echoes(s.ctx, t, c, fmt.Sprint(i))
				}
				select {
				case e := <-slow:
					t.Errorf("the slow call has ended: %+v", e)
				default:
				}
				cancel()
				<-slow
			})
		}
	})
}

// TestPain25_NothingIsLostOnTheWay compares what comes through with what the server
// says itself.
func TestPain25_NothingIsLostOnTheWay(t *testing.T) {
	t.Parallel() // its gateways are its own
	const odd = `{"big":123456789012345678901234567890,"float":1.50,"exp":1E+2,"nested":{"_meta":{"k":[null,true]},"é\u00e9":"\ud83d\ude42"},"dup":1}`
	fixtures(t, nil, func(s *fixture) {
		direct := s.direct()
		through := s.enter(gatewaytest.HTTP)
		for _, c := range []*gatewaytest.Client{direct, through} {
			resp, err := c.Request(s.ctx, protocol.MethodCallTool, object{"name": "reflect", "arguments": json.RawMessage(odd)})
			if err != nil {
				s.Fatal(err)
			}
			// What encoding/json makes of it is what was sent.
			sent, _ := json.Marshal(json.RawMessage(odd))
			if got := resp.Get("structuredContent"); !bytes.Equal(got, sent) {
				s.Errorf("%s becomes %s", sent, got)
			}
		}
		for method, member := range map[string]string{
			protocol.MethodListTools: "tools", protocol.MethodListPrompts: "prompts", protocol.MethodListResources: "resources",
		} {
			want, err := direct.Request(s.ctx, method, object{})
			if err != nil {
				s.Fatal(err)
			}
			got, err := through.Request(s.ctx, method, object{})
			if err != nil {
				s.Fatal(err)
			}
			same(s, method, got.Get(member), want.Get(member))
		}
	})
}

// same fails the test unless two lists are the same, byte for byte, in what needs no
// translation.
func same(s *fixture, method string, got, want json.RawMessage) {
	s.Helper()
	var a, b []json.RawMessage
	if json.Unmarshal(got, &a) != nil || json.Unmarshal(want, &b) != nil || len(a) != len(b) {
		s.Fatalf("%s lists %d, want %d", method, len(a), len(b))
	}
	for i := range a {
		// In the legacy era output is an object, so a schema of an array is wrapped.
		if translated := s.era == protocol.Legacy && bytes.Contains(b[i], []byte(`"name":"levels"`)); !translated && !bytes.Equal(a[i], b[i]) {
			s.Errorf("%s has\n%s\nof\n%s", method, a[i], b[i])
		}
	}
}

// direct returns a client that talks to a server of the fixture's mode without anybody
// between. It speaks the server's era, with the fixture's revision where that is the
// same.
func (s *fixture) direct() *gatewaytest.Client {
	s.Helper()
	config := child(s.T, s.mode, "")
	cmd := &stdio.Command{Path: config["command"].(string)}
	for name, value := range config["env"].(map[string]string) {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	era := protocol.Legacy
	if s.mode == fault.Modern {
		era = protocol.Modern
	}
	c, err := gatewaytest.Dial(s.ctx, cmd, "direct", era)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = c.Conn.Close() })
	return c
}
