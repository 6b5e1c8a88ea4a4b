package oidc

import (
	"context"
	"crypto/subtle"
	"slices"
	"time"
)

// IDTokens verifies the ID tokens of one provider for one client (OpenID Connect Core, 3.1.3.7).
// An ID token names the user who has signed in; it is not an access token. It is safe for concurrent use.
type IDTokens struct {
	keys   *KeySet
	client string
}

// NewIDTokens returns a verifier for the ID tokens of a client, which the caller closes.
func NewIDTokens(o *KeySetOptions, client string) (*IDTokens, error) {
	keys, err := NewKeySet(o)
	if err != nil {
		return nil, err
	}
	return &IDTokens{keys, client}, nil
}

// Close ends what the verifier does in the background.
func (v *IDTokens) Close() { v.keys.Close() }

// Verify returns the claims of an ID token. It must have the nonce, unless that is empty: tokens
// of a refresh need not have one. The error is as that of [KeySet.Verify].
func (v *IDTokens) Verify(ctx context.Context, token, nonce string) (Claims, error) {
	t, ok := ParseJWS(token)
	if !ok {
		return nil, Invalid("the ID token is not a signed token")
	}
	if err := v.check(t, nonce); err != nil {
		return nil, err
	}
	if err := v.keys.Verify(ctx, t); err != nil {
		return nil, err
	}
	return t.Claims, nil
}

// check checks everything but the signature.
func (v *IDTokens) check(t *JWS, nonce string) error {
	if err := t.Check(Algorithms()); err != nil {
		return err
	}
	audience, err := t.Claims.Texts("aud")
	if err != nil {
		return err
	}
	azp, authorized := t.Claims["azp"]
	got, _ := t.Claims["nonce"].(string)
	sub, _ := t.Claims["sub"].(string)
	switch {
	case t.Claims["iss"] != v.keys.issuer:
		return Invalid("the ID token is of another issuer (iss)")
	case !slices.Contains(audience, v.client):
		return Invalid("the ID token was made for another client (aud)")
	case authorized && azp != v.client, !authorized && len(audience) > 1:
		return Invalid("the ID token was made for another client (azp)")
	case nonce != "" && subtle.ConstantTimeCompare([]byte(got), []byte(nonce)) != 1:
		return Invalid("the ID token belongs to another sign-in (nonce)")
	case sub == "" || len(sub) > MaxValue:
		return Invalid("the ID token does not name its user (sub)")
	}
	_, err = t.Claims.Expires(time.Now(), DefaultLeeway, true)
	return err
}
