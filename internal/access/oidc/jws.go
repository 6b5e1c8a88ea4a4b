package oidc

import (
	"slices"
	"strings"
)

const (
	// maxJWS is how many bytes a signed token may have. Headers of a request have 16 KiB at most.
	maxJWS = 8 << 10

	// maxTries is how many keys a signature is tried with: of the same name, or if the token
	// names none of those that fit.
	maxTries = 8
)

// A JWS is a signed token, not verified.
type JWS struct {
	Header, Claims Claims
	Algorithm      string // alg of the header

	kid, typ  string // of the header
	signed    string // the first two parts, as they came
	signature []byte
}

// ParseJWS reads a token, and reports whether it has the shape of a JWT. Nothing else reads
// tokens: what is verified and what is used cannot differ.
func ParseJWS(token string) (*JWS, bool) {
	last := strings.LastIndexByte(token, '.')
	if len(token) > maxJWS || last < 0 {
		return nil, false
	}
	t := &JWS{signed: token[:last]}
	header, claims, ok := strings.Cut(t.signed, ".")
	if !ok {
		return nil, false
	}
	var err error
	if t.Header, err = decodePart(header); err != nil {
		return nil, false
	}
	if t.Claims, err = decodePart(claims); err != nil {
		return nil, false
	}
	if t.signature, err = decode64(token[last+1:]); err != nil {
		return nil, false
	}
	for name, to := range map[string]*string{"alg": &t.Algorithm, "kid": &t.kid, "typ": &t.typ} {
		if v, there := t.Header[name]; there {
			if *to, ok = v.(string); !ok {
				return nil, false
			}
		}
	}
	return t, true
}

func decodePart(text string) (Claims, error) {
	plain, err := decode64(text)
	if err != nil {
		return nil, err
	}
	return ParseClaims(plain)
}

// Check returns an error unless a token is signed by one of the algorithms, needs no extension and
// has one of the types. It may always have none, or JWT.
func (t *JWS) Check(algorithms []string, types ...string) error {
	_, critical := t.Header["crit"]
	_, encoding := t.Header["b64"]
	switch typ := strings.TrimPrefix(strings.ToLower(t.typ), "application/"); {
	case !slices.Contains(algorithms, t.Algorithm):
		return Invalid("the token is signed by an algorithm that is not accepted (alg)")
	case critical || encoding:
		return Invalid("the token needs an extension that is not supported (crit)")
	case typ != "" && typ != "jwt" && !slices.Contains(types, typ):
		return Invalid("the token is for another purpose (typ)")
	}
	return nil
}

// matching returns those of the keys that a token may be signed with. If it names a key, one
// without a name counts only if there is no other and unnamed is set.
func (t *JWS) matching(keys []*publicKey, unnamed bool) []*publicKey {
	var named, others []*publicKey
	a := algorithmOf(t.Algorithm)
	for _, k := range keys {
		switch {
		case a == nil || !a.fits(k.public) || k.alg != "" && k.alg != a.name:
		case t.kid == "" || k.kid == t.kid:
			named = append(named, k)
		case k.kid == "":
			others = append(others, k)
		}
	}
	if len(named) == 0 && unnamed {
		return others
	}
	return named
}

// signedBy reports whether a token is signed with one of the keys. Keys are only tried if there are
// few of them.
func (t *JWS) signedBy(keys []*publicKey) bool {
	method := algorithmOf(t.Algorithm).method
	return len(keys) <= maxTries && slices.ContainsFunc(keys, func(k *publicKey) bool {
		return method.Verify(t.signed, t.signature, k.public) == nil
	})
}
