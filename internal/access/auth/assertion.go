package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// AssertionFor is how far ahead the end of an [Assertion] may be. Until then it is remembered
// as used.
const AssertionFor = 10 * time.Minute

// Keys are the public keys of somebody who signs.
type Keys struct{ list []*publicKey }

// ParseKeys reads a set of keys (RFC 7517), of which at least one must be one that can be used.
func ParseKeys(text []byte) (*Keys, error) {
	doc, err := decodeObject(text)
	if err != nil {
		return nil, err
	}
	list, left, err := parseKeys(doc)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 && left == nil {
		return nil, errors.New("the set of keys is empty")
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("the set of keys has none that can be used: %w", left)
	}
	return &Keys{list}, nil
}

// An Assertion is a token by which a client proves who it is (RFC 7523, 3), not verified
// before Signed.
type Assertion struct {
	Client  string    // whose it is
	ID      string    // which it does not have twice
	Expires time.Time // with what clocks may be apart

	token    *jws
	audience []string
}

// ParseAssertion reads an assertion, and checks all of it but its signature and for whom it is.
func ParseAssertion(text string) (*Assertion, error) {
	t, ok := parseJWS(text)
	if !ok {
		return nil, invalid("the assertion is no signed token")
	}
	a := &Assertion{token: t}
	a.Client, _ = t.claims["iss"].(string)
	a.ID, _ = t.claims["jti"].(string)
	_, critical := t.header["crit"]
	_, known := algorithms[t.alg]
	var err error
	if a.audience, err = t.claims.texts("aud"); err != nil {
		return nil, err
	}
	switch typ := strings.TrimPrefix(strings.ToLower(t.typ), "application/"); {
	case typ != "" && typ != "jwt" && typ != "client-authentication+jwt":
		return nil, invalid("this is no assertion, but a token for something else (typ)")
	case critical || !known:
		return nil, invalid("the assertion is not signed in a way that is accepted here (alg)")
	case a.Client == "" || t.claims["sub"] != a.Client:
		return nil, invalid("the assertion is not of the client itself (iss, sub)")
	case a.ID == "" || len(a.ID) > maxValue:
		return nil, invalid("the assertion has no id, or a very long one (jti)")
	}
	now := time.Now()
	if a.Expires, err = (&claimReader{leeway: defaultLeeway}).expires(t.claims, now); err != nil {
		return nil, err
	}
	if a.Expires.Sub(now) > AssertionFor+2*defaultLeeway {
		return nil, invalid("the assertion is good for more than %v (exp)", AssertionFor)
	}
	return a, nil
}

// For reports whether the assertion is for somebody, who has these names.
func (a *Assertion) For(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(a.audience, name) })
}

// Signed reports whether the assertion is signed by one of some keys.
func (a *Assertion) Signed(keys *Keys) bool {
	fitting := matching(keys.list, a.token.alg, a.token.kid, true)
	return len(fitting) <= maxTries && slices.ContainsFunc(fitting, func(k *publicKey) bool {
		return algorithms[a.token.alg].method.Verify(a.token.signed, a.token.signature, k.public) == nil
	})
}
