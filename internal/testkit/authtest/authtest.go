// Package authtest has an authorization server and a protected resource for tests. It
// rotates refresh tokens and revokes all tokens of a sign-in when an old one comes again,
// as the strictest do. For tests of a resource of their own it mints tokens, publishes its
// keys, and tells about tokens.
package authtest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Options say how a Server behaves.
type Options struct {
	// Lifetime of access tokens. Zero means an hour.
	Lifetime time.Duration

	// Scopes that the resource supports, and those of them that a token needs for
	// everything.
	Scopes []string
	Needs  string

	// NoRegistration takes registered clients only: "client" with "secret".
	NoRegistration bool

	// Resource is what is protected. If nil, it answers "hello".
	Resource http.Handler

	// Deny has the user refuse.
	Deny bool

	// Secret is that of the client "client". If empty, "secret".
	Secret string

	// IDToken returns the token that the server exchanges for an assertion, as an identity
	// provider does. If nil, it exchanges none.
	IDToken func() string

	// Provider is the identity provider whose assertions are taken for a token.
	Provider *Server

	// NoDevice has no sign-in by a code, and CodeInURL a page that needs no entering.
	NoDevice, CodeInURL bool

	// Algorithm is that of the keys. If empty, "ES256".
	Algorithm string

	// OpenID has the metadata where OpenID Connect has them, only.
	OpenID bool

	// Identity has the server be the identity provider of a company, which knows users and
	// not resources: it registers nobody, wants no resource, gives ID tokens to who asks for
	// openid, and tells about users. NoRefresh has it give no refresh tokens.
	Identity, NoRefresh bool

	// Change changes a document before it is sent: "resource", "metadata", "device", "keys",
	// "introspection". It is shown those that come, too: "registration".
	Change func(what string, doc map[string]any)

	// Token answers a token request in place of the server, if it reports so.
	Token func(w http.ResponseWriter, r *http.Request) bool

	// Listener is where the server is, as a network in memory. Its issuer is
	// http://127.0.0.1 then.
	Listener net.Listener
}

// A Server is an authorization server, and a resource at /mcp that it protects.
type Server struct {
	URL    string // of the resource
	Issuer string

	opts Options

	mu       sync.Mutex
	counts   map[string]int
	clients  map[string]client
	codes    map[string]grant
	access   map[string]*family
	refresh  map[string]*family
	used     map[string]*family // refresh tokens that have been rotated
	devices  map[string]*device
	asserted map[string]assertion
	resource []string // of every token request
	secrets  map[string][]string
	keys     []*Key // the newest first
	user     map[string]any
	opaque   map[string]map[string]any
	broken   bool
	away     bool
}

type client struct {
	secret    string
	redirects []string
}

type grant struct{ client, redirect, challenge, scope, nonce string }

// A family is the tokens of one sign-in.
type family struct {
	client, scope string
	nonce         string
	revoked       bool
	expires       time.Time // of the newest access token
}

type device struct {
	client, scope, code string
	granted             bool
}

// An assertion is what an identity provider has issued: where it is good, and for what.
type assertion struct{ audience, resource string }

// New starts a server, which ends with the test.
func New(t testing.TB, opts *Options) *Server {
	t.Helper()
	s, stop := Start(opts)
	t.Cleanup(stop)
	return s
}

