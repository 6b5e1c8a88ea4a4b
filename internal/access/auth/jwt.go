package auth

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
)

// JWTOptions says which signed tokens are accepted (RFC 9068, RFC 7519).
type JWTOptions struct {
	ClaimOptions

	// Keys are those of the issuer. Its Issuer is that of the ClaimOptions.
	Keys oidc.KeySetOptions

	// Algorithms are the accepted signature algorithms. If empty, all of [oidc.Algorithms] are accepted.
	Algorithms []string
}

// A JWT verifies signed tokens of one issuer. Any number of goroutines may use it.
type JWT struct {
	reader     *claimReader
	algorithms []string
	keys       *oidc.KeySet
}

// NewJWT returns a verifier, which the caller closes. Keys are fetched with the first token;
// those in a file are read immediately, too.
func NewJWT(o *JWTOptions) (*JWT, error) {
	reader, err := o.reader("jwt")
	if err != nil {
		return nil, err
	}
	known := oidc.Algorithms()
	j := &JWT{reader: reader, algorithms: o.Algorithms}
	if len(j.algorithms) == 0 {
		j.algorithms = known
	}
	for _, name := range j.algorithms {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("auth: the algorithm %q is not supported; there are %s", name, strings.Join(known, ", "))
		}
	}
	keys := o.Keys
	keys.Issuer = o.Issuer
	if j.keys, err = oidc.NewKeySet(&keys); err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	return j, nil
}

// Close ends what the verifier does in the background. It is not used after that.
func (j *JWT) Close() { j.keys.Close() }

// verify implements Verifier. The signature is checked last, because it costs most.
func (j *JWT) verify(ctx context.Context, token string) (*identity, error) {
	t, ok := oidc.ParseJWS(token)
	if !ok || t.Claims["iss"] != j.reader.issuer {
		return nil, errForeign
	}
	if err := t.Check(j.algorithms, "at+jwt"); err != nil {
		return nil, err
	}
	id, err := j.reader.identity(t.Claims, time.Now())
	if err != nil {
		return nil, err
	}
	if err := j.keys.Verify(ctx, t); err != nil {
		return nil, err
	}
	return id, nil
}
