package authserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

	// HTTP makes the requests. If nil, a client of its own does.
	HTTP *http.Client
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

// endpoints are where the provider is asked.
type endpoints struct {
	Issuer       string   `json:"issuer"`
	Authorize    string   `json:"authorization_endpoint"`
	Token        string   `json:"token_endpoint"`
	Userinfo     string   `json:"userinfo_endpoint"`
	Revoke       string   `json:"revocation_endpoint"`
	Methods      []string `json:"token_endpoint_auth_methods_supported"`
	IssParameter bool     `json:"authorization_response_iss_parameter_supported"`

	at time.Time
}

// A provider asks a Provider.
type provider struct {
	Provider
	asker  *auth.Asker
	reader *auth.UserReader
	tokens *auth.IDTokens // nil if it does not speak OpenID Connect
	found  syncs.Flight[*endpoints]
}

func newProvider(o *Options) (*provider, error) {
	p := &provider{Provider: o.Provider}
	var err error
	if p.reader, err = auth.NewUserReader(&p.ClaimOptions); err != nil {
		return nil, err
	}
	if p.Authorize == "" {
		opts := &auth.JWTOptions{ClaimOptions: p.ClaimOptions, HTTP: p.HTTP, Logger: o.Logger}
		if p.tokens, err = auth.NewIDTokens(opts, p.ClientID); err != nil {
			return nil, err
		}
	}
	if p.asker, err = auth.NewAsker(p.Issuer, p.HTTP); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *provider) close() {
	if p.tokens != nil {
		p.tokens.Close()
	}
	p.asker.Close()
}

// endpoints returns where the provider is asked. What was found out stays good if it cannot be
// found out again.
func (p *provider) endpoints(ctx context.Context) (*endpoints, error) {
	if p.Authorize != "" {
		return &endpoints{Issuer: p.Issuer, Authorize: p.Authorize, Token: p.Token, Userinfo: p.Userinfo, Methods: []string{authPost}}, nil
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
	u, err := oidc.ParseURL(p.Issuer)
	if err != nil {
		return nil, err
	}
	places := append([]string{strings.TrimSuffix(p.Issuer, "/") + "/.well-known/openid-configuration"}, oidc.MetadataPlaces(u)...)
	for _, at := range places {
		status, text, err := p.asker.Ask(ctx, http.MethodGet, at, nil, nil)
		if err != nil {
			return nil, err
		}
		e := &endpoints{at: time.Now()}
		if status != http.StatusOK || json.Unmarshal(text, e) != nil {
			continue
		}
		if e.Issuer != p.Issuer {
			return nil, fmt.Errorf("the metadata at %s is about the issuer %q; write that as auth.provider", at, clip(e.Issuer))
		}
		if err := e.check(u, at); err != nil {
			return nil, err
		}
		return e, nil
	}
	return nil, fmt.Errorf("there is no OpenID Connect metadata at %s; give auth.provider.authorize, token and userinfo if it has none", places[0])
}

// check returns an error unless all endpoints can be asked. None may be on this machine if the
// provider is not.
func (e *endpoints) check(provider *url.URL, at string) error {
	for name, to := range map[string]string{"authorization_endpoint": e.Authorize, "token_endpoint": e.Token, "userinfo_endpoint": e.Userinfo, "revocation_endpoint": e.Revoke} {
		if to == "" && (name == "userinfo_endpoint" || name == "revocation_endpoint") {
			continue
		}
		u, err := oidc.ParseURL(to)
		if err == nil && oidc.Loopback(u.Hostname()) && !oidc.Loopback(provider.Hostname()) {
			err = errors.New("is on this machine, but the provider is not")
		}
		if err != nil {
			return fmt.Errorf("the metadata at %s: %s %w", at, name, err)
		}
	}
	return nil
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
	return withQuery(e.Authorize, q), nil
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

// An answer is what the provider gives for a code or a refresh token.
type answer struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	ID      string `json:"id_token"`
	Error   string `json:"error"`
}

// post posts a form as the client that we are there.
func (p *provider) post(ctx context.Context, e *endpoints, to string, form url.Values) (status int, text []byte, err error) {
	header := make(http.Header)
	switch {
	case p.ClientSecret == "":
		form.Set("client_id", p.ClientID)
	case len(e.Methods) > 0 && !slices.Contains(e.Methods, authBasic):
		form.Set("client_id", p.ClientID)
		form.Set("client_secret", p.ClientSecret)
	default:
		r := http.Request{Header: header}
		r.SetBasicAuth(url.QueryEscape(p.ClientID), url.QueryEscape(p.ClientSecret))
	}
	return p.asker.Ask(ctx, http.MethodPost, to, form, header)
}

// revoke has the provider end what it has given (RFC 7009), if it does that.
func (p *provider) revoke(ctx context.Context, g *grant) error {
	e, err := p.endpoints(ctx)
	if err != nil || e.Revoke == "" || p.Keeps {
		return err
	}
	form := url.Values{"token": {g.Refresh}, "token_type_hint": {"refresh_token"}}
	if g.Refresh == "" {
		form = url.Values{"token": {g.Access}, "token_type_hint": {"access_token"}}
	}
	status, _, err := p.post(ctx, e, e.Revoke, form)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("the revocation endpoint answered %d", status)
	}
	return err
}

