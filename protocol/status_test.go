package protocol_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestStatusIsToldOfInTheTermsOfJSONRPC(t *testing.T) {
	req, err := dragoman.NewRequest(dragoman.IntID(1), "tools/call", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		status, code int
		outcome      string
		is           error
	}{
		{401, protocol.CodeUnavailable, protocol.OutcomeNotSent, nil},
		{404, protocol.CodeUnavailable, protocol.OutcomeNotSent, nil},
		{408, protocol.CodeTimeout, protocol.OutcomeNotSent, nil},
		{413, protocol.CodeTooLarge, protocol.OutcomeNotSent, dragoman.ErrTooLarge},
		{429, protocol.CodeOverloaded, protocol.OutcomeNotSent, dragoman.ErrOverloaded},
		{500, protocol.CodeLost, protocol.OutcomeUnknown, nil},
		{502, protocol.CodeLost, protocol.OutcomeUnknown, nil},
		{503, protocol.CodeOverloaded, protocol.OutcomeNotSent, dragoman.ErrOverloaded},
		{504, protocol.CodeTimeout, protocol.OutcomeUnknown, nil},
	} {
		e := fmt.Errorf("over there: %w", &protocol.StatusError{Status: test.status, Text: "no"})
		if test.is != nil && !errors.Is(e, test.is) {
			t.Errorf("%d is not %v", test.status, test.is)
		}
		got := protocol.Failure(req, e).RPCError()
		data := fmt.Sprintf(`{"source":"gateway","outcome":%q,"status":%d}`, test.outcome, test.status)
		if got.Code != test.code || string(got.Data) != data || !strings.Contains(got.Message, "over there: the server answers "+fmt.Sprint(test.status)) {
			t.Errorf("%d becomes %d %s %q", test.status, got.Code, got.Data, got.Message)
		}
	}
	// What ended the conversation says nothing of a request that was in flight on it.
	gone := dragoman.Closed(&protocol.StatusError{Status: 404, RetryAfter: time.Second})
	if got := protocol.Failure(req, gone).RPCError(); got.Code == protocol.CodeOverloaded || strings.Contains(string(got.Data), "status") {
		t.Errorf("a conversation that is over: %d %s", got.Code, got.Data)
	}
	// A server that says why in the terms of JSON-RPC is quoted.
	denied := &protocol.StatusError{Status: 401, RPC: &dragoman.Error{Code: -32001, Message: "who?"}}
	if got := protocol.Failure(req, denied).RPCError(); got.Code != -32001 || !denied.WantsAuth() || !strings.Contains(denied.Error(), "who?") {
		t.Errorf("%d %v", got.Code, denied)
	}
}
