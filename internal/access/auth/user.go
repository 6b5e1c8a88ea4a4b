package auth

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
)

// A UserReader makes identities of the claims of a provider.
type UserReader struct{ *claimReader }

// NewUserReader returns a reader of the claims of one provider.
func NewUserReader(o *ClaimOptions) (*UserReader, error) {
	r, err := o.reader("sign-in")
	if err != nil {
		return nil, err
	}
	return &UserReader{r}, nil
}

// Complete reports whether the claims have all that the identity is made of.
func (r *UserReader) Complete(c oidc.Claims) bool {
	has := func(path string) bool { return c.At(path) != nil }
	return has(r.principal) && slices.ContainsFunc(r.groups, has)
}

// Names reports whether a principal is a user of the provider.
func (r *UserReader) Names(principal string) bool {
	return strings.HasPrefix(principal, userPrefix) && strings.HasSuffix(principal, r.suffix())
}

// Identity returns the user whom claims are about, without scopes and expiry.
func (r *UserReader) Identity(c oidc.Claims) (*Identity, error) {
	if n, ok := c.At(r.principal).(json.Number); ok { // as some number their users
		c = maps.Clone(c)
		c[r.principal] = n.String()
	}
	principal, err := r.user(c)
	if err != nil {
		return nil, err
	}
	claims, err := r.keep(c)
	if err != nil {
		return nil, err
	}
	return &Identity{Principal: principal, Credential: r.proof, Claims: claims}, nil
}