// Start starts a server, until stop.
func Start(opts *Options) (server *Server, stop func()) {
	s := &Server{
		counts: make(map[string]int), clients: map[string]client{"client": {secret: "secret"}}, codes: make(map[string]grant),
		access: make(map[string]*family), refresh: make(map[string]*family), used: make(map[string]*family), devices: make(map[string]*device), asserted: make(map[string]assertion), secrets: make(map[string][]string),
		opaque: make(map[string]map[string]any),
	}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Secret != "" {
		s.clients["client"] = client{secret: s.opts.Secret}
	}
	if s.opts.Change == nil {
		s.opts.Change = func(string, map[string]any) {}
	}
	if s.opts.Lifetime == 0 {
		s.opts.Lifetime = time.Hour
	}
	if s.opts.Resource == nil {
		s.opts.Resource = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	}
	if s.opts.Algorithm == "" {
		s.opts.Algorithm = "ES256"
	}
	if s.opts.Identity {
		s.opts.OpenID, s.opts.NoRegistration = true, true
	}
	s.user = map[string]any{"sub": "user"}
	s.Rotate(false)
	metadata := "oauth-authorization-server"
	if s.opts.OpenID {
		metadata = "openid-configuration"
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", s.protect)
	mux.HandleFunc("/mcp/", s.protect)
	mux.HandleFunc("GET /.well-known/oauth-protected-resource/mcp", s.serveResource)
	mux.HandleFunc("GET /.well-known/"+metadata, s.serveMetadata)
	mux.HandleFunc("GET /keys", s.serveKeys)
	mux.HandleFunc("POST /introspect", s.introspect)
	mux.HandleFunc("GET /userinfo", s.userinfo)
	if !s.opts.Identity {
		mux.HandleFunc("POST /register", s.register)
	}
	mux.HandleFunc("GET /authorize", s.authorize)
	mux.HandleFunc("POST /token", s.token)
	mux.HandleFunc("POST /revoke", s.revoke)
	mux.HandleFunc("POST /device", s.device)
	mux.HandleFunc("GET /enter", func(_ http.ResponseWriter, r *http.Request) { s.Approve(r.URL.Query().Get("code")) })
	listener := httptest.NewUnstartedServer(s.present(mux))
	s.Issuer = "http://" + listener.Listener.Addr().String()
	if s.opts.Listener != nil {
		_ = listener.Listener.Close() // nobody has come
		listener.Listener, s.Issuer = s.opts.Listener, "http://127.0.0.1"
	}
	s.URL = s.Issuer + "/mcp"
	listener.Start()
	return s, listener.Close
}

// Count returns how often something has happened: "authorize", "code", "refresh",
// "reuse", "register", "revoke", "device", "credentials", "exchange", "assertion", "refused",
// "served", "metadata", "keys", "introspect", "away".
func (s *Server) Count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[what]
}

// Resources returns the resource of every token request, "" for none.
func (s *Server) Resources() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.resource)
}

// Expire ends all access tokens that there are.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.access)
	clear(s.opaque)
}

// Revoke ends all sign-ins that there are.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.access)
	clear(s.opaque)
	clear(s.refresh)
}

// Break has the token endpoint fail from now on, or not.
func (s *Server) Break(broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = broken
}

// Approve enters the code of the device that asked last.
func (s *Server) Approve(code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.devices {
		d.granted = d.granted || d.code == code
	}
}

// Secrets returns everything that was issued or sent in secret, by what it is.
func (s *Server) Secrets() map[string][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string][]string)
	for what, list := range s.secrets {
		all[what] = slices.Clone(list)
	}
	return all
}

// secret remembers a secret. The caller has the lock.
func (s *Server) secret(what, text string) string {
	if text != "" && !slices.Contains(s.secrets[what], text) {
		s.secrets[what] = append(s.secrets[what], text)
	}
	return text
}

// learn remembers the secrets of a token request.
func (s *Server) learn(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, what := range []string{"code_verifier", "client_secret", "client_assertion", "assertion", "subject_token"} {
		s.secret(what, r.PostForm.Get(what))
	}
	if _, secret, ok := r.BasicAuth(); ok {
		s.secret("client_secret", secret)
		s.secret("basic", strings.TrimPrefix(r.Header.Get("Authorization"), "Basic "))
	}
}

// Issue returns tokens of a sign-in that somebody else has made, and whose they are.
func (s *Server) Issue() (access, refresh, clientID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &family{client: "other", expires: time.Now().Add(s.opts.Lifetime)}
	s.clients[f.client] = client{}
	access, refresh = s.secret("access_token", "access-"+rand.Text()), s.secret("refresh_token", "refresh-"+rand.Text())
	s.access[access], s.refresh[refresh] = f, f
	return access, refresh, f.client
}

func (s *Server) count(what string) { s.counts[what]++ }

