package protocol_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestConclude(t *testing.T) {
	req, err := dragoman.NewRequest(dragoman.StringID("q"), "m", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := req.Reply(nil)
	if err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(dragoman.ErrCancelled)
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(dragoman.ErrClosed)
	for _, test := range []struct {
		name string
		ctx  context.Context
		resp *dragoman.Message
		err  error
		code int // of the answer; 0 if it is resp
		none bool
	}{
		{"an answer", t.Context(), answer, nil, 0, false},
		{"an answer to a cancelled request", cancelled, answer, nil, 0, true},
		{"an error of a cancelled request", cancelled, nil, errors.New("x"), 0, true},
		{"an answer though the conversation ended", ended, answer, nil, 0, false},
		{"an error", t.Context(), nil, errors.New("x"), protocol.CodeInternal, false},
		{"a limit", t.Context(), nil, dragoman.ErrOverloaded, protocol.CodeOverloaded, false},
		{"neither", t.Context(), nil, nil, protocol.CodeInternal, false},
	} {
		got := protocol.ResponseOf(test.ctx, req, test.resp, test.err)
		switch {
		case test.none:
			if got != nil {
				t.Errorf("%s: %s, want none", test.name, got)
			}
		case test.code == 0:
			if got != test.resp {
				t.Errorf("%s: %s", test.name, got)
			}
		case got == nil || !got.IsError() || got.RPCError().Code != test.code || got.ID() != req.ID():
			t.Errorf("%s: %s, want code %d", test.name, got, test.code)
		}
	}
	if e := protocol.IDInUse(req); e.Code != protocol.CodeInvalidRequest {
		t.Errorf("IDInUse: %v", e)
	}
}
