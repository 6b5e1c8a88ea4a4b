package authserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/access/auth"
	"github.com/dragoman-mcp/dragoman/internal/wire/token"
)

const (
	codeFor   = 60 * time.Second // a code can be exchanged
	retryFor  = 10 * time.Second // a refresh may be repeated, if its answer was lost
	recentFor = time.Minute      // what the provider has said is not asked again
	outageFor = time.Hour        // a sign-in continues while the provider cannot be asked
	unasked   = 24 * time.Hour   // it lasts if the provider cannot be asked at all
	maxAccess = 4                // access tokens of one sign-in; the oldest ends

	signInKind = "signin/"

	codePrefix    = "dgmc_"
	accessPrefix  = "dgma_"
	refreshPrefix = "dgmr_"
	idChars       = 26
)

// A signIn is what a client may do in the name of a user, until it ends. It is one record,
// known by an id that is in all of its secrets; of those there are digests alone.
type signIn struct {
	ID       string `json:"id"`
	Provider string `json:"provider"`
	Client   string `json:"client"`
	Keyed    bool   `json:"keyed,omitempty"`    // the client proves who it is by a key
	Resource string `json:"resource,omitempty"` // as the client has named it; empty means all of ours

	Principal string              `json:"principal"`
	Subject   string              `json:"subject"` // in the provider's own terms
	Claims    map[string][]string `json:"claims,omitempty"`
	Scopes    []string            `json:"scopes,omitempty"`

	Began   time.Time `json:"began"`
	Checked time.Time `json:"checked"` // when the provider was asked last
	Expires time.Time `json:"expires"`

	Code      digest `json:"code"`
	Redirect  string `json:"redirect,omitempty"`  // until the code is used
	Challenge string `json:"challenge,omitempty"` // until the code is used

	Refresh  digest    `json:"refresh,omitzero"`
	Previous digest    `json:"previous,omitzero"` // the one before
	Rotated  time.Time `json:"rotated,omitzero"`
	Access   []access  `json:"access,omitempty"` // the newest first

	// Sealed is what the provider is asked with. Only who has the newest secret of the
	// sign-in can open it: whoever reads our records cannot go to the provider with them.
	Sealed string `json:"sealed,omitempty"`

	revision uint64 // of the record; 0 before the first write
}

// An access is one access token.
type access struct {
	Hash    digest    `json:"hash"`
	Expires time.Time `json:"expires"`
	Scopes  []string  `json:"scopes,omitempty"`
}

// of reports whether a sign-in is a client's, which has proven that as it said it would.
func (in *signIn) of(c *client) bool { return in.Client == c.id && (!in.Keyed || c.proven) }

// learn takes what the provider says of the user.
func (in *signIn) learn(who *user, now time.Time) {
	in.Principal, in.Subject, in.Claims, in.Checked = who.Principal, who.subject, who.Claims, now
}

// sealerOf returns the sealer whose key is derived from a secret.
func sealerOf(secret string) *token.Sealer {
	return token.NewSealer(token.Derive([]byte(secret), "seal"), "")
}

func (in *signIn) seal(secret string, g *grant) {
	in.Sealed = ""
	if *g != (grant{}) {
		in.Sealed = sealerOf(secret).Seal("provider", in.ID, g)
	}
}

// open returns what the provider is asked with. It is empty if the provider gave nothing.
func (in *signIn) open(secret string) (g grant) {
	if in.Sealed != "" {
		_ = sealerOf(secret).Open(in.Sealed, "provider", in.ID, &g) // what cannot be opened is empty
	}
	return g
}

// idOf returns the id of the sign-in that a secret belongs to, or "".
func idOf(secret, prefix string) string {
	rest, ok := strings.CutPrefix(secret, prefix)
	if !ok || len(rest) != idChars+secretChars || strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return ""
	}
	return rest[:idChars]
}

// get returns a sign-in that continues, or nil.
func (s *Server) get(ctx context.Context, id string) (*signIn, error) {
	text, revision, err := s.opts.Store.Get(ctx, signInKind+id)
	if err != nil || revision == 0 {
		return nil, err
	}
	in := parseSignIn(text)
	if in == nil || in.ID != id || in.Provider != s.opts.Provider.Issuer || !time.Now().Before(in.Expires) {
		return nil, nil
	}
	in.revision = revision
	return in, nil
}

// parseSignIn reads a record. One that cannot be read is none.
func parseSignIn(text []byte) *signIn {
	in := &signIn{}
	if json.Unmarshal(text, in) != nil {
		return nil
	}
	return in
}

