// Package diagnose explains failures to the user: what is wrong with a server, and what to do about
// it. Errors say what has happened; the advice for all of them is here, so that the library, the
// status of a gateway, commands and inspections give the same.
package diagnose

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// A Subject is what is known of the server that has failed and of its user. Advice names what is
// set. The zero value gives advice that is always right.
type Subject struct {
	Command string // that starts the server, without secrets
	Login   string // the command that signs in to the server
	Probe   string // the command that inspects the server
	Timeout string // the flag that allows more time

	// CommandLine says that the user is at a command line: flags help, and what our environment
	// has is no secret.
	CommandLine bool
}

// Explain returns why something has failed, and what to do about it. Of an error that is not known
// the reason is its text. The advice may be empty.
func Explain(err error) (reason, advice string, known bool) { return Subject{}.Explain(err) }

// Explain is the function Explain with advice for a subject.
func (s Subject) Explain(err error) (reason, advice string, known bool) {
	if e, ok := errors.AsType[*stdio.StartError](err); ok {
		return fmt.Sprintf("cannot start %q: %v", e.Command, e.Err), startAdvice(e), true
	}
	if e, ok := errors.AsType[*stdio.ExitError](err); ok {
		return e.Error(), s.exitAdvice(e), true
	}
	if e, ok := errors.AsType[*httpclient.ConnError](err); ok {
		return e.Reason, e.Advice, true
	}
	if e, ok := errors.AsType[*protocol.StatusError](err); ok {
		return e.Error(), s.statusAdvice(e), true
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" && e.Timeout() && e.Addr != nil {
		return fmt.Sprintf("no connection to %v in time", e.Addr), "check the address, and whether a firewall or a VPN is in the way", true
	}
	if e, ok := errors.AsType[unspoken](err); ok {
		advice = "ask for a revision that it speaks"
		if asked := e.Unspoken(); s.CommandLine && asked != protocol.Unknown {
			advice = "--era " + asked.Era().String() + " speaks the newest revision that both know"
		}
		return e.Error(), advice, true
	}
	switch {
	case errors.Is(err, dragoman.ErrOverloaded):
		return err.Error(), "send fewer requests at a time", true
	case errors.Is(err, dragoman.ErrTooLarge):
		return err.Error(), "allow larger messages" + s.flag("--max-message") + ", or ask for less", true
	case errors.Is(err, context.DeadlineExceeded):
		advice = "allow more time" + s.flag(s.Timeout)
		if s.Probe != "" {
			return err.Error(), advice + ", or see what the server does: " + s.Probe, true
		}
		return err.Error(), advice + ", or have the server report progress", true
	}
	if s.Probe != "" {
		advice = "see what it does: " + s.Probe
	}
	return err.Error(), advice, false
}

// unspoken is an error about a revision that the server does not speak.
type unspoken interface {
	error
	Unspoken() protocol.Revision
}

// flag returns the end of a phrase that names a flag, if there is a command line.
func (s Subject) flag(name string) string {
	if !s.CommandLine || name == "" {
		return ""
	}
	return " by " + name
}

// startAdvice returns what to do about a command that cannot be started.
func startAdvice(e *stdio.StartError) string {
	missing := errors.Is(e.Err, exec.ErrNotFound) || errors.Is(e.Err, fs.ErrNotExist)
	switch {
	case missing && strings.Contains(e.Command, ":") && !strings.ContainsAny(e.Command, `\`):
		return "if it is a URL, begin it with http:// or https://"
	case e.Advice == "":
		return "check the command, its directory and PATH"
	}
	return e.Advice
}

// exitAdvice returns what to do about a process that ended.
func (s Subject) exitAdvice(e *stdio.ExitError) string {
	advice := "run its command yourself to see what it does"
	if s.Command != "" {
		advice = "run it yourself to see what it does: " + s.Command
	}
	switch {
	case e.Status == 0:
		advice = "an MCP server runs until its standard input ends; " + advice
	case e.Stderr == "":
		advice = "it wrote nothing to standard error; " + advice
	}
	if s.CommandLine {
		advice += s.Withheld(e)
	}
	return advice
}

// Withheld returns which environment variables that were not passed on a process that ended may have needed, and how to pass
// them on, to be appended to a reason. It is empty for other errors. It is for the owner of the
// environment only.
func (s Subject) Withheld(err error) string {
	e, ok := errors.AsType[*stdio.ExitError](err)
	if !ok || len(e.Withheld) == 0 {
		return ""
	}
	all := strings.Join(e.Withheld, ", ")
	if s.CommandLine {
		return "; not passed on to it: " + all + "; to pass on: -e " + strings.Join(e.Withheld, " -e ")
	}
	return "; not passed on to it: " + all + "; to pass on: inherit: [" + all + "]"
}

// statusAdvice returns what to do about an HTTP status. It is empty if the error text includes it.
func (s Subject) statusAdvice(e *protocol.StatusError) string {
	scope := slices.ContainsFunc(e.Challenges, func(c string) bool { return strings.Contains(c, httpframe.InsufficientScope) })
	switch {
	case e.Status/100 == 3:
		return ""
	case e.Status == http.StatusUnauthorized && s.Login != "":
		return "send what it accepts: -H 'Authorization: Bearer TOKEN' (headers in a configuration), or --server-token-file; if it has a sign-in: " + s.Login
	case e.Status == http.StatusUnauthorized:
		return "the server requires authentication: sign in, or send an Authorization header that it accepts"
	case e.Status == http.StatusForbidden && scope && s.Login != "":
		return "ask its owner for a token that has the scope; if it has a sign-in: " + s.Login
	case e.Status == http.StatusForbidden:
		return "the server does not allow this: ask its owner for access, or send another Authorization header"
	case e.Status == http.StatusProxyAuthRequired:
		return "the proxy requires authentication: put a user and a password into its URL"
	case e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed:
		return "check the path of the URL: that of MCP is often /mcp or /sse"
	case e.RetryAfter > 0:
		return "" // the text says when to try again
	case e.Status == http.StatusNotImplemented && s.Probe != "":
		return "it does not know such requests: it may be no MCP server, or the path of the URL is another one; to see what is there: " + s.Probe
	case e.Status == http.StatusNotImplemented:
		return "it does not know such requests: it may be no MCP server, or the path of the URL is another one"
	case e.Status == http.StatusTooManyRequests || e.Status >= http.StatusInternalServerError:
		return "the server failed: try again later"
	case e.Text != "":
		return ""
	}
	return "check the URL and the headers"
}
