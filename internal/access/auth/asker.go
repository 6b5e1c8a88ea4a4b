package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
)

const (
	maxDocument = 1 << 20         // bytes of an answer of an issuer
	askTime     = 5 * time.Second // for one request to it
)

// An Asker makes requests to an issuer or identity provider. It follows no redirects, and has
// no cookies.
type Asker struct{ client *httpclient.Client }

// NewAsker returns an Asker for the URLs of an issuer, which the caller closes. HTTP may be
// nil.
func NewAsker(at string, given *http.Client) (*Asker, error) {
	client, err := httpclient.NewClient("policy", &httpclient.ClientOptions{URL: at, HTTP: given})
	if err != nil {
		return nil, err
	}
	client.HTTP.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.HTTP.Jar = nil
	client.Acquire()
	return &Asker{client}, nil
}

// Close releases the connections.
func (a *Asker) Close() { a.client.Release() }

// Ask makes a request, with a form if that is not nil. An error means that there is no answer,
// or none that says anything: a redirect, or that the issuer cannot answer now. It has nothing
// of what was sent, or came back. The status is set also if the text could not be read.
func (a *Asker) Ask(ctx context.Context, method, at string, form url.Values, header http.Header) (status int, text []byte, err error) {
	u, err := oidc.ParseURL(at)
	if err != nil {
		return 0, nil, fmt.Errorf("a URL of the issuer %w", err)
	}
	place := placeOf(u)
	ctx, cancel := context.WithTimeoutCause(ctx, askTime, fmt.Errorf("no answer within %v", askTime))
	defer cancel()
	var body []byte
	if form != nil {
		body = []byte(form.Encode())
	}
	resp, err := a.client.Do(ctx, method, u, body, func(h http.Header) {
		h.Set("Accept", "application/json")
		h.Set("User-Agent", "dragoman")
		if form != nil {
			h.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		for name, values := range header {
			h[name] = values
		}
	})
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %w", place, withCause(ctx, err))
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode/100 == 3:
		return 0, nil, fmt.Errorf("%s leads elsewhere, which is not followed", place)
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		return 0, nil, fmt.Errorf("%s answered %d", place, resp.StatusCode)
	}
	if text, err = httpclient.ReadAll(resp, maxDocument); err != nil {
		return resp.StatusCode, nil, fmt.Errorf("%s: %w", place, withCause(ctx, err))
	}
	return resp.StatusCode, text, nil
}

// placeOf returns a URL for an error, without its query.
func placeOf(u *url.URL) string { return u.Scheme + "://" + u.Host + u.EscapedPath() }

// get returns the object at a URL, or nil if there is nothing for us.
func (a *Asker) get(ctx context.Context, at string) (claimSet, error) {
	return a.object(ctx, http.MethodGet, at, nil, nil)
}

// post sends a form to a URL, with headers, and returns the object that is the answer, or
// nil if it is refused.
func (a *Asker) post(ctx context.Context, at string, form url.Values, header http.Header) (claimSet, error) {
	return a.object(ctx, http.MethodPost, at, form, header)
}

// object is Ask for an answer that is an object. It returns nil with any status but 200.
func (a *Asker) object(ctx context.Context, method, at string, form url.Values, header http.Header) (claimSet, error) {
	status, text, err := a.Ask(ctx, method, at, form, header)
	switch {
	case status != 0 && status != http.StatusOK:
		return nil, nil
	case err != nil:
		return nil, err
	}
	set, err := decodeObject(text)
	if err != nil {
		u, _ := oidc.ParseURL(at) // Ask could read it
		return nil, fmt.Errorf("%s: the answer cannot be read: %w", placeOf(u), err)
	}
	return set, nil
}

// withCause returns why a context has ended in place of an error that only says that.
func withCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// findKeys returns a function that fetches the keys of an issuer. If no URL is given, the
// issuer's metadata have it; they are read each time, since it may change.
func (a *Asker) findKeys(name, keysURL string) func(context.Context) (claimSet, error) {
	return func(ctx context.Context) (claimSet, error) {
		at, err := keysURL, error(nil)
		if at == "" {
			at, err = a.keysURL(ctx, name)
		}
		if err != nil {
			return nil, err
		}
		doc, err := a.get(ctx, at)
		if err == nil && doc == nil {
			err = errors.New("there are no keys at " + at)
		}
		return doc, err
	}
}

// keysURL asks an issuer where its keys are.
func (a *Asker) keysURL(ctx context.Context, name string) (string, error) {
	u, err := oidc.ParseURL(name)
	if err != nil {
		return "", fmt.Errorf("the issuer's URL %w", err)
	}
	for _, at := range oidc.MetadataPlaces(u) {
		doc, err := a.get(ctx, at)
		switch {
		case err != nil:
			return "", err
		case doc == nil:
			continue
		case doc["issuer"] != name:
			return "", fmt.Errorf("%s is about another issuer than %s", at, name)
		}
		keys, _ := doc["jwks_uri"].(string)
		to, err := oidc.ParseURL(keys)
		switch {
		case err != nil:
			return "", fmt.Errorf("%s: jwks_uri %w", at, err)
		case oidc.Loopback(to.Hostname()) && !oidc.Loopback(u.Hostname()):
			return "", fmt.Errorf("%s: jwks_uri is on this machine, but the issuer is not", at)
		}
		return keys, nil
	}
	return "", fmt.Errorf("%s has no metadata; configure the URL of its keys", name)
}
