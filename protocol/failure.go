package protocol

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/dragoman-mcp/dragoman"
)

// Outcomes say what became of a request that got an error of our own.
const (
	OutcomeNotSent   = "not_sent"
	OutcomeUnknown   = "unknown"
	OutcomeCancelled = "cancelled"
)

// Failure returns the error response for a request that a peer could not
// answer: the Go error of its Call, in the terms of JSON-RPC.
func Failure(req *dragoman.Message, err error) *dragoman.Message {
	var rpc *dragoman.Error
	switch {
	case errors.As(err, &rpc):
		return req.Fail(rpc)
	case errors.Is(err, dragoman.ErrOverloaded):
		return req.Fail(own(CodeOverloaded, err.Error(), OutcomeNotSent))
	case errors.Is(err, dragoman.ErrTooLarge):
		return req.Fail(own(CodeTooLarge, err.Error(), OutcomeUnknown))
	case errors.Is(err, dragoman.ErrClosed):
		return req.Fail(own(CodeLost, err.Error(), OutcomeUnknown))
	case errors.Is(err, dragoman.ErrCancelled), errors.Is(err, context.Canceled):
		return req.Fail(own(CodeInternal, "the request was cancelled on the way", OutcomeCancelled))
	case errors.Is(err, context.DeadlineExceeded):
		return req.Fail(own(CodeTimeout, "no answer in time", OutcomeUnknown))
	}
	return req.Fail(&dragoman.Error{Code: CodeInternal, Message: "Internal error: " + err.Error()})
}

// Overloaded is the error for what a limit keeps from being sent.
func Overloaded(message string) *dragoman.Error {
	return own(CodeOverloaded, message, OutcomeNotSent)
}

// own makes an error of ours, which says so.
func own(code int, message, outcome string) *dragoman.Error {
	data, _ := json.Marshal(struct {
		Source  string `json:"source"`
		Outcome string `json:"outcome"`
	}{"gateway", outcome})
	return &dragoman.Error{Code: code, Message: message, Data: data}
}
