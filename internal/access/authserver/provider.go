package authserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/auth"
	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
	"github.com/dragoman-mcp/dragoman/internal/util/syncs"
)

const (
	metadataFor = time.Hour // it is used, or as long as there is none that is newer
	maxGrant    = 16 << 10  // bytes of a token of the provider that is kept
	pageSize    = 100       // elements of a list in one answer
	maxPages    = 10        // of a list
)

// A Provider is who knows the users. We are one of its clients, registered there by hand.
type Provider struct {
	// ClaimOptions say who it is, and how to read what it says of a user.
	auth.ClaimOptions

	// ClientID and ClientSecret are who we are there.
	ClientID, ClientSecret string

	// Scopes are asked for, and Parameters are added to what is asked.
	Scopes     []string
	Parameters map[string]string

	// Authorize, Token and Userinfo are its endpoints, if it does not speak OpenID Connect.
	Authorize, Token, Userinfo string

	// Lists are claims that it tells nobody but who asks for each.
	Lists []List

	// Keeps says that none of its tokens is revoked when a user signs out: it would end all
	// sign-ins of that user.
	Keeps bool

	// Network is how it is reached.
	Network oidc.Network
}

// A List is a claim that is a list of its own at a URL, in pages: of objects whose values at
// these paths, with slashes between them, are the values of the claim.
type List struct {
	Claim, URL string
	Paths      []string
}

// errRefused says that the provider has answered, and does not vouch for the user.
var errRefused = errors.New("the identity provider does not vouch for the user")

// A grant is what the provider is asked with about a user who has signed in.
type grant struct {
	Refresh string `json:"r,omitempty"`
	Access  string `json:"a,omitempty"` // where there is no other way
}

// askable reports whether the provider can be asked.
func (g *grant) askable() bool { return g.Refresh != "" || g.Access != "" }

// A user is somebody who has signed in at the provider.
type user struct {
	*auth.Identity
	subject string
	grant   grant
}

// endpoints are those of the provider, and when they were found out.
type endpoints struct {
	*oidc.Metadata
	at time.Time
}

// A provider asks a Provider.
type provider struct {
	Provider
	client *oidc.Client
	reader *auth.UserReader
	tokens *oidc.IDTokens // nil if it does not speak OpenID Connect
	found  syncs.Flight[*endpoints]
}

func newProvider(o *Options) (*provider, error) {
	p := &provider{Provider: o.Provider}
	var err error
	if p.reader, err = auth.NewUserReader(&p.ClaimOptions); err != nil {
		return nil, err
	}
	if p.Authorize == "" {
		opts := &oidc.KeySetOptions{Issuer: p.Issuer, Network: p.Network, Logger: o.Logger}
		if p.tokens, err = oidc.NewIDTokens(opts, p.ClientID); err != nil {
			return nil, err
		}
	}
	opts := &oidc.Options{Network: p.Network, OpenID: true}
	if opts.Server, err = oidc.ParseURL(p.Issuer); err != nil {
		return nil, err
	}
	configured := []string{p.Authorize, p.Token, p.Userinfo}
	for _, l := range p.Lists {
		configured = append(configured, l.URL)
	}
	for _, at := range configured {
		if u, err := oidc.ParseURL(at); err == nil {
			opts.Trusted = append(opts.Trusted, u.Host)
		}
	}
	p.client = oidc.New(opts)
	return p, nil
}

func (p *provider) close() {
	if p.tokens != nil {
		p.tokens.Close()
	}
	p.client.Close()
}

// endpoints returns where the provider is asked. What was found out stays good if it cannot be
// found out again.
func (p *provider) endpoints(ctx context.Context) (*endpoints, error) {
	if p.Authorize != "" {
		return &endpoints{Metadata: &oidc.Metadata{
			Issuer: p.Issuer, AuthorizationEndpoint: p.Authorize, TokenEndpoint: p.Token, UserinfoEndpoint: p.Userinfo, TokenAuthMethods: []string{oidc.MethodPost},
		}}, nil
	}
	old, known := p.found.Peek()
	if known && time.Since(old.at) > metadataFor {
		p.found.Forget(func(e *endpoints) bool { return e == old })
	}
	e, err := p.found.Get(ctx, syncs.OnCaller, func() (*endpoints, error) { return p.discover(context.WithoutCancel(ctx)) })
	if err != nil && known {
		return old, nil
	}
	return e, err
}

