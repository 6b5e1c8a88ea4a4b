package protocol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman"
)

// Outcomes say what became of a request that got an error of our own.
const (
	OutcomeNotSent   = "not_sent"
	OutcomeUnknown   = "unknown"
	OutcomeCancelled = "cancelled"
)

// A Fault is the error of a request that was lost on the way. It says what became
// of the request. One that is no [dragoman.ErrClosed] leaves the conversation open, as
// happens where each request has a connection of its own.
type Fault interface {
	error

	// Outcome is OutcomeNotSent or OutcomeUnknown.
	Outcome() string
}

// A LateError is that of a request which the server has not answered in time, in words that
// say how to allow more. It is the JSON-RPC error −31002.
type LateError struct{ Message string }

// Error implements error.
func (e *LateError) Error() string { return e.Message }

// NotSent reports whether an error says of its request that it was not carried out.
func NotSent(err error) bool {
	fault, ok := errors.AsType[Fault](err)
	return ok && fault.Outcome() == OutcomeNotSent
}

// MayResend reports whether a request that failed with err may be sent again on
// another conversation: its own was lost, and it was not carried out or does no harm
// twice.
func MayResend(method string, err error) bool {
	return errors.Is(err, dragoman.ErrClosed) && (Repeatable(method) || NotSent(err))
}

// Failure returns the error response for a request that a peer could not
// answer: the Go error of its Call, in the terms of JSON-RPC.
func Failure(req *dragoman.Message, err error) *dragoman.Message {
	var rpc *dragoman.Error
	var status *StatusError
	var late *LateError
	switch {
	case errors.As(err, &rpc):
		return req.Fail(rpc)
	case errors.As(err, &status) && !errors.Is(err, dragoman.ErrClosed):
		return req.Fail(status.failure(err.Error()))
	case errors.As(err, &late):
		return req.Fail(newOwnError(CodeTimeout, late.Message, OutcomeUnknown))
	case errors.Is(err, dragoman.ErrOverloaded):
		return req.Fail(newOwnError(CodeOverloaded, err.Error(), OutcomeNotSent))
	case errors.Is(err, dragoman.ErrTooLarge):
		return req.Fail(newOwnError(CodeTooLarge, err.Error(), OutcomeUnknown))
	case errors.Is(err, dragoman.ErrClosed) && !NotSent(err):
		return req.Fail(newOwnError(CodeLost, err.Error(), OutcomeUnknown))
	case errors.Is(err, dragoman.ErrCancelled), errors.Is(err, context.Canceled):
		return req.Fail(newOwnError(CodeInternal, "the request was cancelled on the way", OutcomeCancelled))
	case errors.Is(err, context.DeadlineExceeded):
		return req.Fail(newOwnError(CodeTimeout, "no answer in time", OutcomeUnknown))
	}
	if fault, ok := errors.AsType[Fault](err); ok {
		code := CodeLost
		if fault.Outcome() == OutcomeNotSent {
			code = CodeUnavailable
		}
		return req.Fail(newOwnError(code, err.Error(), fault.Outcome()))
	}
	return req.Fail(&dragoman.Error{Code: CodeInternal, Message: "Internal error: " + err.Error()})
}

// ResponseOf returns the answer to a request that a peer has been asked: what its
// Call returned, in the terms of JSON-RPC. It is nil if the other side has
// cancelled the request, which ctx says, and then wants none.
func ResponseOf(ctx context.Context, req, resp *dragoman.Message, err error) *dragoman.Message {
	switch {
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), dragoman.ErrCancelled):
		return nil
	case err != nil:
		return Failure(req, err)
	case resp == nil:
		return Failure(req, fmt.Errorf("no answer to %q", req.Method()))
	}
	return resp
}

// Unsupported is the error for a revision that is not served. It names those that are,
// so that a client can fall back.
func Unsupported(requested string, served []string) *dragoman.Error {
	data, _ := json.Marshal(struct { // strings always encode
		Supported []string `json:"supported"`
		Requested string   `json:"requested"`
	}{served, requested})
	return &dragoman.Error{
		Code:    CodeUnsupported,
		Message: fmt.Sprintf("protocol version %q is not served here; use one of data.supported", requested),
		Data:    data,
	}
}

// IDInUse is the error for a request whose id another one of its sender has.
func IDInUse(req *dragoman.Message) *dragoman.Error {
	return &dragoman.Error{
		Code:    CodeInvalidRequest,
		Message: "Invalid request: id " + req.ID().String() + " is in use by a request that has no answer yet",
	}
}

// Panicked is the error for a request on which the peer that serves it panicked.
func Panicked() *dragoman.Error {
	return &dragoman.Error{Code: CodeInternal, Message: "Internal error: the server failed on this request"}
}

