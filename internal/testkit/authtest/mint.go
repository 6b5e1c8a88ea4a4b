package authtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// A Key signs tokens.
type Key struct {
	ID, Algorithm string
	Private       crypto.Signer
}

// NewKey returns a new key for an algorithm: "ES256", "RS256", "EdDSA" and so on.
func NewKey(algorithm string) *Key {
	k := &Key{ID: rand.Text(), Algorithm: algorithm}
	var err error
	switch algorithm {
	case "ES256":
		k.Private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		k.Private, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ES512":
		k.Private, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "EdDSA":
		_, k.Private, err = ed25519.GenerateKey(rand.Reader)
	case "RS256", "RS384", "RS512", "PS256", "PS384", "PS512":
		k.Private, err = rsa.GenerateKey(rand.Reader, 2048)
	default:
		err = fmt.Errorf("authtest: no keys for %q", algorithm)
	}
	if err != nil {
		panic(err) // the test is wrong
	}
	return k
}

// JWK returns the public key as others read it.
func (k *Key) JWK() map[string]any {
	set := map[string]any{"kid": k.ID, "alg": k.Algorithm, "use": "sig"}
	text := base64.RawURLEncoding.EncodeToString
	switch public := k.Private.Public().(type) {
	case *ecdsa.PublicKey:
		point, _ := public.Bytes() // of a curve that is known
		half := (len(point) - 1) / 2
		set["kty"], set["crv"], set["x"], set["y"] = "EC", public.Params().Name, text(point[1:1+half]), text(point[1+half:])
	case ed25519.PublicKey:
		set["kty"], set["crv"], set["x"] = "OKP", "Ed25519", text(public)
	case *rsa.PublicKey:
		set["kty"], set["n"], set["e"] = "RSA", text(public.N.Bytes()), text(big.NewInt(int64(public.E)).Bytes())
	}
	return set
}

// Sign returns a token. Members of the header are replaced, or left out if they are nil.
func (k *Key) Sign(header, claims map[string]any) string {
	t := jwt.NewWithClaims(jwt.GetSigningMethod(k.Algorithm), jwt.MapClaims(claims))
	t.Header["kid"], t.Header["typ"] = k.ID, "at+jwt"
	merge(t.Header, header)
	text, err := t.SignedString(k.Private)
	if err != nil {
		panic(err) // the test is wrong
	}
	return text
}

func merge(to, from map[string]any) {
	maps.Copy(to, from)
	maps.DeleteFunc(to, func(_ string, v any) bool { return v == nil })
}

// Claims returns what tokens say: they are for the resource, of "user", and for an hour, or
// as long as access tokens last. Those that are given are put in, or left out if they are nil.
func (s *Server) Claims(claims map[string]any) map[string]any {
	now := time.Now()
	all := map[string]any{
		"iss": s.Issuer, "sub": "user", "aud": s.URL, "client_id": "client", "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(s.opts.Lifetime).Unix(),
	}
	merge(all, claims)
	return all
}

// Mint returns a JWT, which is signed with the newest key. See [Server.Claims].
func (s *Server) Mint(claims map[string]any) string {
	return s.Key().Sign(nil, s.Claims(claims))
}

// MintOpaque returns a token that only the introspection endpoint can tell about. It is
// good until [Server.Expire] or [Server.Revoke].
func (s *Server) MintOpaque(claims map[string]any) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	token := s.secret("access_token", "opaque-"+rand.Text())
	s.opaque[token] = s.Claims(claims)
	return token
}

// Key returns the key that tokens are signed with.
func (s *Server) Key() *Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[0]
}

// Rotate has tokens signed with another key from now on. The old ones are published as long
// as they are to be kept.
func (s *Server) Rotate(keep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !keep {
		s.keys = nil
	}
	s.keys = append([]*Key{NewKey(s.opts.Algorithm)}, s.keys...)
}

// Leave has the whole server hang up on everybody from now on, or not.
func (s *Server) Leave(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

// present serves requests unless the server is away.
func (s *Server) present(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		away := s.away
		if away {
			s.count("away")
		}
		s.mu.Unlock()
		if away {
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) serveKeys(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	s.count("keys")
	list := make([]any, len(s.keys))
	for i, k := range s.keys {
		list[i] = k.JWK()
	}
	s.mu.Unlock()
	doc := map[string]any{"keys": list}
	s.opts.Change("keys", doc)
	reply(w, http.StatusOK, doc)
}

// introspect tells about tokens (RFC 7662), to "client" or whoever has an access token.
func (s *Server) introspect(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	s.learn(r)
	doc := s.tell(r)
	if doc == nil {
		reply(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
		return
	}
	s.opts.Change("introspection", doc)
	reply(w, http.StatusOK, doc)
}

// tell returns what is known of a token, or nil if who asks may not know.
func (s *Server) tell(r *http.Request) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count("introspect")
	id, secret, ok := r.BasicAuth()
	if !ok {
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if s.access[bearer] == nil && (id == "" || secret == "" || s.clients[id].secret != secret) {
		return nil
	}
	token := r.PostForm.Get("token")
	if claims := s.opaque[token]; claims != nil {
		doc := maps.Clone(claims)
		doc["active"], doc["token_type"] = true, "Bearer"
		return doc
	}
	if f := s.access[token]; f != nil && !f.revoked && time.Now().Before(f.expires) {
		return s.Claims(map[string]any{"client_id": f.client, "scope": f.scope, "exp": f.expires.Unix(), "active": true})
	}
	return map[string]any{"active": false}
}
