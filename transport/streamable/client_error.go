package streamable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/protocol"
)

var (
	// ErrNoResponse says that a stream ended before the answer came and cannot
	// be resumed. Whether the request was carried out is not known.
	ErrNoResponse = errors.New("streamable: no response received for request")

	// ErrSessionGone says that the server has ended the session.
	ErrSessionGone = errors.New("streamable: the server has ended the session")
)

// clientMaxErrorBody is how much of the body of an error is read.
const clientMaxErrorBody = 64 << 10

// An HTTPError is the answer of a server that refuses an HTTP request, and does
// not say so in the terms of JSON-RPC.
type HTTPError struct {
	// Status is the status code, Text its name.
	Status int
	Text   string

	// Body is what the server says about it, up to 64 KiB.
	Body []byte

	// RPC is the JSON-RPC error that the body holds. It is nil unless the
	// server asks for authorization, because otherwise that is the answer.
	RPC *dragoman.Error

	// Auth says where and how to get authorization.
	Auth AuthHints

	// RetryAfter is how long the server asks to wait. Zero means that it does
	// not.
	RetryAfter time.Duration
}

// AuthHints are what a refusal says about authorization.
type AuthHints struct {
	Challenges []string // the values of WWW-Authenticate
	Server     string   // the value of Mcp-Auth-Server
}

// Error implements error.
func (e *HTTPError) Error() string {
	s := fmt.Sprintf("streamable: the server answers %d %s", e.Status, e.Text)
	if e.RPC != nil {
		s += ": " + e.RPC.Message
	}
	return s
}

// Outcome implements protocol.Fault.
func (e *HTTPError) Outcome() string { return httpx.OutcomeOf(e.Status) }

// Unwrap returns the JSON-RPC error, if there is one.
func (e *HTTPError) Unwrap() error {
	if e.RPC == nil {
		return nil
	}
	return e.RPC
}

// A TimeoutError says that a request took too long. It is a
// [context.DeadlineExceeded], although no deadline of the caller passed.
type TimeoutError struct {
	// After is how long the request was waited for.
	After time.Duration
}

// Error implements error.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("streamable: no answer within %v", e.After)
}

// Is tells whether target is [context.DeadlineExceeded].
func (e *TimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// Timeout implements net.Error.
func (e *TimeoutError) Timeout() bool { return true }

// clientLost returns the error of a request that got no answer of any kind.
func clientLost(err error) error {
	return httpx.Lost(fmt.Errorf("streamable: the request failed: %w", err))
}

// clientRefusal reads an answer that is no success.
func clientRefusal(resp *http.Response) *HTTPError {
	// What could be read of it is worth something.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, clientMaxErrorBody))
	e := &HTTPError{
		Status: resp.StatusCode,
		Text:   http.StatusText(resp.StatusCode),
		Body:   body,
		Auth: AuthHints{
			Challenges: resp.Header.Values("WWW-Authenticate"),
			Server:     resp.Header.Get(protocol.HeaderAuthServer),
		},
		RetryAfter: httpx.RetryAfter(resp.Header),
	}
	return e
}

// wantsAuth tells whether the refusal is about who asks, not about what.
func (e *HTTPError) wantsAuth() bool {
	return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden && len(e.Auth.Challenges) > 0
}

// unknown tells whether the refusal says that the server has no such method. The
// Go SDK says that in plain text.
func (e *HTTPError) unknown(method string) bool {
	return e.Status == http.StatusBadRequest && strings.Contains(string(e.Body), strconv.Quote(method)+" unsupported")
}

// response returns the JSON-RPC error response in the body, or nil.
func (e *HTTPError) response(limits dragoman.Limits) *dragoman.Message {
	m, err := limits.Parse(e.Body)
	if err != nil || !m.IsError() {
		return nil
	}
	return m
}
