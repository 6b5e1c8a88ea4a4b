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
	"github.com/dragoman-mcp/dragoman/internal/target/diagnose"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// unopened returns why a server that a command uses could not be opened, with what to do about it at a
// terminal. stray is the log message about text on standard output, or nil.
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
	subject := diagnose.Subject{Login: "dragoman login " + u.SignInTarget(server), Probe: "dragoman probe " + u.shownTarget(server), Timeout: "--connect-timeout", CommandLine: true}
	if server.Command != "" {
		subject.Command, subject.Probe = commandLine(server), "dragoman probe -- "+server.Command+" …"
	}
	reason, advice, known := subject.Explain(err)
	_, isStart := errors.AsType[*stdio.StartError](err)
	answered, isAnswered := errors.AsType[*dragoman.Error](err)
	switch {
	case isStart:
		f.Err, f.Hint = errors.New(u.prefix(server)+reason), advice
	case unanswered.Exit != nil:
		if f.Hint = advice; unanswered.Exit.Status == 0 {
			f.Err = fmt.Errorf("%sserver %q exited with status 0 before it answered", u.prefix(server), unanswered.Exit.Command)
			if unanswered.Exit.Stderr != "" {
				f.Err = fmt.Errorf("%w: stderr: %s", f.Err, unanswered.Exit.Stderr)
			}
		}
	case u.supervised && isAnswered && answered.Code == protocol.CodeUnavailable:
		f.Err, f.Hint = errors.New(term.Plain(answered.Message)), "dragoman logs "+server.Name+" shows what it wrote; dragoman restart "+server.Name+" starts it now"
	case errors.Is(err, context.DeadlineExceeded) && stray != nil:
		text, _, _ := strings.Cut(*stray, "; ")
		f.Hint = text + ": have it log to standard error; or allow more time by --connect-timeout"
	case known || server.Command != "" && unanswered.Kind == client.ConnectionFailed:
		f.Hint = advice
	}
	return f
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