func (s *Server) protect(w http.ResponseWriter, r *http.Request) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	s.mu.Lock()
	f := s.access[token]
	ok := f != nil && !f.revoked && time.Now().Before(f.expires)
	what := "served"
	if !ok {
		what = "refused"
	}
	s.count(what)
	s.mu.Unlock()
	challenge := fmt.Sprintf(`Bearer resource_metadata="%s/.well-known/oauth-protected-resource/mcp"`, s.Issuer)
	need := r.URL.Query().Get("need")
	switch {
	case !ok:
		if s.opts.Needs != "" {
			challenge += fmt.Sprintf(`, scope=%q`, s.opts.Needs)
		}
		w.Header().Set("WWW-Authenticate", challenge)
		http.Error(w, "who are you?", http.StatusUnauthorized)
	case need != "" && !slices.Contains(strings.Fields(f.scope), need):
		w.Header().Set("WWW-Authenticate", challenge+fmt.Sprintf(`, error="insufficient_scope", scope=%q`, need))
		http.Error(w, "more is needed", http.StatusForbidden)
	default:
		s.opts.Resource.ServeHTTP(w, r)
	}
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, code string) {
	reply(w, http.StatusBadRequest, map[string]string{"error": code})
}

func (s *Server) serveResource(w http.ResponseWriter, _ *http.Request) {
	doc := map[string]any{"resource": s.URL, "authorization_servers": []string{s.Issuer}, "scopes_supported": s.opts.Scopes}
	s.opts.Change("resource", doc)
	reply(w, http.StatusOK, doc)
}

func (s *Server) serveMetadata(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	s.count("metadata")
	s.mu.Unlock()
	doc := map[string]any{
		"issuer": s.Issuer, "jwks_uri": s.Issuer + "/keys", "introspection_endpoint": s.Issuer + "/introspect", "authorization_endpoint": s.Issuer + "/authorize", "token_endpoint": s.Issuer + "/token",
		"revocation_endpoint": s.Issuer + "/revoke", "device_authorization_endpoint": s.Issuer + "/device",
		"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
		"token_endpoint_auth_methods_supported": []string{"none", "client_secret_basic", "private_key_jwt"}, "authorization_response_iss_parameter_supported": true,
	}
	if !s.opts.NoRegistration {
		doc["registration_endpoint"] = s.Issuer + "/register"
	}
	if s.opts.Identity {
		doc["userinfo_endpoint"] = s.Issuer + "/userinfo"
	}
	if s.opts.NoDevice {
		delete(doc, "device_authorization_endpoint")
	}
	s.opts.Change("metadata", doc)
	reply(w, http.StatusOK, doc)
}

func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		RedirectURIs  []string  `json:"redirect_uris"`
		ResponseTypes *[]string `json:"response_types"` // left out, it is "code"
	}
	text, err := io.ReadAll(r.Body)
	var doc map[string]any
	if err != nil || json.Unmarshal(text, &asked) != nil || json.Unmarshal(text, &doc) != nil {
		refuse(w, "invalid_client_metadata")
		return
	}
	s.opts.Change("registration", doc)
	if len(asked.RedirectURIs) == 0 && (asked.ResponseTypes == nil || len(*asked.ResponseTypes) > 0) {
		refuse(w, "invalid_redirect_uri")
		return
	}
	id := rand.Text()
	s.mu.Lock()
	s.count("register")
	s.clients[id] = client{redirects: asked.RedirectURIs}
	s.mu.Unlock()
	reply(w, http.StatusCreated, map[string]any{"client_id": id, "token_endpoint_auth_method": "none", "redirect_uris": asked.RedirectURIs})
}

// authorize signs in whoever comes, without a page.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count("authorize")
	c, known := s.clients[q.Get("client_id")]
	if !known || c.secret == "" && !slices.Contains(c.redirects, q.Get("redirect_uri")) || q.Get("code_challenge_method") != "S256" || !s.opts.Identity && q.Get("resource") != s.URL {
		http.Error(w, "this client may not sign in so", http.StatusBadRequest)
		return
	}
	back := url.Values{"state": {q.Get("state")}, "iss": {s.Issuer}}
	if s.opts.Deny {
		back.Set("error", "access_denied")
	} else {
		code := s.secret("code", rand.Text())
		s.codes[code] = grant{q.Get("client_id"), q.Get("redirect_uri"), q.Get("code_challenge"), q.Get("scope"), q.Get("nonce")}
		back.Set("code", code)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}
