package protocol_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestFailureOfACall(t *testing.T) {
	req := parse(t, `{"jsonrpc":"2.0","id":"r","method":"tools/call"}`)
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