// discover reads the provider's metadata.
func (p *provider) discover(ctx context.Context) (*endpoints, error) {
	m, err := p.client.Metadata(ctx, p.Issuer)
	if err == nil && m.AuthorizationEndpoint == "" {
		err = errors.New("the metadata has no authorization_endpoint")
	}
	if err != nil {
		return nil, fmt.Errorf("the endpoints of the identity provider are not known: %w; check auth.provider, or configure authorize, token and userinfo if it has no OpenID Connect metadata", err)
	}
	return &endpoints{m, time.Now()}, nil
}

// authorizeURL returns where a user signs in.
func (p *provider) authorizeURL(ctx context.Context, t *transaction, callback string) (string, error) {
	e, err := p.endpoints(ctx)
	if err != nil {
		return "", err
	}
	q := url.Values{}
	for name, value := range p.Parameters {
		q.Set(name, value)
	}
	q.Set("response_type", "code")
	q.Set("client_id", p.ClientID)
	q.Set("redirect_uri", callback)
	q.Set("state", t.State)
	q.Set("code_challenge", challengeOf(t.Verifier))
	q.Set("code_challenge_method", "S256")
	scopes := p.Scopes
	if t.Request == nil { // nobody asks about the user again
		scopes = slices.DeleteFunc(slices.Clone(scopes), func(scope string) bool { return scope == "offline_access" })
		q.Del("access_type")
	}
	if len(scopes) > 0 {
		q.Set("scope", strings.Join(scopes, " "))
	}
	if p.tokens != nil {
		q.Set("nonce", t.Nonce)
	}
	return withQuery(e.AuthorizationEndpoint, q), nil
}

// checkIssuer checks that an answer is the provider's own, as far as it says (RFC 9207).
func (p *provider) checkIssuer(ctx context.Context, query url.Values) error {
	e, err := p.endpoints(ctx)
	if err != nil {
		return err
	}
	if got := query.Get("iss"); query.Has("iss") && got != p.Issuer || !query.Has("iss") && e.IssParameter {
		return fmt.Errorf("the answer says that it is of the issuer %q", clip(got))
	}
	return nil
}

// credentials are who we are at the provider.
func (p *provider) credentials() *oidc.Credentials {
	return &oidc.Credentials{ID: p.ClientID, Secret: p.ClientSecret}
}

// revoke has the provider end what it has given (RFC 7009), if it does that.
func (p *provider) revoke(ctx context.Context, g *grant) error {
	e, err := p.endpoints(ctx)
	if err != nil || e.RevocationEndpoint == "" || p.Keeps {
		return err
	}
	if g.Refresh != "" {
		return p.client.Revoke(ctx, e.Metadata, p.credentials(), g.Refresh, "refresh_token")
	}
	return p.client.Revoke(ctx, e.Metadata, p.credentials(), g.Access, "access_token")
}

// request makes a token request.
func (p *provider) request(ctx context.Context, form url.Values) (*oidc.Tokens, error) {
	e, err := p.endpoints(ctx)
	if err != nil {
		return nil, err
	}
	tokens, err := p.client.Token(ctx, e.Metadata, p.credentials(), form)
	refusal, ok := errors.AsType[*oidc.Error](err)
	switch {
	case !ok || refusal.Code == "":
		return tokens, err
	case slices.Contains([]string{"invalid_grant", "bad_verification_code", "interaction_required"}, refusal.Code):
		return nil, fmt.Errorf("%w: %w", errRefused, err)
	}
	return nil, fmt.Errorf("%w; check auth.client, and the client's registration at the provider", err)
}

// signIn returns who has signed in.
func (p *provider) signIn(ctx context.Context, code string, t *transaction, callback string) (*user, error) {
	if code == "" || len(code) > maxGrant {
		return nil, fmt.Errorf("%w: there is no code", errRefused)
	}
	a, err := p.request(ctx, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {callback}, "code_verifier": {t.Verifier},
	})
	if err != nil {
		return nil, err
	}
	if p.tokens != nil && a.ID == "" {
		return nil, errors.New("the token endpoint gave no ID token; auth.provider.scopes must have openid")
	}
	return p.identify(ctx, a, t.Nonce, "")
}

