package protocol_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestFailureOfACall(t *testing.T) {
	req := peertest.Parse(t, `{"jsonrpc":"2.0","id":"r","method":"tools/call"}`)
	cases := []struct {
		name    string
		err     error
		code    int
		outcome string // "" if the error is not one of ours
	}{
		{"the peer's own", fmt.Errorf("wrapped: %w", &dragoman.Error{Code: 7, Message: "x"}), 7, ""},
		{"overloaded", fmt.Errorf("wrapped: %w", dragoman.ErrOverloaded), protocol.CodeOverloaded, protocol.OutcomeNotSent},
		{"too large", dragoman.ErrTooLarge, protocol.CodeTooLarge, protocol.OutcomeUnknown},
		{"closed", dragoman.ErrClosed, protocol.CodeLost, protocol.OutcomeUnknown},
		{"closed for a reason", dragoman.Closed(io.EOF), protocol.CodeLost, protocol.OutcomeUnknown},
		{"timeout", context.DeadlineExceeded, protocol.CodeTimeout, protocol.OutcomeUnknown},
		{"lost on the way", fmt.Errorf("wrapped: %w", fault(protocol.OutcomeUnknown)), protocol.CodeLost, protocol.OutcomeUnknown},
		{"no way", fault(protocol.OutcomeNotSent), protocol.CodeUnavailable, protocol.OutcomeNotSent},
		{"anything else", errors.New("what"), protocol.CodeInternal, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := protocol.Failure(req, c.err)
			if err := protocol.CheckToolError(m); err != nil || m.ID() != req.ID() {
				t.Errorf("%s: %v", m, err)
			}
			data := ""
			if c.outcome != "" {
				data = `{"source":"gateway","outcome":"` + c.outcome + `"}`
			}
			if e := m.RPCError(); e.Code != c.code || string(e.Data) != data {
				t.Errorf("got code %d with %s, want %d with %s", e.Code, e.Data, c.code, data)
			}
		})
	}
}

// A fault is a protocol.Fault.
type fault string

func (f fault) Error() string   { return "fault" }
func (f fault) Outcome() string { return string(f) }

func TestOverloaded(t *testing.T) {
	e := protocol.Overloaded("queue is full")
	if e.Code != protocol.CodeOverloaded || e.Message != "queue is full" || string(e.Data) != `{"source":"gateway","outcome":"not_sent"}` {
		t.Errorf("got %v with %s", e, e.Data)
	}
}

func TestRefusalSaysWhoseLimitItIsAndWhenToComeBack(t *testing.T) {
	for _, c := range []struct {
		name string
		e    *dragoman.Error
		want protocol.Refused
		ok   bool
		data string
	}{
		{"limit", protocol.Limited(protocol.LimitCaller, "x", 1500*time.Millisecond), protocol.Refused{Limit: "caller", Retry: 1500 * time.Millisecond}, true,
			`{"source":"gateway","outcome":"not_sent","limit":"caller","retryMs":1500}`},
		{"rounded up", protocol.Limited(protocol.LimitTool, "x", 1), protocol.Refused{Limit: "tool", Retry: time.Millisecond}, true,
			`{"source":"gateway","outcome":"not_sent","limit":"tool","retryMs":1}`},
		{"no time", protocol.Limited(protocol.LimitServer, "x", 0), protocol.Refused{Limit: "server"}, true,
			`{"source":"gateway","outcome":"not_sent","limit":"server"}`},
		{"overloaded", protocol.Overloaded("x"), protocol.Refused{}, true, ""},
		{"draining", protocol.Draining(), protocol.Refused{}, true, ""},
		{"too long", &dragoman.Error{Code: protocol.CodeOverloaded, Data: []byte(`{"outcome":"not_sent","retryMs":9223372036854775807}`)}, protocol.Refused{Retry: time.Hour}, true, ""},
		{"negative", &dragoman.Error{Code: protocol.CodeOverloaded, Data: []byte(`{"outcome":"not_sent","retryMs":-1}`)}, protocol.Refused{}, true, ""},
		{"sent perhaps", &dragoman.Error{Code: protocol.CodeOverloaded, Data: []byte(`{"outcome":"unknown","limit":"caller"}`)}, protocol.Refused{}, false, ""},
		{"no data", &dragoman.Error{Code: protocol.CodeOverloaded}, protocol.Refused{}, false, ""},
		{"other data", &dragoman.Error{Code: protocol.CodeOverloaded, Data: []byte(`[1]`)}, protocol.Refused{}, false, ""},
		{"other code", &dragoman.Error{Code: protocol.CodeUnavailable, Data: []byte(`{"outcome":"not_sent"}`)}, protocol.Refused{}, false, ""},
		{"none", nil, protocol.Refused{}, false, ""},
	} {
		if got, ok := protocol.RefusedBy(c.e); got != c.want || ok != c.ok {
			t.Errorf("%s: got %+v, %v, want %+v, %v", c.name, got, ok, c.want, c.ok)
		}
		if c.data != "" && (string(c.e.Data) != c.data || c.e.Code != protocol.CodeOverloaded) {
			t.Errorf("%s: %v with %s, want %s", c.name, c.e, c.e.Data, c.data)
		}
	}
}
