package client

import (
	"fmt"
	"strings"

	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// A Kind says what kept a request from being answered. It is an error itself, so
// that errors.Is(err, client.Timeout) tells.
type Kind uint8

// The kinds.
const (
	// ConnectionFailed: there is no conversation with the server, and none could
	// be opened. The request was not sent.
	ConnectionFailed Kind = iota + 1

	// ConnectionLost: the conversation ended while the request was in flight.
	ConnectionLost

	// Timeout: the server gave no answer in time. It has been told that the
	// request is cancelled.
	Timeout

	// ProcessCrashed: the server's process ended.
	ProcessCrashed

	// NetworkError: this one request failed: the server answered with an HTTP
	// error, with what cannot be read, or with the end of the stream. The
	// conversation continues.
	NetworkError
)

// String returns the kind in words.
func (k Kind) String() string {
	switch k {
	case ConnectionFailed:
		return "connection failed"
	case ConnectionLost:
		return "connection lost"
	case Timeout:
		return "timeout"
	case ProcessCrashed:
		return "process crashed"
	case NetworkError:
		return "network error"
	}
	return "unknown"
}

// Error implements error.
func (k Kind) Error() string { return "client: " + k.String() }

// An Error says why a request was not answered by the server.
type Error struct {
	Kind   Kind
	Server string // its name
	Method string // of the request; empty if it is about Connect

	// Sent tells that the server may have seen the request. If not, it can be
	// sent again without harm.
	Sent bool

	// Exit is how the process ended, and Stderr its last lines on standard error,
	// without secrets. They are nil if there was none.
	Exit   *stdio.ExitError
	Stderr []string

	Advice string // what to do about it
	Err    error  // the reason
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "client: %s: %s", e.Server, e.Kind.String())
	if e.Method != "" {
		fmt.Fprintf(&b, " in %s", e.Method)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Advice != "" {
		fmt.Fprintf(&b, "; %s", e.Advice)
	}
	return b.String()
}

// Unwrap makes the error its kind and its reason.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// A revisionError means that the server does not speak the revision of the Options.
type revisionError struct {
	asked protocol.Revision // unknown if any would have done
	known string
}

// Error implements error.
func (e *revisionError) Error() string {
	asked := e.asked
	if asked == protocol.Unknown {
		asked = protocol.Latest
	}
	return fmt.Sprintf("asked for revision %s, the server speaks %s", asked, e.known)
}

// Unspoken returns the revision that was asked for.
func (e *revisionError) Unspoken() protocol.Revision { return e.asked }
