package use

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/cli/control"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// unopened says why a server that a command uses could not be opened, with what can be done about
// it at a terminal. stray is what was told of text where messages belong, or nil.
func (u *Target) unopened(ctx context.Context, server *config.Server, err error, stray *string) error {
	unanswered, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err
	}
	f := term.FailureOf(err)
	if f.Status == term.ExitAuthorization {
		if denied := u.denied(ctx, server.Name, ""); denied != nil {
			return denied
		}
	}
	status, _ := errors.AsType[*protocol.StatusError](err)
	start, isStart := errors.AsType[*stdio.StartError](err)
	unspoken, isUnspoken := errors.AsType[interface {
		error
		Unspoken() protocol.Revision
	}](err)
	answered, isAnswered := errors.AsType[*dragoman.Error](err)
	switch {
	case isStart:
		f.Err, f.Hint = fmt.Errorf("%scannot start %q: %w", u.prefix(server), start.Command, start.Err), start.Advice
	case isUnspoken && unspoken.Unspoken() != protocol.Unknown:
		f.Err, f.Hint = unspoken, "--era "+unspoken.Unspoken().Era().String()+" speaks the newest revision that both know"
	case unanswered.Exit != nil:
		u.ended(server, unanswered.Exit, f)
	case u.supervised && isAnswered && answered.Code == protocol.CodeUnavailable:
		f.Err, f.Hint = errors.New(term.Plain(answered.Message)), "dragoman logs "+server.Name+" shows what it wrote; dragoman restart "+server.Name+" starts it now"
	case errors.Is(err, context.DeadlineExceeded) && server.Command != "":
		f.Hint = "allow more time by --connect-timeout, or see whether it is an MCP server: dragoman probe -- " + server.Command + " …"
		if stray != nil {
			text, _, _ := strings.Cut(*stray, "; ")
			f.Hint = text + ": have it log to standard error; or allow more time by --connect-timeout"
		}
	case errors.Is(err, context.DeadlineExceeded):
		f.Hint = "allow more time by --connect-timeout, or see what is there: dragoman probe " + u.shownTarget(server)
	case server.Command != "" && unanswered.Kind == client.ConnectionFailed:
		f.Hint = "see what it does: dragoman probe -- " + server.Command + " …"
	case status != nil && status.Status == http.StatusUnauthorized:
		f.Hint = "send what it accepts: -H 'Authorization: Bearer TOKEN', or --server-token-file; if it has a sign-in: dragoman login " + u.SignInTarget(server)
	case status != nil && status.Status == http.StatusForbidden && strings.Contains(strings.Join(status.Challenges, ","), httpframe.InsufficientScope):
		f.Hint = "ask its owner for a token that has the scope; if it has a sign-in: dragoman login " + u.SignInTarget(server)
	case status != nil && status.Status == http.StatusNotImplemented:
		f.Hint = unanswered.Advice + "; to see what is there: dragoman probe " + u.shownTarget(server)
	}
	return f
}

// ended says how a process ended that had not answered.
func (u *Target) ended(server *config.Server, exit *stdio.ExitError, f *term.Failure) {
	again := "run it yourself to see what it does: " + commandLine(server)
	switch {
	case exit.Status == 0:
		text := fmt.Sprintf("%sserver %q exited with status 0 before it answered", u.prefix(server), exit.Command)
		if exit.Stderr != "" {
			text += ": stderr: " + exit.Stderr
		}
		f.Err, f.Hint = errors.New(text), "an MCP server runs until its standard input ends; "+again
	case exit.Stderr == "":
		f.Hint = "it wrote nothing to standard error; " + again
	}
	f.Hint += upstream.PassHint(exit, true)
}

// prefix is the name of a server before an error that shows its command, which says enough if the
// user has typed it.
func (u *Target) prefix(server *config.Server) string {
	if u.File == "" {
		return ""
	}
	return server.Name + ": "
}

// commandLine returns the command of a server without secrets.
func commandLine(server *config.Server) string {
	return redact.Text(strings.Join(append([]string{server.Command}, server.Args...), " "))
}

