package oidc

import (
	"slices"
	"time"
)

// AssertionFor is how far ahead the end of an [Assertion] may be. Until then its use is
// remembered.
const AssertionFor = 10 * time.Minute

// An Assertion is a token by which a client authenticates (RFC 7523, 3), not verified before
// Signed.
type Assertion struct {
	Client  string    // its issuer
	ID      string    // unique for the client
	Expires time.Time // with the leeway of clocks

	token    *JWS
	audience []string
}

// ParseAssertion reads an assertion, and checks all of it but its signature and its audience.
func ParseAssertion(text string) (*Assertion, error) {
	t, ok := ParseJWS(text)
	if !ok {
		return nil, Invalid("the assertion is not a signed token")
	}
	a := &Assertion{token: t}
	a.Client, _ = t.Claims["iss"].(string)
	a.ID, _ = t.Claims["jti"].(string)
	var err error
	if a.audience, err = t.Claims.Texts("aud"); err != nil {
		return nil, err
	}
	if err := t.Check(Algorithms(), "client-authentication+jwt"); err != nil {
		return nil, err
	}
	switch {
	case a.Client == "" || t.Claims["sub"] != a.Client:
		return nil, Invalid("the assertion is not of the client itself (iss, sub)")
	case a.ID == "" || len(a.ID) > MaxValue:
		return nil, Invalid("the assertion has no id, or one that is too long (jti)")
	}
	now := time.Now()
	if a.Expires, err = t.Claims.Expires(now, DefaultLeeway, true); err != nil {
		return nil, err
	}
	if a.Expires.Sub(now) > AssertionFor+2*DefaultLeeway {
		return nil, Invalid("the assertion is valid for more than %v (exp)", AssertionFor)
	}
	return a, nil
}

// For reports whether one of the names is the audience of the assertion.
func (a *Assertion) For(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(a.audience, name) })
}

// Signed reports whether the assertion is signed with one of the keys.
func (a *Assertion) Signed(keys *Keys) bool {
	return a.token.signedBy(a.token.matching(keys.list, true))
}
