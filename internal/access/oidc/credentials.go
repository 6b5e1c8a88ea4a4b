package oidc

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Credentials identify a client at an authorization server.
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

// assertionTime is how long an assertion is valid.
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
	token := jwt.NewWithClaims(alg.method, jwt.MapClaims{
		"iss": who.ID, "sub": who.ID, "aud": as.Issuer, "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(assertionTime).Unix(),
	})
	token.Header["alg"] = alg.name
	if who.KeyID != "" {
		token.Header["kid"] = who.KeyID
	}
	signed, err := token.SignedString(who.Key)
	if err != nil {
		return "", fmt.Errorf("signing the client assertion: %w", err)
	}
	return signed, nil
}

// algorithm returns the configured algorithm, or the first that fits the key and is offered.
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
	return nil, fmt.Errorf("the authorization server accepts no algorithm of the client's key: it has %s", short(strings.Join(offered, ", ")))
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
