package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/credential"
	"github.com/dragoman-mcp/dragoman/internal/target/diagnose"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// connectionOf returns the certificates and the proxy with which a server is reached.
func connectionOf(c *config.Server, log *slog.Logger) (*tls.Config, func(*http.Request) (*url.URL, error), error) {
	secured, err := credential.TLS(c.TLS.CA, c.TLS.Cert, c.TLS.Key, log)
	if err != nil {
		return nil, nil, err
	}
	proxy, err := credential.Proxy(c.Proxy)
	return secured, proxy, err
}

// newCredential returns what has the credentials that are configured, or nil. vet judges the
// command that prints them; it may be nil.
func newCredential(c *config.Server, vet func(*exec.Cmd) error, log *slog.Logger) (*credential.Source, error) {
	if !hasCredential(c) {
		return nil, nil
	}
	return credential.New(&credential.Config{Server: c.URL, TokenFile: c.Auth.TokenFile, Command: c.Auth.Command, Vet: vet, Logger: log})
}

// hasCredential reports whether a token comes from a file or a command.
func hasCredential(c *config.Server) bool { return c.Auth.TokenFile != "" || len(c.Auth.Command) > 0 }

// sendsAuthorization reports whether an Authorization header is configured, and
// passesAuthorization whether one of the caller is passed on.
func sendsAuthorization(c *config.Server) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(c.Headers)), isAuthorization)
}

func passesAuthorization(c *config.Server) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(c.PassHeaders)), isAuthorization)
}

func isAuthorization(header string) bool { return strings.EqualFold(header, "Authorization") }

// An advisedError is an error with a text that says what is wrong and what to do. It unwraps to the
// error that it explains.
type advisedError struct {
	text string
	err  error
}

// Error implements error.
func (e *advisedError) Error() string { return e.text }

// Unwrap returns the error that is explained.
func (e *advisedError) Unwrap() error { return e.err }

// explain returns the error of a request, or of an attempt to reach the server, with what to do
// about it. An error that is not about the connection is returned as it is.
func (u *Upstream) explain(ctx context.Context, err error) error {
	if _, done := errors.AsType[*advisedError](err); done || err == nil {
		return err
	}
	if errors.Is(err, dragoman.ErrClosed) {
		return u.hideCode(ctx, err)
	}
	p := u.passedOf(dragoman.CallerOf(ctx))
	if e, ok := errors.AsType[*oauth.SignInError](err); ok {
		return u.signInAdvised(ctx, e)
	}
	_, failed := errors.AsType[*httpclient.ConnError](err)
	e, refused := errors.AsType[*protocol.StatusError](err)
	if !failed && !refused {
		return err
	}
	reason, advice, _ := diagnose.Explain(err)
	switch {
	case refused && (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden):
		var what string
		what, advice = u.denied(p, e)
		reason = fmt.Sprintf("the server %s (%s)", what, strings.TrimPrefix(e.Error(), "the server answers "))
		refusal := *e
		refusal.RPC = nil // it would be told in place of the text
		err = &refusal
	case refused && e.Status/100 == 3: // where it leads may begin with the URL of the server
		return &advisedError{u.redactSecrets(p, reason), err}
	}
	text := u.redact(p, reason)
	if advice != "" {
		text += "; " + advice
	}
	return &advisedError{text, err}
}

// denied returns what the server refuses, and what to do.
func (u *Upstream) denied(p *passed, e *protocol.StatusError) (what, advice string) {
	c := u.conf.Load()
	what, advice = u.credentialOf(p)
	switch {
	case e.Status == http.StatusForbidden:
		advice = "ask its owner for access"
		if u.sourceOf(p) != nil {
			advice += ", or sign in as somebody who has it: " + u.signInCommand()
		} else if what != "" {
			advice += ", or use another one"
		}
		if what != "" {
			what = " with " + what
		}
		return "does not allow this" + what, advice
	case what != "":
		return "refuses " + what, advice
	case passesAuthorization(c):
		return "requires an Authorization header, and the caller has sent none", "send one that it accepts"
	case !wantsBearer(e.Challenges):
		scheme, _, _ := strings.Cut(e.Challenges[0], " ")
		return "requires an Authorization header of the scheme " + scheme, "configure one: it has no sign-in"
	case c.Auth.SignIn == eachCaller:
		return "requires a sign-in of each caller", "give the caller a token of its own, so that it can sign in"
	case u.sourceOf(p) != nil:
		_, advice, _ = diagnose.Subject{Login: u.signInCommand()}.Explain(e)
		return "requires authentication, and advertises no authorization server", advice
	}
	return "requires authentication, and signing in is off", "configure an Authorization header or a token, or turn signing in on"
}

// credentialOf names the credential that is sent to the server, and returns what to do if that is refused.
func (u *Upstream) credentialOf(p *passed) (what, advice string) {
	c := u.conf.Load()
	switch {
	case c.Auth.TokenFile != "":
		return "the token in " + c.Auth.TokenFile, "put one there that it accepts; the file is read again automatically"
	case len(c.Auth.Command) > 0:
		return "what the command for tokens prints", "run it by hand, and see whether it prints what this server accepts"
	case p != nil && slices.ContainsFunc(slices.Collect(maps.Keys(p.values)), isAuthorization):
		return "the Authorization header of the caller", "send one that it accepts"
	case sendsAuthorization(c):
		return "the Authorization header that is configured", "correct it: it may have expired, or be for another server"
	case u.sourceOf(p) != nil && u.isSignedIn(p):
		return "the sign-in", "sign out and in again, as somebody who may use it"
	}
	return "", ""
}

// isSignedIn reports whether there is a sign-in for a request.
func (u *Upstream) isSignedIn(p *passed) bool {
	st, err := u.sourceOf(p).Status()
	return err == nil && st.SignedIn
}

// wantsBearer reports whether a server lets in who has a bearer token, as far as it says.
func wantsBearer(challenges []string) bool {
	return len(challenges) == 0 || slices.ContainsFunc(challenges, func(ch string) bool {
		return strings.Contains(strings.ToLower(ch), "bearer")
	})
}
