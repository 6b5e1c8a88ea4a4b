package term

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/internal/target/diagnose"
	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// The exit statuses, which docs/commands.md lists.
const (
	ExitOther          = 1
	ExitUsage          = 2
	ExitAuthorization  = 3
	ExitUnreachable    = 4
	ExitError          = 5 // of a tool, or a JSON-RPC error
	ExitFindings       = 6
	ExitBelowThreshold = 7
	ExitInterrupted    = 130
)

// Codes are the statuses in a word.
var Codes = map[int]string{
	ExitOther: "failed", ExitUsage: "usage", ExitAuthorization: "authorization", ExitUnreachable: "unreachable", ExitError: "error",
	ExitFindings: "findings", ExitBelowThreshold: "below-threshold", ExitInterrupted: "interrupted",
}

// A Failure is why a command ends, with the status that it ends with.
type Failure struct {
	Status int
	Code   string // that in a word; empty if it is what the status means with us
	Hint   string // what to do; may be empty
	Err    error
}

// Error implements error.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the reason.
func (f *Failure) Unwrap() error { return f.Err }

// Usage returns an error about how the command was called.
func Usage(format string, args ...any) *Failure {
	return &Failure{Status: ExitUsage, Err: fmt.Errorf(format, args...)}
}

// packageName finds what errors of the library begin with, which says nothing to people.
var packageName = lazy.Regexp(`\b(?:client|dragoman|era|oauth|sse|stdio|streamable|ws): (?:the request failed: )?`)

// Plain returns the text of an error as people read it.
func Plain(text string) string { return packageName().ReplaceAllString(text, "") }

// A plainError is an error as people read it.
type plainError struct{ error }

// PlainError returns an error with the text that people read.
func PlainError(err error) error { return plainError{err} }

func (e plainError) Error() string { return Plain(reasonOf(e.error)) }

// Unwrap returns the error itself.
func (e plainError) Unwrap() error { return e.error }

// FailureOf says how a command ends that has failed.
func FailureOf(err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return &Failure{Status: f.Status, Code: f.Code, Hint: f.Hint, Err: plainError{err}} // with what was added on the way
	}
	f := &Failure{Status: ExitOther, Err: plainError{err}}
	unanswered, isUnanswered := errors.AsType[*client.Error](err)
	if isUnanswered {
		f.Status, f.Hint = ExitUnreachable, unanswered.Advice
		text := Plain(strings.TrimSuffix(err.Error(), "; "+unanswered.Advice))
		if unanswered.Exit != nil { // which is why
			text = strings.Replace(text, ": conversation closed: ", ": ", 1)
		}
		f.Err = errors.New(text)
	}
	status, hasStatus := errors.AsType[*protocol.StatusError](err)
	_, signIn := errors.AsType[*oauth.SignInError](err)
	answered, isAnswered := errors.AsType[*dragoman.Error](err)
	_, late := errors.AsType[*protocol.LateError](err)
	switch {
	case errors.Is(err, context.Canceled):
		f.Status, f.Hint = ExitInterrupted, ""
	case signIn, hasStatus && (status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden),
		isAnswered && (answered.Code == protocol.CodeSignIn || answered.Code == protocol.CodeDenied):
		f.Status = ExitAuthorization
	case isUnanswered && (unanswered.Kind == client.Timeout && unanswered.Method != "" || errors.Is(err, dragoman.ErrTooLarge) && !hasStatus):
		_, f.Hint, _ = diagnose.Subject{CommandLine: true, Timeout: "--timeout"}.Explain(err)
	case isUnanswered, late, errors.Is(err, target.ErrUnreached), errors.Is(err, context.DeadlineExceeded):
		f.Status = ExitUnreachable
	case isAnswered:
		f.Status = ExitError
	}
	return f
}

// report tells why a command has failed: to people, in lines of that width if it is known, or as one
// JSON object.
func (f *Failure) report(w io.Writer, width int, asJSON bool) {
	if !asJSON {
		text := "dragoman: " + redact.Printable(f.Error(), "\n")
		fmt.Fprintf(w, "%s\n", Wrap(text, "", width))
		if f.Hint != "" { // which may be a command to copy
			fmt.Fprintln(w, redact.Printable(f.Hint, "\n"))
		}
		return
	}
	type told struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Hint    string `json:"hint,omitempty"`
	}
	_ = json.NewEncoder(w).Encode(map[string]told{"error": {cmp.Or(f.Code, Codes[f.Status]), redact.Printable(f.Error(), "\n"), f.Hint}}) // there is nowhere else to say it
}

// text is what people are told, with what to do.
func (f *Failure) text() string {
	text := redact.Printable(f.Error(), "\n")
	if f.Hint != "" {
		text += "\n" + redact.Printable(f.Hint, "\n")
	}
	return text
}
