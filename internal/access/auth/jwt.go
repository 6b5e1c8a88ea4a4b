package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
)

// maxTries is how many keys a signature is tried with: of the same name, or if the token
// names none of those that fit.
const maxTries = 8

// JWTOptions says which signed tokens are accepted (RFC 9068, RFC 7519).
type JWTOptions struct {
	ClaimOptions

	// KeysURL is where the issuer's keys are (RFC 7517), or KeysFile a file that has them.
	// If both are empty, the issuer's metadata say where.
	KeysURL, KeysFile string

	// KeysFor is how long keys are used after they were fetched last, if they cannot be
	// fetched again: an hour if it is zero, and ten seconds at least. After that no token
	// can be verified.
	KeysFor time.Duration

	// Algorithms are those that are accepted. If there are none, all that are known are:
	// see [Algorithms].
	Algorithms []string

	// Network is how the issuer is reached.
	Network oidc.Network

	// Logger is told when keys cannot be fetched. It may be nil.
	Logger *slog.Logger
}

// An algorithm of signatures, and which keys are for it.
type algorithm struct {
	method jwt.SigningMethod
	fits   func(key any) bool
}

// algorithms are all with a key of their own for who verifies. There is none whose key is a
// secret, and not "none".
var algorithms = map[string]algorithm{
	"RS256": {jwt.SigningMethodRS256, isRSA}, "RS384": {jwt.SigningMethodRS384, isRSA}, "RS512": {jwt.SigningMethodRS512, isRSA},
	"PS256": {jwt.SigningMethodPS256, isRSA}, "PS384": {jwt.SigningMethodPS384, isRSA}, "PS512": {jwt.SigningMethodPS512, isRSA},
	"ES256": {jwt.SigningMethodES256, onCurve(elliptic.P256())},
	"ES384": {jwt.SigningMethodES384, onCurve(elliptic.P384())},
	"ES512": {jwt.SigningMethodES512, onCurve(elliptic.P521())},
	"EdDSA": {jwt.SigningMethodEdDSA, isEd25519}, "Ed25519": {jwt.SigningMethodEdDSA, isEd25519},
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

// Algorithms returns the names of all algorithms that are known.
func Algorithms() []string { return slices.Sorted(maps.Keys(algorithms)) }

// A JWT verifies signed tokens of one issuer. Any number of goroutines may use it.
type JWT struct {
	reader     *claimReader
	algorithms []string
	keys       *keyStore
}

// NewJWT returns a verifier, which the caller closes. Keys are fetched when the first token
// comes; those in a file are looked at here, too.
func NewJWT(o *JWTOptions) (*JWT, error) {
	reader, err := o.reader("jwt")
	if err != nil {
		return nil, err
	}
	j := &JWT{reader: reader, algorithms: o.Algorithms}
	if len(j.algorithms) == 0 {
		j.algorithms = Algorithms()
	}
	for _, name := range j.algorithms {
		if _, ok := algorithms[name]; !ok {
			return nil, fmt.Errorf("auth: the algorithm %q is not supported; there are %s", name, strings.Join(Algorithms(), ", "))
		}
	}
	if j.keys, err = newKeyStore(o); err != nil {
		return nil, err
	}
	return j, nil
}

// Close ends what the verifier does in the background. It is not used after that.
func (j *JWT) Close() { j.keys.close() }

// verify implements Verifier. What costs nothing is looked at first, the signature last.
func (j *JWT) verify(ctx context.Context, token string) (*identity, error) {
	t, ok := parseJWS(token)
	if !ok || t.claims["iss"] != j.reader.issuer {
		return nil, errForeign
	}
	if err := j.checkHeader(t); err != nil {
		return nil, err
	}
	id, err := j.reader.identity(t.claims, time.Now())
	if err != nil {
		return nil, err
	}
	if err := j.checkSignature(ctx, t); err != nil {
		return nil, err
	}
	return id, nil
}

// checkSignature checks that the issuer has signed a token whose algorithm is accepted.
func (j *JWT) checkSignature(ctx context.Context, t *jws) error {
	keys, err := j.keys.find(ctx, t.alg, t.kid)
	if err != nil {
		return err
	}
	if len(keys) > maxTries {
		return invalid("the token does not say with which key it is signed (kid), and the issuer has more than %d", maxTries)
	}
	for _, k := range keys {
		if algorithms[t.alg].method.Verify(t.signed, t.signature, k.public) == nil {
			return nil
		}
	}
	return invalid("the signature of the token is wrong")
}

// checkHeader looks at what a token says of itself. Keys in there, or where to get some, do
// not count.
func (j *JWT) checkHeader(t *jws) error {
	typ := strings.TrimPrefix(strings.ToLower(t.typ), "application/")
	_, critical := t.header["crit"]
	_, encoding := t.header["b64"]
	switch {
	case !slices.Contains(j.algorithms, t.alg):
		return invalid("the token is not signed in a way that is accepted here (alg)")
	case critical || encoding:
		return invalid("the token needs something that is not known here (crit)")
	case typ != "" && typ != "jwt" && typ != "at+jwt":
		return invalid("this is no access token, but one for something else (typ)")
	}
	return nil
}

// A jws is a signed token in its three parts, not verified.
type jws struct {
	header        claimSet
	alg, kid, typ string // of the header
	claims        claimSet
	signed        string // the first two parts, as they came
	signature     []byte
}

// parseJWS reads a token, and reports whether it is one in the shape of a JWT. It is the only
// one who does: what is verified and what is looked at cannot be two things.
func parseJWS(token string) (*jws, bool) {
	last := strings.LastIndexByte(token, '.')
	if len(token) > maxToken || last < 0 {
		return nil, false
	}
	t := &jws{signed: token[:last]}
	header, claims, ok := strings.Cut(t.signed, ".")
	if !ok {
		return nil, false
	}
	var err error
	if t.header, err = decodePart(header); err != nil {
		return nil, false
	}
	if t.claims, err = decodePart(claims); err != nil {
		return nil, false
	}
	if t.signature, err = decode64(token[last+1:]); err != nil {
		return nil, false
	}
	for name, to := range map[string]*string{"alg": &t.alg, "kid": &t.kid, "typ": &t.typ} {
		if v, there := t.header[name]; there {
			if *to, ok = v.(string); !ok {
				return nil, false
			}
		}
	}
	return t, true
}

func decodePart(text string) (claimSet, error) {
	plain, err := decode64(text)
	if err != nil {
		return nil, err
	}
	return decodeObject(plain)
}
