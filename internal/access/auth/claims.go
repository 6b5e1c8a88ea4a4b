package auth

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
	"github.com/dragoman-mcp/dragoman/internal/access/rules"
)

const (
	// maxLevels is how deep the JSON of a token may be, or of what its issuer says of it.
	maxLevels = 16

	// maxValues is how many values a claim may have that is looked at, and how many scopes
	// there may be; maxValue is how long each may be. A token with more is refused: one that
	// is cut might lack the group that keeps somebody out.
	maxValues = 256
	maxValue  = 512

	// defaultLeeway is how far clocks may be apart.
	defaultLeeway = time.Minute
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
		r.leeway = defaultLeeway
	}
	r.leeway = max(r.leeway, 0)
	return r, nil
}

// identity returns whom claims are about. It looks at everything but who made them.
func (r *claimReader) identity(c claimSet, now time.Time) (*identity, error) {
	if c.otherUse() {
		return nil, invalid("this is no access token, but one for something else")
	}
	expires, err := r.expires(c, now)
	if err != nil {
		return nil, err
	}
	id := &identity{proof: r.proof, expires: expires}
	if id.principal, err = r.user(c); err != nil {
		return nil, err
	}
	if id.audience, err = c.texts("aud"); err != nil {
		return nil, err
	}
	if len(id.audience) == 0 {
		if id.audience = nil; !r.noAudience {
			return nil, invalid("the token does not say for whom it is (aud); ask for one with our URL as the resource")
		}
	}
	if id.scopes, err = c.scopes(); err != nil {
		return nil, err
	}
	if id.thumbprint, err = c.thumbprint(); err != nil {
		return nil, err
	}
	if id.claims, err = r.keep(c); err != nil {
		return nil, err
	}
	return id, nil
}

// expires checks the times, and returns when the token is not accepted any more.
func (r *claimReader) expires(c claimSet, now time.Time) (end time.Time, err error) {
	exp, err := c.time("exp")
	if err != nil {
		return end, err
	}
	nbf, err := c.time("nbf")
	if err != nil {
		return end, err
	}
	iat, err := c.time("iat")
	if err != nil {
		return end, err
	}
	if !exp.IsZero() {
		end = exp.Add(r.leeway)
	}
	switch later := now.Add(r.leeway); {
	case exp.IsZero() && !r.noExpiry:
		return end, invalid("the token does not say when it expires (exp)")
	case !exp.IsZero() && !now.Before(end):
		return end, invalid("the token has expired")
	case later.Before(nbf):
		return end, invalid("the token is not valid yet (nbf)")
	case later.Before(iat), !exp.IsZero() && exp.Before(iat):
		return end, invalid("the token was issued in the future (iat): compare the clocks")
	}
	return end, nil
}

// user returns the principal.
func (r *claimReader) user(c claimSet) (string, error) {
	name, _ := c.at(r.principal).(string)
	switch {
	case name == "":
		return "", invalid("the token does not say whose it is (%s)", r.principal)
	case len(name) > maxValue || strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }):
		return "", invalid("the name in the token (%s) is too long or has characters that no name has", r.principal)
	case r.principal == "email" && c["email_verified"] != true:
		return "", invalid("the email in the token is not verified")
	}
	return userPrefix + name + r.suffix(), nil
}

const userPrefix = "user:"

// suffix is what tells users of the issuer from those of others.
func (r *claimReader) suffix() string { return "@" + strings.TrimPrefix(r.issuer, "https://") }