// take takes the turn of the sign-in that a secret with one of these prefixes belongs to, until
// done is called. The sign-in is nil if there is none.
func (s *Server) take(ctx context.Context, secret string, prefixes ...string) (in *signIn, done func(), e *oauthError) {
	id := ""
	for _, prefix := range prefixes {
		id = cmp.Or(id, idOf(secret, prefix))
	}
	if id == "" {
		return nil, func() {}, nil
	}
	done, err := s.turns.take(ctx, id)
	if err != nil {
		return nil, nil, errLater
	}
	if in, err = s.get(ctx, id); err != nil {
		done()
		return nil, nil, errLater
	}
	return in, done, nil
}

// put writes a sign-in in place of the record that it was read from. It does so even if its client has
// disconnected: what has happened at the provider cannot be undone.
func (s *Server) put(in *signIn) error {
	text, err := json.Marshal(in)
	if err == nil {
		in.revision, err = s.opts.Store.Put(context.Background(), signInKind+in.ID, text, in.revision)
	}
	return err
}

// end ends a sign-in with everything that it has given out. The caller has its turn.
func (s *Server) end(in *signIn, why string) {
	if err := s.opts.Store.Delete(context.Background(), signInKind+in.ID, eventlog.AnyRevision); err != nil {
		s.log.Error("a sign-in cannot be removed, and continues until its tokens expire", "user", in.Principal, "error", err)
	}
	s.doubt(in)
	s.event(why, in.Principal, in.Client)
}

// doubt has the tokens of a sign-in verified again.
func (s *Server) doubt(in *signIn) {
	if s.opts.Revoked == nil {
		return
	}
	list := make([][32]byte, len(in.Access))
	for i := range in.Access {
		list[i] = in.Access[i].Hash
	}
	s.opts.Revoked(list...)
}

// Verifier returns what knows our access tokens.
func (s *Server) Verifier() auth.Verifier { return auth.Custom(s.verify) }

func (s *Server) verify(ctx context.Context, token string) (*auth.Identity, error) {
	if !strings.HasPrefix(token, accessPrefix) {
		return nil, nil
	}
	gone := errors.New("the token has expired or was taken back; sign in again")
	id := idOf(token, accessPrefix)
	if id == "" {
		return nil, gone
	}
	in, err := s.get(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", auth.ErrUnavailable, err)
	}
	if in == nil {
		return nil, gone
	}
	d := digestOf(token)
	i := slices.IndexFunc(in.Access, func(a access) bool { return a.Hash.is(d) })
	if i < 0 || !time.Now().Before(in.Access[i].Expires) {
		return nil, gone
	}
	claims := maps.Clone(in.Claims)
	if claims == nil {
		claims = make(map[string][]string)
	}
	claims["client_id"] = []string{in.Client}
	return &auth.Identity{
		Principal: in.Principal, Credential: "sign-in", Scopes: in.Access[i].Scopes, Claims: claims,
		Audience: s.audience(in.Resource), Expires: in.Access[i].Expires,
	}, nil
}

// tokens are what a client gets.
type tokens struct {
	Access    string `json:"access_token"`
	Type      string `json:"token_type"`
	ExpiresIn int64  `json:"expires_in"`
	Refresh   string `json:"refresh_token"`
	Scope     string `json:"scope,omitempty"`
}

// give makes an access token, and returns it with a refresh token.
func (s *Server) give(in *signIn, refresh string, scopes []string) *tokens {
	token := accessPrefix + in.ID + newSecret()
	now := time.Now()
	in.Access = slices.DeleteFunc(in.Access, func(a access) bool { return !now.Before(a.Expires) })
	in.Access = append([]access{{digestOf(token), now.Add(s.opts.AccessFor), scopes}}, in.Access...)
	in.Access = in.Access[:min(len(in.Access), maxAccess)]
	return &tokens{token, "Bearer", int64(s.opts.AccessFor.Seconds()), refresh, strings.Join(scopes, " ")}
}

// prolong says until when a sign-in can be refreshed. One of a user who cannot be asked about lasts a
// day, however often it is.
func (s *Server) prolong(in *signIn, askable bool) {
	in.Expires = time.Now().Add(s.opts.SignInFor)
	if last := in.Began.Add(unasked); !askable && last.Before(in.Expires) {
		in.Expires = last
	}
}

