package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/redact"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/spf13/cobra"
)

// The exit statuses, which docs/commands.md lists.
const (
	exitOther          = 1
	exitUsage          = 2
	exitAuthorization  = 3
	exitUnreachable    = 4
	exitError          = 5 // of a tool, or a JSON-RPC error
	exitFindings       = 6
	exitBelowThreshold = 7
	exitInterrupted    = 130
)

// codes are the statuses in a word.
var codes = map[int]string{
	exitOther: "failed", exitUsage: "usage", exitAuthorization: "authorization", exitUnreachable: "unreachable", exitError: "error",
	exitFindings: "findings", exitBelowThreshold: "below-threshold", exitInterrupted: "interrupted",
}

// A failure is why a command ends, with the status that it ends with.
type failure struct {
	status int
	code   string // that in a word; empty if it is what the status means with us
	hint   string // what to do; may be empty
	err    error
}

// Error implements error.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap returns the reason.
func (f *failure) Unwrap() error { return f.err }

// usage returns an error about how the command was called.
func usage(format string, args ...any) error {
	return &failure{status: exitUsage, err: fmt.Errorf(format, args...)}
}

// packageName finds what errors of the library begin with, which says nothing to people.
var packageName = regexp.MustCompile(`\b(?:client|dragoman|era|oauth|sse|stdio|streamable|ws): (?:the request failed: )?`)

// failureOf says how a command ends that has failed.
func failureOf(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return &failure{status: f.status, code: f.code, hint: f.hint, err: err} // with what was added on the way
	}
	f := &failure{status: exitOther, err: err}
	unanswered, isUnanswered := errors.AsType[*client.Error](err)
	if isUnanswered {
		f.status, f.hint = exitUnreachable, unanswered.Advice
		f.err = errors.New(packageName.ReplaceAllString(strings.TrimSuffix(err.Error(), "; "+unanswered.Advice), ""))
	}
	status, hasStatus := errors.AsType[*protocol.StatusError](err)
	_, signIn := errors.AsType[*oauth.SignInError](err)
	answered, isAnswered := errors.AsType[*dragoman.Error](err)
	_, late := errors.AsType[*protocol.LateError](err)
	switch {
	case errors.Is(err, context.Canceled):
		f.status, f.hint = exitInterrupted, ""
	case signIn, hasStatus && (status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden),
		isAnswered && (answered.Code == protocol.CodeSignIn || answered.Code == protocol.CodeDenied):
		f.status = exitAuthorization
	case isUnanswered && unanswered.Kind == client.Timeout && unanswered.Method != "":
		f.hint = "allow more time by --timeout, or have the server report progress"
	case isUnanswered, late, errors.Is(err, target.ErrUnreached), errors.Is(err, context.DeadlineExceeded):
		f.status = exitUnreachable
	case isAnswered:
		f.status = exitError
	}
	return f
}

// report tells why a command has failed: to people, or as one JSON object.
func (f *failure) report(w io.Writer, asJSON bool) {
	if !asJSON {
		fmt.Fprintf(w, "dragoman: %s\n", f.text())
		return
	}
	type told struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Hint    string `json:"hint,omitempty"`
	}
	_ = json.NewEncoder(w).Encode(map[string]told{"error": {cmp.Or(f.code, codes[f.status]), redact.Printable(f.Error(), "\n"), f.hint}}) // there is nowhere else to say it
}

// text is what people are told, with what to do.
func (f *failure) text() string {
	text := redact.Printable(f.Error(), "\n")
	if f.hint != "" {
		text += "\n" + redact.Printable(f.hint, "\n")
	}
	return text
}

// markUsage has what cobra finds wrong with a command line end with the status of that.
func markUsage(c *cobra.Command) {
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usage("%w", explainFlag(c, err)) })
	if check := c.Args; check != nil {
		c.Args = argumentsChecked(check)
	}
	for _, sub := range c.Commands() {
		markUsage(sub)
	}
}
