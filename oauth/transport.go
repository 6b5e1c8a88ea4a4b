package oauth

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// maxChallenges is how many challenges one request answers: a token that is not good
	// any more, one that lacks a scope, and once more what has changed meanwhile.
	maxChallenges = 3

	// maxRefusal is how much of a refusal is read, so that its connection can be used
	// again.
	maxRefusal = 64 << 10

	// probeTimeout bounds the question whether a server wants a sign-in.
	probeTimeout = 10 * time.Second
)

// Transport returns a round tripper that sends the token with every request to the
// server, and answers its challenges. The requests are made by base, or by
// [http.DefaultTransport] if that is nil. A request whose body cannot be had again gets the
// server's refusal as it is.
func (s *Source) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{source: s, base: base}
}

type transport struct {
	source *Source
	base   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !t.source.owns(req.URL) {
		return t.base.RoundTrip(req) // a token is for nobody else
	}
	token, err := t.source.token(req.Context())
	if err != nil {
		closeBody(req)
		return nil, notSent{err}
	}
	resp, err := t.send(req, req.Body, token)
	for range maxChallenges {
		if err != nil || !isChallenge(resp) || req.Body != nil && req.Body != http.NoBody && req.GetBody == nil {
			t.source.took(token, resp)
			return resp, err
		}
		next, failed := t.source.answer(req.Context(), token, oidc.ParseChallenge(resp.Header))
		if failed == nil && next == "" {
			return resp, nil
		}
		discard(resp)
		if failed != nil {
			return nil, notSent{refusal(resp, failed)} // it was refused
		}
		body := req.Body
		if req.GetBody != nil {
			if body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
		token = next
		resp, err = t.send(req, body, token)
	}
	return resp, err
}

// send sends a request with a token.
func (t *transport) send(req *http.Request, body io.ReadCloser, token string) (*http.Response, error) {
	clone := *req
	clone.Body = body
	if token != "" {
		clone.Header = req.Header.Clone()
		clone.Header.Set("Authorization", "Bearer "+token)
	}
	return t.base.RoundTrip(&clone)
}

// took notes that the server has taken a token, if its response says so.
func (s *Source) took(token string, resp *http.Response) {
	if token == "" || resp == nil || resp.StatusCode >= http.StatusBadRequest {
		return
	}
	if last := s.accepted.Load(); last == nil || *last != token {
		s.accepted.Store(&token)
	}
}

// owns reports whether a URL is on the server's origin.
func (s *Source) owns(u *url.URL) bool {
	other, err := normal(u.Scheme + "://" + u.Host)
	return err == nil && other.Scheme == s.server.Scheme && other.Host == s.server.Host
}

// isChallenge reports whether a response asks for a token, or for a better one. A server
// that names other ways to be let in, and not this, wants something else.
func isChallenge(resp *http.Response) bool {
	ch := oidc.ParseChallenge(resp.Header)
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		return ch != nil || len(resp.Header.Values("WWW-Authenticate")) == 0
	case http.StatusForbidden:
		return ch != nil && ch.Error == insufficientScope
	}
	return false
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // as a RoundTripper must
	}
}

// refusal returns why a challenge is not answered. If that is because nobody can tell how to, the
// refusal itself is what the user has to know of.
func refusal(resp *http.Response, failed error) error {
	e, ok := errors.AsType[undiscovered](failed)
	if !ok || errors.Is(failed, context.Canceled) {
		return failed
	}
	text := strings.TrimPrefix(e.Error(), "oauth: ")
	switch ch := oidc.ParseChallenge(resp.Header); {
	case ch == nil:
	case ch.ErrorDescription != "":
		text = ch.ErrorDescription + "; " + text
	case ch.Error == insufficientScope:
		text = "the scope " + ch.Scope + " is needed; " + text
	}
	return &protocol.StatusError{Status: resp.StatusCode, Text: text, Challenges: resp.Header.Values("WWW-Authenticate")}
}

func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, maxRefusal) // the connection is used again, or not
	_ = resp.Body.Close()
}

// challenge returns what the server asks of somebody who comes without a token, or nil.
func (s *Source) challenge(ctx context.Context) *oidc.Challenge {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.server.String(), strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		return nil
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	proxy := s.conf.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	base := &http.Transport{Proxy: proxy, TLSClientConfig: s.conf.TLS.Clone(), DisableKeepAlives: true}
	resp, err := base.RoundTrip(req)
	if err != nil {
		return nil // who issues tokens may be known without it
	}
	defer discard(resp)
	return oidc.ParseChallenge(resp.Header)
}