// identify returns whom an answer is about. If it has no ID token, the provider is asked.
func (p *provider) identify(ctx context.Context, a *oidc.Tokens, nonce, subject string) (*user, error) {
	var claims oidc.Claims
	var err error
	if a.ID != "" && p.tokens != nil {
		claims, err = p.tokens.Verify(ctx, a.ID, nonce)
		if _, ok := errors.AsType[*oidc.UnavailableError](err); ok {
			return nil, err
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errRefused, err)
		}
	}
	if claims == nil || !p.reader.Complete(claims) {
		if claims, err = p.more(ctx, claims, a.Access); err != nil {
			return nil, err
		}
	}
	u := &user{subject: claims.Text("sub")}
	if u.Identity, err = p.reader.Identity(claims); err != nil {
		return nil, fmt.Errorf("%w: %w", errRefused, err)
	}
	if u.subject == "" {
		u.subject = u.Principal
	}
	if subject != "" && u.subject != subject {
		return nil, fmt.Errorf("%w: it tells of another user", errRefused)
	}
	switch {
	case len(a.Refresh) > maxGrant || len(a.Access) > maxGrant:
		return nil, fmt.Errorf("a token of the identity provider has more than %d bytes", maxGrant)
	case a.Refresh != "":
		u.grant.Refresh = a.Refresh
	case p.tokens == nil:
		u.grant.Access = a.Access
	}
	return u, nil
}

// more asks the provider about a user, and adds that to what is known.
func (p *provider) more(ctx context.Context, claims oidc.Claims, token string) (oidc.Claims, error) {
	e, err := p.endpoints(ctx)
	if err != nil {
		return nil, err
	}
	if e.UserinfoEndpoint == "" || token == "" {
		if claims != nil {
			return claims, nil
		}
		return nil, errors.New("the identity provider does not say who the user is: it has no userinfo endpoint")
	}
	status, text, err := p.client.Ask(ctx, http.MethodGet, e.UserinfoEndpoint, nil, http.Header{"Authorization": {"Bearer " + token}})
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return nil, fmt.Errorf("%w: userinfo answered %d", errRefused, status)
	case status != http.StatusOK:
		return nil, fmt.Errorf("userinfo answered %d", status)
	}
	more, err := oidc.ParseClaims(text)
	if err != nil {
		return nil, fmt.Errorf("userinfo cannot be read: %w", err)
	}
	for i := range p.Lists {
		values, err := p.list(ctx, &p.Lists[i], token)
		if err != nil {
			return nil, err
		}
		more.SetTexts(p.Lists[i].Claim, values)
	}
	if claims == nil {
		return more, nil
	}
	if claims.Text("sub") != more.Text("sub") {
		return nil, fmt.Errorf("%w: userinfo is about another user (sub)", errRefused)
	}
	maps.Copy(more, claims)
	return more, nil
}

// list asks the provider for the values of a claim.
func (p *provider) list(ctx context.Context, l *List, token string) (values []string, err error) {
	for page := 1; ; page++ {
		if page > maxPages {
			return nil, fmt.Errorf("%s has more than %d pages", l.URL, maxPages)
		}
		at := withQuery(l.URL, url.Values{"per_page": {strconv.Itoa(pageSize)}, "page": {strconv.Itoa(page)}})
		status, text, err := p.client.Ask(ctx, http.MethodGet, at, nil, http.Header{"Authorization": {"Bearer " + token}})
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%s answered %d; it may need another of auth.provider.scopes", l.URL, status)
		}
		var list []json.RawMessage
		if err == nil && json.Unmarshal(text, &list) != nil {
			err = fmt.Errorf("%s answers with no list", l.URL)
		}
		if err != nil {
			return nil, err
		}
		for _, object := range list {
			element, err := oidc.ParseClaims(object)
			if err != nil {
				return nil, fmt.Errorf("%s answers with no list of objects", l.URL)
			}
			names := make([]string, len(l.Paths))
			for i, path := range l.Paths {
				names[i] = element.Text(path)
			}
			if !slices.Contains(names, "") {
				values = append(values, strings.Join(names, "/"))
			}
		}
		if len(list) < pageSize {
			return values, nil
		}
	}
}

// check asks the provider about a user who has signed in before. The grant of the result is
// what to ask with the next time.
func (p *provider) check(ctx context.Context, g *grant, subject string) (*user, error) {
	if g.Refresh == "" {
		return p.identify(ctx, &oidc.Tokens{Access: g.Access}, "", subject)
	}
	a, err := p.request(ctx, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.Refresh}})
	if err != nil {
		return nil, err
	}
	if a.Refresh == "" {
		a.Refresh = g.Refresh
	}
	return p.identify(ctx, a, "", subject)
}
