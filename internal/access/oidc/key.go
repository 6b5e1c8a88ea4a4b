package oidc

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
)

const (
	maxKeys = 256 // of an issuer

	// Bits of an RSA key. Those with less can be broken, those with more cost us too much.
	minRSA, maxRSA = 2048, 8192
)

// A publicKey is one that an issuer signs tokens with.
type publicKey struct {
	kid    string // may be empty, and that of several
	alg    string // the only algorithm that it is for, or empty
	public any    // as package jwt takes it
}

// parseKeys reads a set of keys (RFC 7517). Those that cannot be used are left out; left is the
// reason of one of them.
func parseKeys(doc Claims) (keys []*publicKey, left, err error) {
	list, ok := doc["keys"].([]any)
	switch {
	case !ok:
		return nil, nil, errors.New("the key set has no list of keys (keys)")
	case len(list) > maxKeys:
		return nil, nil, fmt.Errorf("the key set has more than %d keys", maxKeys)
	}
	for i, v := range list {
		set, _ := v.(map[string]any)
		k, err := parseKey(set)
		if err != nil {
			left = fmt.Errorf("key %d: %w", i+1, err)
			continue
		}
		keys = append(keys, k)
	}
	return keys, left, nil
}

func parseKey(set Claims) (*publicKey, error) {
	k := &publicKey{}
	k.kid, _ = set["kid"].(string)
	if v, there := set["alg"]; there {
		k.alg, _ = v.(string)
		if algorithmOf(k.alg) == nil {
			return nil, errors.New("unknown algorithm (alg)")
		}
	}
	if use, there := set["use"]; there && use != "sig" {
		return nil, errors.New("it is not for signatures (use)")
	}
	if v, there := set["key_ops"]; there {
		if list, _ := v.([]any); !slices.Contains(list, any("verify")) {
			return nil, errors.New("it is not for signatures (key_ops)")
		}
	}
	if _, there := set["d"]; there {
		return nil, errors.New("it is a private key, which is public there")
	}
	var err error
	switch set["kty"] {
	case "RSA":
		k.public, err = parseRSA(set)
	case "EC":
		k.public, err = parseEC(set)
	case "OKP":
		k.public, err = parseEd25519(set)
	default:
		err = errors.New("unknown kind of key (kty)")
	}
	return k, err
}

// bytes returns a member that is base64url.
func (c Claims) bytes(name string) ([]byte, error) {
	text, _ := c[name].(string)
	plain, err := decode64(text)
	if err != nil || len(plain) == 0 {
		return nil, fmt.Errorf("its %s is not base64url", name)
	}
	return plain, nil
}

func parseRSA(set Claims) (*rsa.PublicKey, error) {
	modulus, err := set.bytes("n")
	if err != nil {
		return nil, err
	}
	exponent, err := set.bytes("e")
	if err != nil {
		return nil, err
	}
	n, e := new(big.Int).SetBytes(modulus), new(big.Int).SetBytes(exponent)
	switch {
	case n.BitLen() < minRSA || n.BitLen() > maxRSA || n.Bit(0) == 0:
		return nil, fmt.Errorf("it must have %d to %d bits", minRSA, maxRSA)
	case e.Cmp(big.NewInt(3)) < 0 || e.Cmp(big.NewInt(math.MaxInt32)) > 0 || e.Bit(0) == 0:
		return nil, errors.New("invalid exponent")
	}
	return &rsa.PublicKey{N: n, E: int(e.Int64())}, nil
}

func parseEC(set Claims) (*ecdsa.PublicKey, error) {
	name, _ := set["crv"].(string)
	curve := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}[name]
	if curve == nil {
		return nil, errors.New("unknown curve (crv)")
	}
	x, err := set.bytes("x")
	if err != nil {
		return nil, err
	}
	y, err := set.bytes("y")
	if err != nil {
		return nil, err
	}
	if size := (curve.Params().BitSize + 7) / 8; len(x) != size || len(y) != size {
		return nil, errors.New("its coordinates have the wrong length")
	}
	return ecdsa.ParseUncompressedPublicKey(curve, slices.Concat([]byte{4}, x, y)) // which checks the point
}

func parseEd25519(set Claims) (ed25519.PublicKey, error) {
	x, err := set.bytes("x")
	switch {
	case err != nil:
		return nil, err
	case set["crv"] != "Ed25519" || len(x) != ed25519.PublicKeySize:
		return nil, errors.New("unknown curve (crv)")
	}
	return x, nil
}

// Keys are the public keys of a client.
type Keys struct{ list []*publicKey }

// ParseKeys reads a set of keys (RFC 7517), of which at least one must be one that can be used.
func ParseKeys(text []byte) (*Keys, error) {
	doc, err := ParseClaims(text)
	if err != nil {
		return nil, err
	}
	list, left, err := parseKeys(doc)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 && left == nil {
		return nil, errors.New("the key set is empty")
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no key of the set can be used: %w", left)
	}
	return &Keys{list}, nil
}
