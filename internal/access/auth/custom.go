package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
)

// An Identity is what somebody else says of who sends a token.
type Identity struct {
	Principal  string // unambiguous among all ways in
	Credential string // which way it was
	Scopes     []string
	Claims     map[string][]string
	Audience   []string  // for whom the token is; nil means for us
	Expires    time.Time // zero means never
}

// ErrUnavailable is wrapped by the error of a [Custom] verifier that cannot tell now.
var ErrUnavailable = errors.New("auth: tokens cannot be verified now")

// Custom returns a verifier that asks find. That returns nil for a token which is not of its
// kind; its error is told to whoever sent the token, unless it is [ErrUnavailable].
func Custom(find func(ctx context.Context, token string) (*Identity, error)) Verifier {
	return custom(find)
}

type custom func(ctx context.Context, token string) (*Identity, error)

func (f custom) verify(ctx context.Context, token string) (*identity, error) {
	id, err := f(ctx, token)
	switch {
	case errors.Is(err, ErrUnavailable):
		return nil, &oidc.UnavailableError{Err: err}
	case err != nil:
		return nil, oidc.Invalid("%v", err)
	case id == nil:
		return nil, errForeign
	}
	return &identity{
		principal: id.Principal, proof: id.Credential, scopes: id.Scopes, claims: id.Claims, audience: id.Audience, expires: id.Expires,
	}, nil
}

// Doubt has tokens verified again, given by their digests: whoever has revoked some of them
// says so by it, and the streams of their callers end.
func (p *Policy) Doubt(hashes ...[sha256.Size]byte) {
	for _, h := range hashes {
		p.proofs.doubtOne(h)
	}
}
