package auth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
	"github.com/dragoman-mcp/dragoman/internal/util/syncs"
)

const (
	// refusedFor is how long a token is not asked about again that the issuer does not know,
	// and maxRefused of how many that is remembered.
	refusedFor = 10 * time.Second
	maxRefused = 16384

	// maxInquiries is how many tokens are asked about at the same time. More wait.
	maxInquiries = 64
)

// IntrospectionOptions says whom to ask about tokens (RFC 7662).
type IntrospectionOptions struct {
	ClaimOptions

	// Endpoint is where to ask: an https URL, or an http URL of this machine.
	Endpoint string

	// ClientID and ClientSecret are ours there. They are sent as HTTP Basic, or if Post is
	// set in the form. In their place, Bearer returns a token, each time that we ask.
	ClientID, ClientSecret string
	Post                   bool
	Bearer                 func(context.Context) (string, error)

	// Network is how the endpoint is reached.
	Network oidc.Network
}

// An Introspection asks the issuer about each token. Any number of goroutines may use it. It
// does not remember what is good, which is for the [Policy] to do.
type Introspection struct {
	opts   IntrospectionOptions
	reader *claimReader
	client *oidc.Client
	room   chan struct{}      // a place for each inquiry in progress
	group  syncs.Group        // of inquiries
	ctx    context.Context    // of inquiries; ends with Close
	cancel context.CancelFunc // ends them

	mu      sync.Mutex
	under   map[digest]*syncs.Flight[*identity] // the inquiries in progress
	refused map[digest]refusal
}

// A refusal is why a token is not good, and since when we know.
type refusal struct {
	err error
	at  time.Time
}

// NewIntrospection returns a verifier, which the caller closes.
func NewIntrospection(o *IntrospectionOptions) (*Introspection, error) {
	reader, err := o.reader("introspection")
	if err != nil {
		return nil, err
	}
	reader.noExpiry = true
	endpoint, err := oidc.ParseURL(o.Endpoint)
	switch {
	case err != nil:
		return nil, fmt.Errorf("auth: the introspection endpoint %w", err)
	case (o.ClientID == "") == (o.Bearer == nil):
		return nil, errors.New("auth: introspection needs a client id and its secret, or a token")
	}
	v := &Introspection{
		opts: *o, reader: reader, room: make(chan struct{}, maxInquiries),
		under: make(map[digest]*syncs.Flight[*identity]), refused: make(map[digest]refusal),
		client: oidc.New(&oidc.Options{Network: o.Network, Server: endpoint}),
	}
	v.ctx, v.cancel = context.WithCancel(context.Background())
	return v, nil
}

// Close ends the inquiries in progress. The verifier is not used after that.
func (v *Introspection) Close() {
	v.cancel()
	v.group.Wait()
	v.client.Close()
}

// verify implements Verifier.
func (v *Introspection) verify(ctx context.Context, token string) (*identity, error) {
	if t, ok := oidc.ParseJWS(token); ok && t.Claims["iss"] != nil && t.Claims["iss"] != v.reader.issuer {
		return nil, errForeign // it is not this issuer's business
	}
	d := digest(sha256.Sum256([]byte(token)))
	inquiry, err := v.inquiry(d)
	if err != nil {
		return nil, err
	}
	id, err := inquiry.Get(ctx, v.group.Start, func() (*identity, error) { return v.ask(d, inquiry, token) })
	if err != nil && !isInvalid(err) {
		return nil, &oidc.UnavailableError{Err: err}
	}
	return id, err
}

// inquiry returns the one about a token that is in progress, or is to be made. The error is that
// of the last one, if it was only just made.
func (v *Introspection) inquiry(d digest) (*syncs.Flight[*identity], error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r, ok := v.refused[d]; ok {
		if time.Since(r.at) < refusedFor {
			return nil, r.err
		}
		delete(v.refused, d)
	}
	f := v.under[d]
	if f == nil {
		f = new(syncs.Flight[*identity])
		v.under[d] = f
	}
	return f, nil
}

// ask makes an inquiry.
func (v *Introspection) ask(d digest, inquiry *syncs.Flight[*identity], token string) (*identity, error) {
	id, err := v.introspect(token)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.under[d] == inquiry {
		delete(v.under, d)
	}
	if isInvalid(err) {
		v.refuse(d, err)
	}
	return id, err
}

// refuse remembers that a token is not good. v.mu is locked.
func (v *Introspection) refuse(d digest, err error) {
	if len(v.refused) >= maxRefused {
		for d, r := range v.refused {
			if time.Since(r.at) >= refusedFor {
				delete(v.refused, d)
			}
		}
		for d := range v.refused {
			if len(v.refused) < maxRefused*7/8 {
				break
			}
			delete(v.refused, d)
		}
	}
	v.refused[d] = refusal{err, time.Now()}
}

// introspect asks the issuer about a token.
func (v *Introspection) introspect(token string) (*identity, error) {
	ctx, cancel := context.WithTimeoutCause(v.ctx, 2*oidc.RequestTime, errors.New("too many concurrent token introspections"))
	defer cancel()
	select {
	case v.room <- struct{}{}:
		defer func() { <-v.room }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	header, err := v.authenticate(ctx, form)
	if err != nil {
		return nil, err
	}
	status, text, err := v.client.Ask(ctx, http.MethodPost, v.opts.Endpoint, form, header)
	switch {
	case err != nil:
		return nil, err
	case status != http.StatusOK:
		return nil, fmt.Errorf("the introspection endpoint answered %d: check the client id and secret", status)
	}
	answer, err := oidc.ParseClaims(text)
	if err != nil {
		return nil, fmt.Errorf("the response of the introspection endpoint: %w", err)
	}
	active, ok := answer["active"].(bool)
	switch {
	case !ok:
		return nil, errors.New("the introspection endpoint does not say whether a token is active")
	case !active:
		return nil, errForeign
	}
	if iss, there := answer["iss"]; there && iss != v.reader.issuer {
		return nil, oidc.Invalid("the token is of another issuer")
	}
	return v.reader.identity(answer, time.Now())
}

// authenticate adds who we are.
func (v *Introspection) authenticate(ctx context.Context, form url.Values) (http.Header, error) {
	header := make(http.Header)
	switch {
	case v.opts.Bearer != nil:
		token, err := v.opts.Bearer(ctx)
		if err != nil {
			return nil, fmt.Errorf("there is no token for the introspection endpoint: %w", err)
		}
		header.Set("Authorization", "Bearer "+token)
	case v.opts.Post:
		form.Set("client_id", v.opts.ClientID)
		form.Set("client_secret", v.opts.ClientSecret)
	default:
		pair := url.QueryEscape(v.opts.ClientID) + ":" + url.QueryEscape(v.opts.ClientSecret)
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	}
	return header, nil
}