// shownName is what a server is called in errors. One at an address of this machine is called
// what the user wrote, and not what we call it.
func shownName(server *config.Server) string {
	u, err := url.Parse(server.URL)
	if server.URL == "" || err != nil || server.Name != target.NameOfURL(server.URL) || u.Hostname() == "" {
		return server.Name
	}
	return u.Hostname()
}

// denied returns the failure of a command to which the rules of a running gateway show nothing of a
// server, or none of its tools, prompts or resources; nil if that is not the reason. server is the name
// of the session, what a list or "".
func (u *Target) denied(ctx context.Context, server, what string) *term.Failure {
	status := u.ruled(ctx)
	if status == nil {
		return nil
	}
	var hidden []string // servers that have something which the rules do not show
	for i := range status.Servers {
		s := &status.Servers[i]
		count := map[string]int{"": 1, "tools": s.Tools, "prompts": s.Prompts, "resources": s.Resources}[what]
		if (u.gateway != "" || s.Name == server) && (count > 0 || slices.Contains(status.Owner.Denied, s.Name)) {
			hidden = append(hidden, s.Name)
		}
	}
	if len(hidden) == 0 {
		return nil
	}
	reason := "the rules do not allow " + status.Owner.Principal + " to use " + strings.Join(hidden, ", ")
	if what != "" {
		reason = "the rules allow " + status.Owner.Principal + " none of the " + what + " of " + strings.Join(hidden, ", ")
	}
	return &term.Failure{Status: term.ExitAuthorization, Err: errors.New(reason), Hint: "see why: " + explain(status, hidden[0], what)}
}

// hidden adds to the error for an unknown name that the rules of a running gateway may hide it.
func (s *Session) hidden(ctx context.Context, what string, err error) error {
	failure, ok := errors.AsType[*term.Failure](err)
	if !ok {
		return err
	}
	status := s.Use.ruled(ctx)
	if status == nil {
		return err
	}
	server := s.server.Name
	if s.Use.gateway != "" {
		server = "SERVER"
	}
	hint := "rules may hide it from " + status.Owner.Principal + "; see: " + explain(status, server, what)
	failure.Hint = strings.TrimPrefix(failure.Hint+"\n"+hint, "\n")
	return failure
}

// ruled returns the status of the running gateway that has the server, if there is one and it has rules.
func (u *Target) ruled(ctx context.Context) *gateway.Status {
	var status gateway.Status
	if u.at == "" || control.Call(ctx, u.at, nil, http.MethodGet, "/status", &status) != nil || status.Owner == nil {
		return nil
	}
	return &status
}

// explain returns the command that explains what the rules of a running gateway say of a server.
func explain(status *gateway.Status, server, what string) string {
	command := "dragoman policy explain --as " + status.Owner.Principal
	for _, file := range status.Files {
		command += " -f " + file
	}
	switch what {
	case "", "tools":
		return command + " " + server + "/TOOL"
	case "prompts":
		return command + " " + server + " " + protocol.MethodGetPrompt + " PROMPT"
	}
	return command + " " + server + " " + protocol.MethodReadResource + " URI"
}

// nothing says why a list is empty: the servers of a gateway may not be there yet.
func (u *Target) nothing(ctx context.Context, s *Session, what string) string {
	var status gateway.Status
	if u.gateway == "" || control.Call(ctx, u.gateway, nil, http.MethodGet, "/status", &status) != nil {
		return s.Name() + " has no " + what
	}
	var starting, down []string
	for i := range status.Servers {
		switch one := &status.Servers[i]; one.State {
		case upstream.Starting:
			starting = append(starting, one.Name)
		case upstream.Ready, upstream.Degraded, upstream.Idle:
		default:
			down = append(down, one.Name)
		}
	}
	switch {
	case len(starting) > 0:
		return "no " + what + " yet: " + areNow(starting, "starting")
	case len(down) > 0:
		return "no " + what + ": " + areNow(down, "down") + "; dragoman status says why"
	}
	return "the servers of the gateway have no " + what
}

// areNow says how some are.
func areNow(names []string, how string) string {
	verb := " are "
	if len(names) == 1 {
		verb = " is "
	}
	return strings.Join(names, ", ") + verb + how
}
