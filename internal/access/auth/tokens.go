package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/rules"
	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
)

// A Token is a secret that lets its holder in. What is kept of it is a digest: it has
// so many random bits that this cannot be turned back.
type Token struct {
	Name    string
	Hash    [sha256.Size]byte
	Scopes  []string
	Groups  []string
	Created time.Time // zero if it is not known
	Expires time.Time // zero means never
}

// tokenPrefix is what tokens of ours begin with, so that who looks for lost secrets finds
// them.
const tokenPrefix = "dgm_"

// NewSecret returns a token that nobody can guess, and its digest.
func NewSecret() (secret string, hash [sha256.Size]byte) {
	secret = tokenPrefix + strings.ToLower(rand.Text()+rand.Text())
	return secret, sha256.Sum256([]byte(secret))
}

// minSecret is how long a token must be that somebody else has made.
const minSecret = 16

// Named returns a token that somebody else has made.
func Named(name, secret string) (Token, error) {
	if len(secret) < minSecret {
		return Token{}, fmt.Errorf("a token has fewer than %d characters, which can be guessed; make one with dragoman token new", minSecret)
	}
	if !isToken68(secret) || len(secret) > maxToken {
		return Token{}, errors.New("a token has characters that cannot be sent as a token: letters, digits and -._~+/ can; make one with dragoman token new")
	}
	return Token{Name: name, Hash: sha256.Sum256([]byte(secret))}, nil
}

var tokenName = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}$`)

// CheckName returns an error if a token cannot have a name.
func CheckName(name string) error {
	if !tokenName().MatchString(name) {
		return fmt.Errorf("%q is no name for a token: it has 1 to 64 of the characters A-Z a-z 0-9 _ . @ -, and begins with a letter or digit", name)
	}
	return nil
}

// Tokens are a Verifier of tokens that are listed.
type Tokens struct{ list map[digest]*identity }

// NewTokens returns the verifier of a list.
func NewTokens(list []Token) *Tokens {
	t := &Tokens{make(map[digest]*identity, len(list))}
	for i := range list {
		one := &list[i]
		t.list[one.Hash] = &identity{
			principal: "token:" + one.Name, proof: "token", scopes: one.Scopes, expires: one.Expires,
			claims: map[string][]string{rules.Groups: one.Groups},
		}
	}
	return t
}

func (t *Tokens) verify(_ context.Context, token string) (*identity, error) {
	// The digest is compared, so how long it takes tells nothing of a token.
	d := digest(sha256.Sum256([]byte(token)))
	id := t.list[d]
	if id == nil {
		return nil, errForeign
	}
	return id, nil
}
