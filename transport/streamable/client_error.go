package streamable

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/protocol"
)

var (
	// ErrNoResponse says that a stream ended before the answer came and cannot
	// be resumed. Whether the request was carried out is not known.
	ErrNoResponse = errors.New("streamable: no response received for request")

	// ErrSessionGone says that the server has ended the session, and so the
	// conversation.
	ErrSessionGone = errors.New("streamable: the server has ended the session")
)

// A refusedError is the error of a request that the server has refused because it
// has ended the session. It is a [protocol.Fault]: the request was not carried out.
type refusedError struct{ error }

// Outcome implements protocol.Fault.
func (refusedError) Outcome() string { return protocol.OutcomeNotSent }

// Unwrap returns why the conversation is over.
func (e refusedError) Unwrap() error { return e.error }

// clientMaxErrorBody is how much of an answer is read that nobody wants.
const clientMaxErrorBody = 64 << 10

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

// isUnknownMethod reports whether a refusal says that the server has no such method. The
// Go SDK says that in plain text.
func isUnknownMethod(e *protocol.StatusError, method string) bool {
	return e.Status == http.StatusBadRequest && strings.Contains(string(e.Body), strconv.Quote(method)+" unsupported")
}
