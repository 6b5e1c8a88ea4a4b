package auth

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
	"github.com/dragoman-mcp/dragoman/internal/access/rules"
)

// ClaimOptions says how to read what an issuer says in or of its tokens.
type ClaimOptions struct {
	// Issuer is who issues the tokens: an https URL, or an http URL of this machine. It is
	// compared byte by byte.
	Issuer string

	// Principal is the claim that names the user. If empty, it is "sub". Others may be given
	// to somebody else later, and "email" counts only if the issuer says that it has verified
	// it.
	Principal string

	// Groups are claims that list the groups of the user, and Claims others to be kept. A
	// claim within another is written as in "realm_access.roles"; one whose own name has dots
	// goes first. If there are no Groups, it is "groups". Always kept are sub, client_id, azp,
	// username, and an email that is verified.
	Groups, Claims []string

	// NoAudience accepts tokens that do not say for whom they are. Whoever else accepts
	// tokens of this issuer can use them here then.
	NoAudience bool

	// Leeway is how far the issuer's clock may be from ours. Zero means a minute, negative
	// not at all.
	Leeway time.Duration
}

// standardClaims are the claims that everybody may want to go by.
var standardClaims = []string{"sub", "client_id", "azp", "username", "email"}

// A claimReader makes identities of claims.
type claimReader struct {
	proof      string
	issuer     string
	principal  string
	groups     []string
	selected   []string
	noAudience bool
	noExpiry   bool // whoever gave us the claims is asked again and again
	leeway     time.Duration
}

func (o *ClaimOptions) reader(proof string) (*claimReader, error) {
	u, err := oidc.ParseURL(o.Issuer)
	switch {
	case err != nil:
		return nil, fmt.Errorf("auth: the issuer %q %w", o.Issuer, err)
	case u.RawQuery != "" || u.ForceQuery:
		return nil, fmt.Errorf("auth: the issuer %q must not have a query", o.Issuer)
	case strings.Contains(o.Issuer, "@"): // a principal of ours could be taken for one of another issuer
		return nil, fmt.Errorf("auth: the issuer %q must not have an @", o.Issuer)
	}
	r := &claimReader{
		proof: proof, issuer: o.Issuer, principal: o.Principal, groups: o.Groups, noAudience: o.NoAudience, leeway: o.Leeway,
		selected: append(standardClaims[:len(standardClaims):len(standardClaims)], o.Claims...),
	}
	if r.principal == "" {
		r.principal = "sub"
	}
	if len(r.groups) == 0 {
		r.groups = []string{rules.Groups}
	}
	if r.leeway == 0 {
		r.leeway = oidc.DefaultLeeway
	}
	r.leeway = max(r.leeway, 0)
	return r, nil
}

// identity returns whom claims are about. It looks at everything but who made them.
func (r *claimReader) identity(c oidc.Claims, now time.Time) (*identity, error) {
	if otherUse(c) {
		return nil, oidc.Invalid("this is no access token, but one for something else")
	}
	expires, err := c.Expires(now, r.leeway, !r.noExpiry)
	if err != nil {
		return nil, err
	}
	id := &identity{proof: r.proof, expires: expires}
	if id.principal, err = r.user(c); err != nil {
		return nil, err
	}
	if id.audience, err = c.Texts("aud"); err != nil {
		return nil, err
	}
	if len(id.audience) == 0 {
		if id.audience = nil; !r.noAudience {
			return nil, oidc.Invalid("the token does not say for whom it is (aud); ask for one with our URL as the resource")
		}
	}
	if id.scopes, err = scopesOf(c); err != nil {
		return nil, err
	}
	if id.thumbprint, err = thumbprintOf(c); err != nil {
		return nil, err
	}
	if id.claims, err = r.keep(c); err != nil {
		return nil, err
	}
	return id, nil
}

// user returns the principal.
func (r *claimReader) user(c oidc.Claims) (string, error) {
	name, _ := c.At(r.principal).(string)
	switch {
	case name == "":
		return "", oidc.Invalid("the token does not say whose it is (%s)", r.principal)
	case len(name) > oidc.MaxValue || strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }):
		return "", oidc.Invalid("the name in the token (%s) is too long or has characters that no name has", r.principal)
	case r.principal == "email" && c["email_verified"] != true:
		return "", oidc.Invalid("the email in the token is not verified")
	}
	return userPrefix + name + r.suffix(), nil
}

const userPrefix = "user:"

// suffix is what tells users of the issuer from those of others.
func (r *claimReader) suffix() string { return "@" + strings.TrimPrefix(r.issuer, "https://") }

// keep returns the claims that others may go by.
func (r *claimReader) keep(c oidc.Claims) (map[string][]string, error) {
	claims := make(map[string][]string)
	add := func(as, path string) error {
		list, err := c.Texts(path)
		if len(list) > 0 {
			claims[as] = append(claims[as], list...)
		}
		return err
	}
	for _, path := range r.groups {
		if err := add(rules.Groups, path); err != nil {
			return nil, err
		}
	}
	for _, path := range r.selected {
		if path == rules.Groups || path == "email" && c["email_verified"] != true || claims[path] != nil {
			continue
		}
		if err := add(path, path); err != nil {
			return nil, err
		}
	}
	return claims, nil
}

// scopesOf returns what the token grants, by either name that issuers have for it.
func scopesOf(c oidc.Claims) ([]string, error) {
	var all []string
	for _, name := range []string{"scope", "scp"} {
		if text, ok := c[name].(string); ok {
			all = append(all, strings.Fields(text)...)
			continue
		}
		list, err := c.Texts(name)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	if len(all) > oidc.MaxValues {
		return nil, oidc.Invalid("the token has more than %d scopes", oidc.MaxValues)
	}
	return all, nil
}

// thumbprintOf returns that of the certificate that a token is bound to (RFC 8705). A token
// that is bound to anything else is refused, because nobody here would check it.
func thumbprintOf(c oidc.Claims) (string, error) {
	v, ok := c["cnf"]
	if !ok {
		return "", nil
	}
	cnf, _ := v.(map[string]any)
	text, _ := cnf["x5t#S256"].(string)
	sum, err := base64.RawURLEncoding.Strict().DecodeString(text)
	switch {
	case cnf["jkt"] != nil:
		return "", oidc.Invalid("the token is bound to a key by DPoP, which is not checked here; ask for a plain one")
	case len(cnf) != 1 || err != nil || len(sum) != len(digest{}):
		return "", oidc.Invalid("the token is bound to its owner in a way that is not known here (cnf)")
	}
	return hex.EncodeToString(sum), nil
}

// otherUse reports whether claims are those of a token that is not for access: an ID token, a
// refresh token, a message of a sign-out.
func otherUse(c oidc.Claims) bool {
	for _, name := range []string{"at_hash", "c_hash", "events"} {
		if _, ok := c[name]; ok {
			return true
		}
	}
	for _, name := range []string{"typ", "token_use", "token_type"} { // Keycloak, Cognito, RFC 7662
		text, _ := c[name].(string)
		switch strings.ToLower(text) {
		case "id", "id_token", "refresh", "refresh_token", "offline", "logout", "dpop":
			return true
		}
	}
	return false
}
