package authtest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"time"
)

// token is the token endpoint.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	s.learn(r)
	if s.opts.Token != nil && s.opts.Token(w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resource = append(s.resource, r.PostForm.Get("resource"))
	if s.broken {
		http.Error(w, "out of order", http.StatusServiceUnavailable)
		return
	}
	id := r.PostForm.Get("client_id")
	if user, secret, ok := r.BasicAuth(); ok {
		if id = user; s.clients[id].secret != secret {
			refuse(w, "invalid_client")
			return
		}
	}
	switch r.PostForm.Get("grant_type") {
	case "authorization_code":
		s.count("code")
		g, ok := s.codes[r.PostForm.Get("code")]
		delete(s.codes, r.PostForm.Get("code"))
		sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
		if !ok || g.client != id || g.redirect != r.PostForm.Get("redirect_uri") || g.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
			refuse(w, "invalid_grant")
			return
		}
		s.issue(w, &family{client: id, scope: g.scope, nonce: g.nonce}, !s.opts.NoRefresh)
	case "refresh_token":
		s.rotate(w, r.PostForm.Get("refresh_token"), id)
	case "client_credentials":
		s.count("credentials")
		s.issue(w, &family{client: id, scope: r.PostForm.Get("scope")}, false)
	case "urn:ietf:params:oauth:grant-type:token-exchange":
		s.exchange(w, r)
	case "urn:ietf:params:oauth:grant-type:jwt-bearer":
		s.count("assertion")
		if !s.opts.Provider.vouches(r.PostForm.Get("assertion"), s) {
			refuse(w, "invalid_grant")
			return
		}
		s.issue(w, &family{client: id, scope: r.PostForm.Get("scope")}, false)
	case "urn:ietf:params:oauth:grant-type:device_code":
		d := s.devices[r.PostForm.Get("device_code")]
		switch {
		case d == nil || d.client != id:
			refuse(w, "invalid_grant")
		case !d.granted:
			refuse(w, "authorization_pending")
		default:
			s.issue(w, &family{client: id, scope: d.scope}, true)
		}
	default:
		refuse(w, "unsupported_grant_type")
	}
}

// exchange takes an ID token for an assertion that is good at one authorization server, for
// one resource. The caller has the lock.
func (s *Server) exchange(w http.ResponseWriter, r *http.Request) {
	s.count("exchange")
	form, kind := r.PostForm, "urn:ietf:params:oauth:token-type:id-jag"
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = form.Get("client_id"), form.Get("client_secret")
	}
	switch c, known := s.clients[id]; {
	case !known || c.secret != secret:
		refuse(w, "invalid_client")
	case s.opts.IDToken == nil || form.Get("subject_token") != s.opts.IDToken() || form.Get("subject_token_type") != "urn:ietf:params:oauth:token-type:id_token":
		refuse(w, "invalid_grant")
	case form.Get("requested_token_type") != kind:
		refuse(w, "invalid_request")
	default:
		text := s.secret("assertion", "assertion-"+rand.Text())
		s.asserted[text] = assertion{form.Get("audience"), form.Get("resource")}
		reply(w, http.StatusOK, map[string]any{"access_token": text, "issued_token_type": kind, "token_type": "N_A", "expires_in": 300})
	}
}

// vouches reports whether an identity provider has issued an assertion for a server. It is
// good once.
func (s *Server) vouches(text string, at *Server) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.asserted[text]
	delete(s.asserted, text)
	return a.audience == at.Issuer && a.resource == at.URL
}

// rotate takes a refresh token for new tokens. One that comes twice ends its family.
func (s *Server) rotate(w http.ResponseWriter, token, id string) {
	s.count("refresh")
	if f := s.used[token]; f != nil {
		s.count("reuse")
		f.revoked = true
	}
	f := s.refresh[token]
	if f == nil || f.revoked || f.client != id {
		refuse(w, "invalid_grant")
		return
	}
	delete(s.refresh, token)
	s.used[token] = f
	s.issue(w, f, true)
}

func (s *Server) issue(w http.ResponseWriter, f *family, refresh bool) {
	f.expires = time.Now().Add(s.opts.Lifetime)
	access := s.secret("access_token", "access-"+rand.Text())
	s.access[access] = f
	answer := map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": s.opts.Lifetime.Seconds()}
	if f.scope != "" {
		answer["scope"] = f.scope
	}
	if refresh {
		token := s.secret("refresh_token", "refresh-"+rand.Text())
		s.refresh[token] = f
		answer["refresh_token"] = token
	}
	if s.opts.Identity && slices.Contains(strings.Fields(f.scope), "openid") {
		answer["id_token"] = s.secret("id_token", s.idToken(f))
	}
	reply(w, http.StatusOK, answer)
}

func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count("revoke")
	for _, f := range []*family{s.refresh[r.PostForm.Get("token")], s.access[r.PostForm.Get("token")]} {
		if f != nil {
			f.revoked = true
		}
	}
}

func (s *Server) device(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count("device")
	d, code := &device{client: r.PostForm.Get("client_id"), scope: r.PostForm.Get("scope"), code: rand.Text()[:8]}, s.secret("device_code", rand.Text())
	s.devices[code] = d
	doc := map[string]any{"device_code": code, "user_code": d.code, "verification_uri": s.Issuer + "/enter", "expires_in": 300, "interval": 1}
	if s.opts.CodeInURL {
		doc["verification_uri_complete"] = s.Issuer + "/enter?code=" + d.code
	}
	s.opts.Change("device", doc)
	reply(w, http.StatusOK, doc)
}
