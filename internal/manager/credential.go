package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/credential"
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

// newCredential returns what has the credentials that are configured, or nil.
func (u *Upstream) newCredential() (*credential.Source, error) {
	c := u.conf.Load()
	if !hasCredential(c) {
		return nil, nil
	}
	return credential.New(&credential.Config{Server: c.URL, TokenFile: c.Auth.TokenFile, Command: c.Auth.Command, Logger: u.log})
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

// A deniedError is a refusal that is about who asks, in words that say what was refused and
// what to do.
type deniedError struct {
	text   string
	status protocol.StatusError // without the server's JSON-RPC error, which would be told in place of the text
}

// Error implements error.
func (e *deniedError) Error() string { return e.text }

// Unwrap returns the refusal.
func (e *deniedError) Unwrap() error { return &e.status }

// explain returns an error in words that say what to do, if the server refuses who asks and
// no sign-in can change that. Any other error is returned as it is.
func (u *Upstream) explain(ctx context.Context, err error) error {
	err = credential.ExplainAlert(u.hideCode(ctx, err), u.conf.Load().TLS.Cert != "")
	e, ok := errors.AsType[*protocol.StatusError](err)
	if !ok || e.Status != http.StatusUnauthorized && e.Status != http.StatusForbidden || errors.Is(err, dragoman.ErrClosed) {
		return err
	}
	if _, done := errors.AsType[*deniedError](err); done {
		return err
	}
	p := u.passedOf(dragoman.CallerOf(ctx))
	what, advice := u.denied(p, e)
	said := fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status))
	if e.RPC != nil {
		said += ": " + e.RPC.Message
	} else if e.Text != "" {
		said += ": " + e.Text
	}
	d := &deniedError{status: *e, text: u.redact(p, fmt.Sprintf("the server %s (%s); %s", what, said, advice))}
	d.status.RPC = nil
	return d
}

// denied says what the server does not want, and what to do.
func (u *Upstream) denied(p *passed, e *protocol.StatusError) (what, advice string) {
	c := u.conf.Load()
	what, advice = u.credentialOf(p)
	switch {
	case e.Status == http.StatusForbidden:
		if what == "" {
			return "does not allow this", "ask its owner for access"
		}
		return "does not allow this with " + what, "ask its owner for access, or use another one"
	case what != "":
		return "refuses " + what, advice
	case passesAuthorization(c):
		return "wants an Authorization header, and the caller has sent none", "send one that it accepts"
	case !wantsBearer(e.Challenges):
		scheme, _, _ := strings.Cut(e.Challenges[0], " ")
		return "wants an Authorization header of the kind " + scheme, "configure one: it is not a server to sign in to"
	case c.Auth.SignIn == eachCaller:
		return "wants a sign-in of each caller", "have the caller say who it is: give it a token of its own"
	}
	return "wants to know who asks, and signing in is off", "configure an Authorization header or a token, or turn signing in on"
}

// credentialOf names what is sent to the server, and says what to do if that is refused.
func (u *Upstream) credentialOf(p *passed) (what, advice string) {
	c := u.conf.Load()
	switch {
	case c.Auth.TokenFile != "":
		return "the token in " + c.Auth.TokenFile, "put one there that it accepts; the file is read again by itself"
	case len(c.Auth.Command) > 0:
		return "what the command for tokens prints", "run it by hand, and see whether it prints what this server accepts"
	case p != nil && slices.ContainsFunc(slices.Collect(maps.Keys(p.values)), isAuthorization):
		return "the Authorization header of the caller", "send one that it accepts"
	case sendsAuthorization(c):
		return "the Authorization header that is configured", "correct it: it may have ended, or be for another server"
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