// request makes a token request.
func (p *provider) request(ctx context.Context, form url.Values) (*answer, error) {
	e, err := p.endpoints(ctx)
	if err != nil {
		return nil, err
	}
	status, text, err := p.post(ctx, e, e.Token, form)
	if err != nil {
		return nil, err
	}
	a := &answer{}
	switch err := json.Unmarshal(text, a); {
	case a.Error == "invalid_grant", a.Error == "bad_verification_code", a.Error == "interaction_required":
		return nil, fmt.Errorf("%w: %s", errRefused, a.Error)
	case a.Error != "":
		return nil, fmt.Errorf("the token endpoint refuses us: %s; look at auth.client and at the client's registration there", clip(a.Error))
	case err != nil || status != http.StatusOK || a.Access == "" && a.ID == "":
		return nil, fmt.Errorf("the token endpoint answered %d, without tokens", status)
	}
	return a, nil
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
func (p *provider) identify(ctx context.Context, a *answer, nonce, subject string) (*user, error) {
	var claims *auth.Claims
	var err error
	if a.ID != "" && p.tokens != nil {
		claims, err = p.tokens.Verify(ctx, a.ID, nonce)
		if errors.Is(err, auth.ErrUnavailable) {
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
	u := &user{subject: claims.Subject()}
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
func (p *provider) more(ctx context.Context, claims *auth.Claims, token string) (*auth.Claims, error) {
	e, err := p.endpoints(ctx)
	if err != nil {
		return nil, err
	}
	if e.Userinfo == "" || token == "" {
		if claims != nil {
			return claims, nil
		}
		return nil, errors.New("the identity provider does not say who the user is: it has no userinfo endpoint")
	}
	status, text, err := p.asker.Ask(ctx, http.MethodGet, e.Userinfo, nil, http.Header{"Authorization": {"Bearer " + token}})
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return nil, fmt.Errorf("%w: userinfo answered %d", errRefused, status)
	case status != http.StatusOK:
		return nil, fmt.Errorf("userinfo answered %d", status)
	}
	more, err := auth.ParseClaims(text)
	if err != nil {
		return nil, fmt.Errorf("userinfo cannot be read: %w", err)
	}
	for i := range p.Lists {
		values, err := p.list(ctx, &p.Lists[i], token)
		if err != nil {
			return nil, err
		}
		more.Set(p.Lists[i].Claim, values)
	}
	if claims == nil {
		return more, nil
	}
	if err := claims.Add(more); err != nil {
		return nil, fmt.Errorf("%w: %w", errRefused, err)
	}
	return claims, nil
}

// list asks the provider for the values of a claim.
func (p *provider) list(ctx context.Context, l *List, token string) (values []string, err error) {
	for page := 1; ; page++ {
		if page > maxPages {
			return nil, fmt.Errorf("%s has more than %d pages", l.URL, maxPages)
		}
		at := withQuery(l.URL, url.Values{"per_page": {strconv.Itoa(pageSize)}, "page": {strconv.Itoa(page)}})
		status, text, err := p.asker.Ask(ctx, http.MethodGet, at, nil, http.Header{"Authorization": {"Bearer " + token}})
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
			element, err := auth.ParseClaims(object)
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
		return p.identify(ctx, &answer{Access: g.Access}, "", subject)
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
