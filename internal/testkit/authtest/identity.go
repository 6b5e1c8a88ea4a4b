package authtest

import (
	"maps"
	"net/http"
	"strings"
	"time"
)

// SetUser says who signs in from now on, and what is told of that one: all but sub may be
// anything. It is told of those who have signed in before, too.
func (s *Server) SetUser(claims map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.user = maps.Clone(claims)
}

// idToken returns an ID token of the user. The caller has the lock.
func (s *Server) idToken(f *family) string {
	now := time.Now()
	claims := map[string]any{"iss": s.Issuer, "aud": f.client, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	if f.nonce != "" {
		claims["nonce"] = f.nonce
	}
	maps.Copy(claims, s.user)
	s.opts.Change("id_token", claims)
	return s.keys[0].Sign(map[string]any{"typ": "JWT"}, claims)
}

// userinfo tells who has an access token.
func (s *Server) userinfo(w http.ResponseWriter, r *http.Request) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	s.mu.Lock()
	s.count("userinfo")
	f, doc := s.access[token], maps.Clone(s.user)
	ok := f != nil && !f.revoked && time.Now().Before(f.expires)
	s.mu.Unlock()
	if !ok {
		reply(w, http.StatusUnauthorized, map[string]string{"error": "invalid_token"})
		return
	}
	s.opts.Change("userinfo", doc)
	reply(w, http.StatusOK, doc)
}
