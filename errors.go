package dragoman

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// The JSON-RPC codes that this package itself uses; package protocol names all.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
	codeInternal       = -32603
)

var (
	// ErrClosed says that the conversation is over. Errors that know why wrap
	// it, see [ClosedError].
	ErrClosed = errors.New("dragoman: conversation closed")

	// ErrOverloaded says that a limit of calls or bytes was reached. What was
	// to be sent has not been sent, and the conversation continues.
	ErrOverloaded = errors.New("dragoman: too much in progress")

	// ErrTooLarge says that a message exceeds the size limit. The conversation
	// continues, except over WebSocket, where the socket is closed for that.
	ErrTooLarge = errors.New("dragoman: message too large")

	// ErrSlow says that the other side did not read for too long, so the
	// conversation was ended.
	ErrSlow = errors.New("dragoman: peer does not read")

	// ErrCancelled says that the other side cancelled the request.
	ErrCancelled = errors.New("dragoman: cancelled by the peer")
)

// A ClosedError is an [ErrClosed] with its reason.
type ClosedError struct {
	// Reason is what ended the conversation: io.EOF, a network error, the exit
	// of a process.
	Reason error
}

// Error implements error.
func (e *ClosedError) Error() string {
	return ErrClosed.Error() + ": " + e.Reason.Error()
}

// Unwrap makes the error both ErrClosed and its reason.
func (e *ClosedError) Unwrap() []error { return []error{ErrClosed, e.Reason} }

// Closed returns the error of a conversation that reason ended: ErrClosed
// itself if reason is nil, reason if it is an ErrClosed already.
func Closed(reason error) error {
	if reason == nil {
		return ErrClosed
	}
	if errors.Is(reason, ErrClosed) {
		return reason
	}
	return &ClosedError{Reason: reason}
}

// An Error is the error object of a JSON-RPC response.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("MCP error %d: %s", e.Code, e.Message)
}

// A ParseError says why bytes are not a message.
type ParseError struct {
	// Code is the JSON-RPC code that fits: -32700 when the bytes are not JSON
	// or not UTF-8, -32600 when they are JSON but no message.
	Code int

	// Offset is where the fault was found, counted in bytes from the start of
	// the message.
	Offset int

	// Reason says what is wrong, and what was expected where that helps.
	Reason string

	// Kind is what the bytes set out to be, as far as they could be read:
	// Response if they have a result or an error, else Request if they have an
	// id, else Notification if they have a method.
	Kind Kind

	// ID is the id of the message, if it is JSON and there is one to be read.
	ID ID
}

// Error implements error.
func (e *ParseError) Error() string {
	return fmt.Sprintf("dragoman: bad message at byte %d: %s", e.Offset, e.Reason)
}

// Response returns the error response that tells the sender. It has the id of
// the request that was refused. If that is not known, or the refused message is
// a response itself, whose id is one of ours, it is null.
func (e *ParseError) Response() *Message {
	title := "Invalid request"
	if e.Code == codeParse {
		title = "Parse error"
	}
	id := e.ID
	if e.Kind == Response {
		id = NullID
	}
	return NewFailure(id, &Error{
		Code:    e.Code,
		Message: fmt.Sprintf("%s: %s at byte %d", title, e.Reason, e.Offset),
	})
}

// A TimeoutError says that a request took longer than we allow it. It is a
// [context.DeadlineExceeded], although no deadline of the caller passed.
type TimeoutError struct {
	// After is the limit that has passed.
	After time.Duration

	// Renewed says that the limit was counted from the last progress, or from the last
	// answer to a question of the other side, and not from the beginning.
	Renewed bool
}

// Error implements error.
func (e *TimeoutError) Error() string {
	if e.Renewed {
		return fmt.Sprintf("no answer and no progress within %v", e.After)
	}
	return fmt.Sprintf("no answer within %v", e.After)
}

// Is reports whether target is [context.DeadlineExceeded].
func (e *TimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// Timeout implements net.Error.
func (e *TimeoutError) Timeout() bool { return true }
