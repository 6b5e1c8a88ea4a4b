package oidc

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"slices"

	"github.com/golang-jwt/jwt/v5"
)

// An algorithm signs tokens.
type algorithm struct {
	name   string
	method jwt.SigningMethod
	fits   func(publicKey any) bool
}

// algorithms are all that have a public key, the preferred first: none has a shared secret, and
// "none" is not one of them.
var algorithms = []algorithm{
	{"RS256", jwt.SigningMethodRS256, isRSA},
	{"PS256", jwt.SigningMethodPS256, isRSA},
	{"ES256", jwt.SigningMethodES256, onCurve(elliptic.P256())},
	{"ES384", jwt.SigningMethodES384, onCurve(elliptic.P384())},
	{"ES512", jwt.SigningMethodES512, onCurve(elliptic.P521())},
	{"EdDSA", jwt.SigningMethodEdDSA, isEd25519},
	{"Ed25519", jwt.SigningMethodEdDSA, isEd25519},
	{"RS384", jwt.SigningMethodRS384, isRSA},
	{"RS512", jwt.SigningMethodRS512, isRSA},
	{"PS384", jwt.SigningMethodPS384, isRSA},
	{"PS512", jwt.SigningMethodPS512, isRSA},
}

func isRSA(key any) bool {
	_, ok := key.(*rsa.PublicKey)
	return ok
}

func isEd25519(key any) bool {
	_, ok := key.(ed25519.PublicKey)
	return ok
}

func onCurve(curve elliptic.Curve) func(any) bool {
	return func(key any) bool {
		k, ok := key.(*ecdsa.PublicKey)
		return ok && k.Curve == curve
	}
}

// algorithmOf returns the algorithm of a name, or nil.
func algorithmOf(name string) *algorithm {
	i := slices.IndexFunc(algorithms, func(a algorithm) bool { return a.name == name })
	if i < 0 {
		return nil
	}
	return &algorithms[i]
}

// Algorithms returns the names of all algorithms, sorted.
func Algorithms() []string {
	var names []string
	for _, a := range algorithms {
		names = append(names, a.name)
	}
	slices.Sort(names)
	return names
}
