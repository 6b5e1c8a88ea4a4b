package auth

import (
	"errors"
	"net/http"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
)

// maxToken is how long a token may be. Headers of a request are 16 KiB at most.
const maxToken = 8 << 10

var (
	// errForeign is what a verifier says of a token that is not one of its kind: another
	// one may know it.
	errForeign = errors.New("auth: not a token of this kind")

	// errNone says that a request has no proof.
	errNone = errors.New("auth: no proof")
)

func isInvalid(err error) bool {
	_, ok := errors.AsType[*oidc.InvalidError](err)
	return ok || errors.Is(err, errForeign)
}

// bearer returns the token of a request. The error is errNone if it has none.
func bearer(r *http.Request) (string, error) {
	values := r.Header["Authorization"]
	switch {
	case len(values) == 0:
		return "", errNone
	case len(values) > 1:
		return "", oidc.Invalid("the Authorization header is there more than once")
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.Trim(token, " ")
	switch {
	case !strings.EqualFold(scheme, "Bearer"):
		return "", oidc.Invalid("send the token as Authorization: Bearer TOKEN")
	case len(token) > maxToken:
		return "", oidc.Invalid("the token is longer than %d bytes", maxToken)
	case !isToken68(token):
		return "", oidc.Invalid("the token has characters that no token has")
	}
	return token, nil
}

// isToken68 reports whether a text is one that the scheme allows (RFC 6750, 2.1).
func isToken68(s string) bool {
	body := strings.TrimRight(s, "=")
	for _, c := range []byte(body) {
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && !strings.ContainsRune("-._~+/", rune(c)) {
			return false
		}
	}
	return body != ""
}
