package oidc

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	_ "crypto/sha256" // for the hashes of the algorithms
	_ "crypto/sha512"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Credentials are who we are for an authorization server.
type Credentials struct {
	ID, Secret string

	// Method is how the client authenticates: MethodNone and so on. If empty, it is what the
	// server offers of that which the other fields allow.
	Method string

	// Key signs assertions for MethodKey. Algorithm is its JWS name; if empty, it follows from
	// the key. KeyID may be empty.
	Key              crypto.Signer
	Algorithm, KeyID string

	// SecretExpires is when the secret ends; zero if never.
	SecretExpires time.Time
}

// The ways of client authentication.
const (
	MethodNone  = "none"
	MethodBasic = "client_secret_basic"
	MethodPost  = "client_secret_post"
	MethodKey   = "private_key_jwt"
)

const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// assertionTime is how long an assertion is good for.
const assertionTime = 5 * time.Minute

// method returns how the client authenticates at the server.
func (who *Credentials) method(as *Metadata) (string, error) {
	if who.Method != "" {
		return who.Method, nil
	}
	offered := as.TokenAuthMethods
	if len(offered) == 0 {
		offered = []string{MethodBasic}
		if who.Key != nil {
			offered = []string{MethodKey}
		}
	}
	var can []string
	if who.Key != nil {
		can = append(can, MethodKey)
	}
	if who.Secret != "" {
		can = append(can, MethodBasic, MethodPost)
	}
	if len(can) == 0 {
		return MethodNone, nil
	}
	for _, m := range append(can, MethodNone) {
		if slices.Contains(offered, m) {
			return m, nil
		}
	}
	return "", fmt.Errorf("the authorization server offers no client authentication that we can do: it has %s", short(strings.Join(offered, ", ")))
}

// authenticate adds to a request who sends it.
func (who *Credentials) authenticate(as *Metadata, form url.Values, header http.Header) error {
	method, err := who.method(as)
	if err != nil {
		return err
	}
	if who.ID == "" && method != MethodNone {
		return errors.New("client authentication needs a client id")
	}
	switch method {
	case MethodNone:
		if who.ID != "" {
			form.Set("client_id", who.ID)
		}
	case MethodBasic:
		pair := url.QueryEscape(who.ID) + ":" + url.QueryEscape(who.Secret)
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	case MethodPost:
		form.Set("client_id", who.ID)
		form.Set("client_secret", who.Secret)
	case MethodKey:
		assertion, err := who.assertion(as, time.Now())
		if err != nil {
			return err
		}
		form.Set("client_id", who.ID)
		form.Set("client_assertion_type", assertionType)
		form.Set("client_assertion", assertion)
	default:
		return fmt.Errorf("client authentication %q is not supported", short(method))
	}
	return nil
}

// assertion returns a JWT that says who we are (RFC 7523, section 3). It is for the issuer, not
// for its token endpoint: another server's endpoint could be behind that.
func (who *Credentials) assertion(as *Metadata, now time.Time) (string, error) {
	if who.Key == nil {
		return "", errors.New("client authentication with private_key_jwt needs a key")
	}
	alg, err := who.algorithm(as.TokenAuthAlgorithms)
	if err != nil {
		return "", err
	}
	header, err := segment(struct {
		Alg string `json:"alg"`
		Typ string `json:"typ"`
		Kid string `json:"kid,omitempty"`
	}{alg.name, "JWT", who.KeyID})
	if err != nil {
		return "", err
	}
	claims, err := segment(map[string]any{
		"iss": who.ID, "sub": who.ID, "aud": as.Issuer, "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(assertionTime).Unix(),
	})
	if err != nil {
		return "", err
	}
	signature, err := alg.sign(who.Key, []byte(header+"."+claims))
	if err != nil {
		return "", fmt.Errorf("signing the client assertion: %w", err)
	}
	return header + "." + claims + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

func segment(v any) (string, error) {
	text, err := json.Marshal(v)
	return base64.RawURLEncoding.EncodeToString(text), err
}

// An algorithm is one of JWS.
type algorithm struct {
	name  string
	hash  crypto.Hash
	pss   bool
	curve elliptic.Curve // nil unless it is ECDSA
}

var algorithms = []algorithm{
	{name: "RS256", hash: crypto.SHA256},
	{name: "PS256", hash: crypto.SHA256, pss: true},
	{name: "ES256", hash: crypto.SHA256, curve: elliptic.P256()},
	{name: "ES384", hash: crypto.SHA384, curve: elliptic.P384()},
	{name: "ES512", hash: crypto.SHA512, curve: elliptic.P521()},
	{name: "EdDSA"},
}

// fits reports whether the algorithm is one for the key.
func (a *algorithm) fits(key crypto.PublicKey) bool {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return a.curve == nil && a.hash != 0
	case *ecdsa.PublicKey:
		return a.curve != nil && a.curve == k.Curve
	case ed25519.PublicKey:
		return a.hash == 0
	}
	return false
}

// algorithm returns the configured one, or the first that fits the key and is offered.
func (who *Credentials) algorithm(offered []string) (*algorithm, error) {
	public := who.Key.Public()
	for i := range algorithms {
		a := &algorithms[i]
		switch {
		case !a.fits(public):
		case a.name == who.Algorithm, who.Algorithm == "" && (len(offered) == 0 || slices.Contains(offered, a.name)):
			return a, nil
		}
	}
	if who.Algorithm != "" {
		return nil, fmt.Errorf("the algorithm %q does not fit the client's key", short(who.Algorithm))
	}
	return nil, fmt.Errorf("the authorization server takes no algorithm of the client's key: it has %s", short(strings.Join(offered, ", ")))
}

func (a *algorithm) sign(key crypto.Signer, text []byte) ([]byte, error) {
	var o crypto.SignerOpts = a.hash
	if a.pss {
		o = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: a.hash}
	}
	if a.hash != 0 {
		h := a.hash.New()
		h.Write(text)
		text = h.Sum(nil)
	}
	signature, err := key.Sign(rand.Reader, text, o)
	if err != nil || a.curve == nil {
		return signature, err
	}
	var pair struct{ R, S *big.Int } // JWS wants the two numbers, each of full length
	if _, err := asn1.Unmarshal(signature, &pair); err != nil {
		return nil, err
	}
	size := (a.curve.Params().BitSize + 7) / 8
	return append(pair.R.FillBytes(make([]byte, size)), pair.S.FillBytes(make([]byte, size))...), nil
}

// ParseKey returns the private key in a PEM text. Its errors hold nothing of the text.
func ParseKey(text []byte) (crypto.Signer, error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return nil, errors.New("there is no private key in PEM form")
		}
		var key any
		var err error
		switch block.Type {
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "ENCRYPTED PRIVATE KEY":
			return nil, errors.New("the private key is encrypted: decrypt it first")
		default:
			continue
		}
		if block.Headers["DEK-Info"] != "" {
			return nil, errors.New("the private key is encrypted: decrypt it first")
		}
		signer, ok := key.(crypto.Signer)
		if err != nil || !ok {
			return nil, errors.New("the private key cannot be read")
		}
		if !slices.ContainsFunc(algorithms, func(a algorithm) bool { return a.fits(signer.Public()) }) {
			return nil, errors.New("the private key is of a kind that signs no assertions: use RSA, P-256, P-384, P-521 or Ed25519")
		}
		return signer, nil
	}
}