// exchange takes a code, which ends with that whatever comes of it.
func (s *Server) exchange(ctx context.Context, c *client, code, redirect, verifier, resource string) (*tokens, *oauthError) {
	wrong := &oauthError{code: "invalid_grant", text: "the code is not good: it was used, is older than a minute, or belongs to another request; sign in again"}
	in, done, e := s.take(ctx, code, codePrefix)
	if e != nil {
		return nil, e
	}
	defer done()
	switch {
	case in == nil || !in.Code.is(digestOf(code)):
		return nil, wrong
	case in.Challenge == "":
		s.end(in, "replay") // somebody else has seen the code, and one of both was not the client
		return nil, wrong
	case !in.of(c) || in.Redirect != redirect || !isVerifier(verifier) || in.Challenge != challengeOf(verifier) || !sameResource(resource, in.Resource):
		s.end(in, "misuse")
		return nil, wrong
	}
	refresh := refreshPrefix + in.ID + newSecret()
	g := in.open(code)
	in.seal(refresh, &g)
	in.Redirect, in.Challenge, in.Refresh = "", "", digestOf(refresh)
	s.prolong(in, g.askable())
	t := s.give(in, refresh, in.Scopes)
	if err := s.put(in); err != nil {
		return nil, errLater
	}
	s.event("token", in.Principal, in.Client)
	return t, nil
}

// sameResource reports whether a token request is for what the sign-in is for, if it says so.
func sameResource(asked, granted string) bool {
	return asked == "" || strings.TrimSuffix(asked, "/") == strings.TrimSuffix(granted, "/")
}

// isVerifier reports whether a text can be a PKCE verifier (RFC 7636, 4.1).
func isVerifier(text string) bool {
	return len(text) >= 43 && len(text) <= 128 &&
		strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~") == ""
}

// refresh takes a refresh token for new tokens. One that was taken before ends the sign-in,
// since two have it; but the answer may have been lost, so the last one is taken again for a few seconds.
func (s *Server) refresh(ctx context.Context, c *client, token, scope, resource string) (*tokens, *oauthError) {
	wrong := &oauthError{code: "invalid_grant", text: "the sign-in has ended; sign in again"}
	in, done, e := s.take(ctx, token, refreshPrefix)
	if e != nil {
		return nil, e
	}
	defer done()
	if in == nil || in.Challenge != "" {
		return nil, wrong
	}
	d, now := digestOf(token), time.Now()
	next := refreshPrefix + in.ID + mac(s.refreshKey, token)
	fresh := in.Refresh.is(d)
	switch {
	case !in.of(c), !fresh && (!in.Previous.is(d) || now.Sub(in.Rotated) > retryFor || !in.Refresh.is(digestOf(next))):
		s.end(in, "reuse")
		return nil, wrong
	case !sameResource(resource, in.Resource):
		return nil, &oauthError{code: "invalid_target", text: "the sign-in is for another resource"}
	}
	scopes, e := narrow(in.Scopes, scope)
	if e != nil {
		return nil, e
	}
	changed := false
	if fresh {
		if changed, e = s.renew(ctx, in, token, next); e != nil {
			return nil, e
		}
		in.Previous, in.Refresh, in.Rotated = d, digestOf(next), now
	}
	t := s.give(in, next, scopes)
	if err := s.put(in); err != nil {
		s.log.Error("a sign-in cannot be kept", "error", err)
		return nil, errLater
	}
	if changed {
		s.doubt(in)
	}
	s.event("refresh", in.Principal, in.Client)
	return t, nil
}

// narrow returns the scopes that a client wants of those that it has.
func narrow(has []string, asked string) ([]string, *oauthError) {
	if asked == "" {
		return has, nil
	}
	list := strings.Fields(asked)
	for _, scope := range list {
		if !slices.Contains(has, scope) {
			return nil, &oauthError{code: "invalid_scope", text: "the sign-in does not have all of these scopes; sign in again for more"}
		}
	}
	return list, nil
}

// renew asks the provider about the user, and seals what it is asked with for the next time. It
// reports whether something else is known of the user now.
func (s *Server) renew(ctx context.Context, in *signIn, token, next string) (changed bool, e *oauthError) {
	now, g := time.Now(), in.open(token)
	if g.askable() && now.Sub(in.Checked) >= recentFor {
		who, err := s.provider.check(ctx, &g, in.Subject)
		switch {
		case errors.Is(err, errRefused):
			s.log.Info("a sign-in has ended: the identity provider does not vouch for the user any more", "user", in.Principal, "reason", err)
			s.end(in, "gone")
			return false, &oauthError{code: "invalid_grant", text: "the identity provider has ended the sign-in; sign in again"}
		case err != nil && now.Sub(in.Checked) > outageFor:
			s.log.Warn("a sign-in cannot continue: the identity provider cannot be asked", "user", in.Principal, "error", err)
			return false, errLater
		case err != nil:
			s.log.Warn("the identity provider cannot be asked; sign-ins continue for an hour", "user", in.Principal, "error", err)
		default:
			changed = who.Principal != in.Principal || !maps.EqualFunc(who.Claims, in.Claims, slices.Equal)
			in.learn(who, now)
			g = who.grant
		}
	}
	in.seal(next, &g)
	s.prolong(in, g.askable())
	return changed, nil
}
