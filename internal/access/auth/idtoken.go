package auth

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
)

// Claims are what an identity provider says of a user: in an ID token, or when it is asked.
type Claims struct{ set claimSet }

// ParseClaims reads what a provider answers when it is asked about a user.
func ParseClaims(text []byte) (*Claims, error) {
	set, err := decodeObject(text)
	if err != nil {
		return nil, err
	}
	return &Claims{set}, nil
}

// Subject returns who the claims are about, in the provider's own terms, or "".
func (c *Claims) Subject() string {
	sub, _ := c.set["sub"].(string)
	return sub
}

// Add adds what is not there yet. The error says that both are not about the same user.
func (c *Claims) Add(more *Claims) error {
	if c.Subject() != more.Subject() {
		return errors.New("the provider tells of another user (sub)")
	}
	for name, v := range more.set {
		if _, there := c.set[name]; !there {
			c.set[name] = v
		}
	}
	return nil
}

// Set sets a claim that is a list.
func (c *Claims) Set(name string, values []string) {
	list := make([]any, len(values))
	for i, v := range values {
		list[i] = v
	}
	c.set[name] = list
}

// Text returns the text at a path, in which a.b is b in a, or "".
func (c *Claims) Text(path string) string {
	text, _ := c.set.at(path).(string)
	return text
}

// A UserReader makes identities of claims.
type UserReader struct{ reader *claimReader }

// NewUserReader returns a reader of the claims of one provider.
func NewUserReader(o *ClaimOptions) (*UserReader, error) {
	r, err := o.reader("sign-in")
	if err != nil {
		return nil, err
	}
	return &UserReader{r}, nil
}

// Complete reports whether all claims are there that the identity is made of.
func (r *UserReader) Complete(c *Claims) bool {
	has := func(path string) bool { return c.set.at(path) != nil }
	return has(r.reader.principal) && slices.ContainsFunc(r.reader.groups, has)
}

// Names reports whether a principal is a user of the provider.
func (r *UserReader) Names(principal string) bool {
	return strings.HasPrefix(principal, userPrefix) && strings.HasSuffix(principal, r.reader.suffix())
}

// Identity returns whom claims are about, without scopes and end.
func (r *UserReader) Identity(c *Claims) (*Identity, error) {
	set := c.set
	if n, ok := set.at(r.reader.principal).(json.Number); ok { // as some number their users
		set = claimSet{r.reader.principal: n.String()}
		for name, v := range c.set {
			if name != r.reader.principal {
				set[name] = v
			}
		}
	}
	principal, err := r.reader.user(set)
	if err != nil {
		return nil, err
	}
	claims, err := r.reader.keep(set)
	if err != nil {
		return nil, err
	}
	return &Identity{Principal: principal, Proof: r.reader.proof, Claims: claims}, nil
}

// IDTokens verifies the ID tokens of one provider for one client (OpenID Connect Core, 3.1.3.7).
// They say who has signed in, and open no door by themselves. Any number of goroutines may use it.
type IDTokens struct {
	jwt    *JWT
	client string
}

// NewIDTokens returns a verifier for the ID tokens of a client, which the caller closes.
func NewIDTokens(o *JWTOptions, client string) (*IDTokens, error) {
	j, err := NewJWT(o)
	if err != nil {
		return nil, err
	}
	return &IDTokens{j, client}, nil
}

// Close ends what the verifier does in the background.
func (v *IDTokens) Close() { v.jwt.Close() }

// Verify returns what an ID token says. It must have the nonce, unless that is empty: tokens
// that come of a refresh need not have one. The error wraps [ErrUnavailable] if it cannot be
// verified now.
func (v *IDTokens) Verify(ctx context.Context, token, nonce string) (*Claims, error) {
	t, ok := parseJWS(token)
	if !ok {
		return nil, invalid("the ID token is none")
	}
	if err := v.check(t, nonce); err != nil {
		return nil, err
	}
	if err := v.jwt.checkSignature(ctx, t); err != nil {
		if e, ok := errors.AsType[*unavailableError](err); ok {
			return nil, errors.Join(ErrUnavailable, e.err)
		}
		return nil, err
	}
	return &Claims{t.claims}, nil
}

// check looks at everything but the signature.
func (v *IDTokens) check(t *jws, nonce string) error {
	audience, err := t.claims.texts("aud")
	if err != nil {
		return err
	}
	_, critical := t.header["crit"]
	azp, authorized := t.claims["azp"]
	got, _ := t.claims["nonce"].(string)
	sub, _ := t.claims["sub"].(string)
	switch typ := strings.TrimPrefix(strings.ToLower(t.typ), "application/"); {
	case typ != "" && typ != "jwt":
		return invalid("this is no ID token, but one for something else (typ)")
	case critical || !slices.Contains(v.jwt.algorithms, t.alg):
		return invalid("the ID token is not signed in a way that is accepted here (alg)")
	case t.claims["iss"] != v.jwt.reader.issuer:
		return invalid("the ID token is of another issuer (iss)")
	case !slices.Contains(audience, v.client):
		return invalid("the ID token was made for another client (aud)")
	case authorized && azp != v.client, !authorized && len(audience) > 1:
		return invalid("the ID token was made for another client (azp)")
	case nonce != "" && subtle.ConstantTimeCompare([]byte(got), []byte(nonce)) != 1:
		return invalid("the ID token belongs to another sign-in (nonce)")
	case sub == "" || len(sub) > maxValue:
		return invalid("the ID token does not say whose it is (sub)")
	}
	_, err = v.jwt.reader.expires(t.claims, time.Now())
	return err
}