// keep returns the claims that others may go by.
func (r *claimReader) keep(c claimSet) (map[string][]string, error) {
	claims := make(map[string][]string)
	add := func(as, path string) error {
		list, err := c.texts(path)
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

// A claimSet is a JSON object of an issuer. Numbers in it are json.Number.
type claimSet map[string]any

var errNotObject = errors.New("it is no JSON object, or has a name twice in one")

// decodeObject reads a JSON object. One that has a name twice is refused, at any depth:
// readers do not agree which of the two counts.
func decodeObject(text []byte) (claimSet, error) {
	if !utf8.Valid(text) || !json.Valid(text) {
		return nil, errNotObject
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := decodeValue(d, maxLevels)
	set, ok := v.(map[string]any)
	if err != nil || !ok {
		return nil, errNotObject
	}
	return set, nil
}

func decodeValue(d *json.Decoder, levels int) (any, error) {
	t, err := d.Token()
	kind, nested := t.(json.Delim)
	if err != nil || !nested {
		return t, err
	}
	if levels == 0 {
		return nil, errNotObject
	}
	if kind == '[' {
		list := []any{}
		for d.More() {
			v, err := decodeValue(d, levels-1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	}
	set := make(map[string]any)
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := t.(string) // the decoder has seen to it
		if _, twice := set[name]; twice {
			return nil, errNotObject
		}
		if set[name], err = decodeValue(d, levels-1); err != nil {
			return nil, err
		}
	}
	_, err = d.Token()
	return set, err
}

// at returns the claim at a path, or nil.
func (c claimSet) at(path string) any {
	if v, ok := c[path]; ok {
		return v
	}
	var v any = map[string]any(c)
	for name := range strings.SplitSeq(path, ".") {
		inner, _ := v.(map[string]any)
		v = inner[name]
	}
	return v
}

// texts returns the values of a claim: it is a string, a number, true or false, or a list of
// those.
func (c claimSet) texts(path string) ([]string, error) {
	v := c.at(path)
	if v == nil {
		return nil, nil
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	if len(list) > maxValues {
		return nil, invalid("the token has more than %d values of %s", maxValues, path)
	}
	texts := make([]string, len(list))
	for i, v := range list {
		switch v := v.(type) {
		case string:
			texts[i] = v
		case json.Number, bool:
			texts[i] = fmt.Sprint(v)
		default:
			return nil, invalid("the token has something else than texts as %s", path)
		}
		if len(texts[i]) > maxValue {
			return nil, invalid("the token has a value of %s with more than %d bytes", path, maxValue)
		}
	}
	return texts, nil
}

// maxTime is the end of the year 9999, in seconds.
const maxTime = 253402300799

// time returns a claim that is a time, or zero if it is not there.
func (c claimSet) time(name string) (time.Time, error) {
	v, ok := c[name]
	if !ok {
		return time.Time{}, nil
	}
	number, _ := v.(json.Number)
	seconds, err := number.Float64()
	if err != nil || seconds < 1 || seconds > maxTime {
		return time.Time{}, invalid("the token has something else than a time as %s", name)
	}
	whole := int64(seconds)
	return time.Unix(whole, int64((seconds-float64(whole))*1e9)), nil
}

// scopes returns what the token grants, by either name that issuers have for it.
func (c claimSet) scopes() ([]string, error) {
	var all []string
	for _, name := range []string{"scope", "scp"} {
		if text, ok := c[name].(string); ok {
			all = append(all, strings.Fields(text)...)
			continue
		}
		list, err := c.texts(name)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	if len(all) > maxValues {
		return nil, invalid("the token has more than %d scopes", maxValues)
	}
	return all, nil
}

// thumbprint returns that of the certificate that a token is bound to (RFC 8705). A token
// that is bound to anything else is refused, because nobody here would check it.
func (c claimSet) thumbprint() (string, error) {
	v, ok := c["cnf"]
	if !ok {
		return "", nil
	}
	cnf, _ := v.(map[string]any)
	text, _ := cnf["x5t#S256"].(string)
	sum, err := decode64(text)
	switch {
	case cnf["jkt"] != nil:
		return "", invalid("the token is bound to a key by DPoP, which is not checked here; ask for a plain one")
	case len(cnf) != 1 || err != nil || len(sum) != len(digest{}):
		return "", invalid("the token is bound to its owner in a way that is not known here (cnf)")
	}
	return hex.EncodeToString(sum), nil
}

// otherUse reports whether claims are those of a token that is not for access: an ID token, a
// refresh token, a message of a sign-out.
func (c claimSet) otherUse() bool {
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

// decode64 decodes base64url in its only spelling.
func decode64(text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n") { // which the decoder leaves out
		return nil, errors.New("not base64url")
	}
	return base64.RawURLEncoding.Strict().DecodeString(text)
}
