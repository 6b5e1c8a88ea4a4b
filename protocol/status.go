package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman"
)

// A StatusError is an HTTP status by which a server refuses a request, without an answer
// in the terms of JSON-RPC. It is a [Fault]. It is [dragoman.ErrTooLarge] or
// [dragoman.ErrOverloaded] where the status means that.
type StatusError struct {
	// Status is the status code: 404, say.
	Status int

	// Text is what the server says about it in plain words, as far as it does. Body is
	// all that it says, up to 64 KiB.
	Text string
	Body []byte

	// RPC is the JSON-RPC error in the body of a refusal that is about who asks. All
	// others are answers like any other, and no StatusError.
	RPC *dragoman.Error

	// Challenges and AuthServer are the headers WWW-Authenticate and Mcp-Auth-Server,
	// which say how to be let in.
	Challenges []string
	AuthServer string

	// RetryAfter is how long the server asks to wait. Zero means that it does not.
	RetryAfter time.Duration
}

// Error implements error.
func (e *StatusError) Error() string {
	s := fmt.Sprintf("the server answers %d %s", e.Status, http.StatusText(e.Status))
	switch {
	case e.RPC != nil:
		s += ": " + e.RPC.Message
	case e.Text != "":
		s += ": " + e.Text
	}
	if e.RetryAfter > 0 {
		s += fmt.Sprintf("; it asks to wait %v", e.RetryAfter.Round(time.Second))
	}
	return s
}

// Outcome implements Fault. A server that refuses a request, or has no time for it, has
// not carried it out; of other failures nobody knows.
func (e *StatusError) Outcome() string {
	if e.Status < http.StatusInternalServerError || e.Status == http.StatusServiceUnavailable {
		return OutcomeNotSent
	}
	return OutcomeUnknown
}

// Unwrap returns the JSON-RPC error, if there is one, or what the status means to a
// caller.
func (e *StatusError) Unwrap() error {
	switch {
	case e.RPC != nil:
		return e.RPC
	case e.Status == http.StatusRequestEntityTooLarge:
		return dragoman.ErrTooLarge
	case e.Status == http.StatusTooManyRequests, e.Status == http.StatusServiceUnavailable:
		return dragoman.ErrOverloaded
	}
	return nil
}

// WantsAuth reports whether the refusal is about who asks, not about what.
func (e *StatusError) WantsAuth() bool {
	return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden && len(e.Challenges) > 0
}

// Response returns the JSON-RPC error response in the body, or nil.
func (e *StatusError) Response(limits dragoman.Limits) *dragoman.Message {
	m, err := limits.Parse(e.Body)
	if err != nil || !m.IsError() {
		return nil
	}
	return m
}

// failure returns the error that a request gets which was refused so.
func (e *StatusError) failure(message string) *dragoman.Error {
	code := CodeLost
	switch {
	case errors.Is(e, dragoman.ErrOverloaded):
		code = CodeOverloaded
	case errors.Is(e, dragoman.ErrTooLarge):
		code = CodeTooLarge
	case e.Status == http.StatusGatewayTimeout, e.Status == http.StatusRequestTimeout:
		code = CodeTimeout
	case e.Outcome() == OutcomeNotSent:
		code = CodeUnavailable
	}
	failure := newOwnError(code, message, e.Outcome())
	failure.Data, _ = json.Marshal(struct { // strings and numbers always encode
		Source  string `json:"source"`
		Outcome string `json:"outcome"`
		Status  int    `json:"status"`
		RetryMS int64  `json:"retryMs,omitempty"`
	}{"gateway", e.Outcome(), e.Status, e.RetryAfter.Milliseconds()})
	return failure
}