// Overloaded is the error for what a limit keeps from being sent.
func Overloaded(message string) *dragoman.Error {
	return newOwnError(CodeOverloaded, message, OutcomeNotSent)
}

// Scopes of a limit: whose it is.
const (
	LimitCaller  = "caller"
	LimitSession = "session"
	LimitServer  = "server"
	LimitTool    = "tool"
	LimitGateway = "gateway"
)

// Limited is Overloaded for a limit that is somebody's: its scope is one of those above.
// retry is after which time the request may pass; zero if that is not known.
func Limited(scope, message string, retry time.Duration) *dragoman.Error {
	data, _ := json.Marshal(struct { // strings and numbers always encode
		Source  string `json:"source"`
		Outcome string `json:"outcome"`
		Limit   string `json:"limit"`
		RetryMS int64  `json:"retryMs,omitempty"`
	}{"gateway", OutcomeNotSent, scope, int64((retry + time.Millisecond - 1) / time.Millisecond)})
	return &dragoman.Error{Code: CodeOverloaded, Message: message, Data: data}
}

// A Refused is what an error says of a request that a limit of ours, or our end, kept
// from being sent.
type Refused struct {
	Limit string        // whose limit it is; empty if that is not said
	Retry time.Duration // after which the request may pass; zero if that is not said
}

// RefusedBy reads what an error says. It is false for an error of any other kind.
func RefusedBy(e *dragoman.Error) (r Refused, ok bool) {
	if e == nil || e.Code != CodeOverloaded && e.Code != CodeDraining {
		return r, false
	}
	var data struct {
		Outcome string `json:"outcome"`
		Limit   string `json:"limit"`
		RetryMS int64  `json:"retryMs"`
	}
	if json.Unmarshal(e.Data, &data) != nil || data.Outcome != OutcomeNotSent {
		return r, false
	}
	return Refused{Limit: data.Limit, Retry: time.Duration(max(0, min(data.RetryMS, maxRetry.Milliseconds()))) * time.Millisecond}, true
}

// maxRetry is the longest time that a Refused says.
const maxRetry = time.Hour

// Draining is the error for what comes while we are stopping.
func Draining() *dragoman.Error {
	return newOwnError(CodeDraining, "the server is stopping; try again later", OutcomeNotSent)
}

// Unavailable is the error for a request that could not be sent because the
// server is not there.
func Unavailable(reason error) *dragoman.Error {
	var rpc *dragoman.Error
	if errors.As(reason, &rpc) {
		return rpc
	}
	return newOwnError(CodeUnavailable, "the server is not available: "+reason.Error(), OutcomeNotSent)
}

// SignInNeeded is the error for a request that could not be sent because the server wants
// a sign-in. url is where to go for that, and code what to enter there; both may be empty.
func SignInNeeded(message, url, code string) *dragoman.Error {
	e := newOwnError(CodeSignIn, message, OutcomeNotSent)
	if url != "" {
		e.Data, _ = json.Marshal(struct { // strings always encode
			Source  string `json:"source"`
			Outcome string `json:"outcome"`
			URL     string `json:"url"`
			Code    string `json:"code,omitempty"`
		}{"gateway", OutcomeNotSent, url, code})
	}
	return e
}

// Denied is the error for a request of somebody who may not make it.
func Denied(message string) *dragoman.Error {
	return newOwnError(CodeDenied, message, OutcomeNotSent)
}

// ScopeNeeded is the error for a request that the caller may make once it has been granted
// more.
func ScopeNeeded(scopes []string) *dragoman.Error {
	list := strings.Join(scopes, " ")
	e := Denied("this needs a token with the scope " + list)
	e.Data, _ = json.Marshal(struct { // strings always encode
		Source  string `json:"source"`
		Outcome string `json:"outcome"`
		Scope   string `json:"scope"`
	}{"gateway", OutcomeNotSent, list})
	return e
}

// NeededScope returns the scopes that an error says a request needs, or "".
func NeededScope(e *dragoman.Error) string {
	var data struct {
		Scope string `json:"scope"`
	}
	if e.Code != CodeDenied || json.Unmarshal(e.Data, &data) != nil {
		return ""
	}
	return data.Scope
}

// IsGatewayError reports whether an error was made on the way, by us or by another gateway,
// and not by the server.
func IsGatewayError(e *dragoman.Error) bool { return e.Code <= CodeUnavailable && e.Code >= CodeDenied }

// newOwnError makes an error of ours, which says so.
func newOwnError(code int, message, outcome string) *dragoman.Error {
	data, _ := json.Marshal(struct {
		Source  string `json:"source"`
		Outcome string `json:"outcome"`
	}{"gateway", outcome})
	return &dragoman.Error{Code: code, Message: message, Data: data}
}
