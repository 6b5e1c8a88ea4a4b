package authserver_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/access/auth"
	"github.com/dragoman-mcp/dragoman/internal/access/authserver"
	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
	"github.com/dragoman-mcp/dragoman/internal/gateway/store"
	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/certtest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/internal/util/limit"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/internal/wire/token"
)

const us = "https://mcp.example.com"

// A world has a provider, the server in front of it, and a network in memory that has both.
type world struct {
	t        *testing.T
	provider *authtest.Server
	server   *authserver.Server
	policy   *auth.Policy
	opts     authserver.Options
	docs     map[string]string // metadata documents of clients, by URL
	log      bytes.Buffer

	inside http.RoundTripper // leads to the provider

	mu     sync.Mutex
	events []string
	dialed []string // addresses of documents
}

// newWorld returns a world, with other options if change is not nil.
func newWorld(t *testing.T, provider authtest.Options, change func(*authserver.Options)) *world {
	t.Helper()
	l := memnet.Listen()
	inside := &http.Transport{DialContext: l.DialContext}
	t.Cleanup(inside.CloseIdleConnections)
	provider.Identity, provider.Listener = true, l
	w := &world{t: t, provider: authtest.New(t, &provider), docs: make(map[string]string), inside: inside}
	w.opts = authserver.Options{
		URL: us, Key: []byte(rand.Text() + rand.Text())[:token.KeySize], Store: store.NewMemory(nil),
		Scopes: []string{"read", "write"}, Network: w.internet(), Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
		Provider: authserver.Provider{
			ClaimOptions: auth.ClaimOptions{Issuer: w.provider.Issuer}, ClientID: "client", ClientSecret: "secret",
			Scopes: []string{"openid", "email"}, Network: oidc.Network{Dial: l.DialContext, Proxy: http.ProxyURL(nil)},
		},
		Rate:    limit.Rate{Count: limit.MaxCount, Per: time.Second},
		Revoked: func(hashes ...[32]byte) { w.policy.Doubt(hashes...) },
		OnEvent: func(kind, who, _ string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, strings.TrimSpace(kind+" "+who))
		},
	}
	if change != nil {
		change(&w.opts)
	}
	w.start()
	return w
}

// start starts the server, in place of the one before: what it knows is in its store.
func (w *world) start() {
	w.t.Helper()
	if w.server != nil {
		w.server.Close()
	}
	s, err := authserver.New(&w.opts)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.server == nil {
		w.t.Cleanup(func() { w.server.Close() })
	}
	w.server = s
	w.policy = auth.New(&auth.Options{URL: w.opts.URL, Verifiers: []auth.Verifier{s.Verifier()}, Issuers: []string{s.Issuer()}}, limit.Rate{Count: 1 << 20, Per: time.Second}, nil)
}

// happened returns what has, since the last time.
func (w *world) happened() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := strings.Join(w.events, ", ")
	w.events = nil
	return all
}

// RoundTrip leads requests to the server, or to the provider.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme+"://"+r.URL.Host != w.opts.URL {
		return w.inside.RoundTrip(r)
	}
	rec := httptest.NewRecorder()
	in := httptest.NewRequest(r.Method, r.URL.String(), r.Body).WithContext(r.Context())
	in.Header = r.Header.Clone()
	if f := w.server.At(in.URL.Path); f != nil {
		f(rec, in)
	} else {
		http.NotFound(rec, in)
	}
	return rec.Result(), nil
}

// internet returns a network whose hosts have the documents. All of them have a public address,
// but those whose name begins with "inside".
func (w *world) internet() oidc.Network {
	l := memnet.Listen()
	authority := certtest.New(w.t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		text, ok := w.docs["https://"+r.Host+r.URL.String()]
		if to, redirects := strings.CutPrefix(text, "location "); redirects {
			http.Redirect(rw, r, to, http.StatusFound)
		} else if ok {
			_, _ = io.WriteString(rw, text)
		} else {
			http.NotFound(rw, r)
		}
	}))
	_ = server.Listener.Close()
	server.Listener, server.TLS = l, &tls.Config{Certificates: []tls.Certificate{authority.Pair(w.t, "documents", "*.example.com")}}
	server.StartTLS()
	w.t.Cleanup(server.Close)
	return oidc.Network{
		TLS: &tls.Config{RootCAs: authority.Pool()},
		Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
			if strings.HasPrefix(host, "inside") {
				return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
			}
			return []netip.Addr{netip.MustParseAddr("8.8.4.4")}, nil
		},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			w.mu.Lock()
			w.dialed = append(w.dialed, address)
			w.mu.Unlock()
			return l.DialContext(ctx, network, address)
		},
	}
}

func (w *world) browser() *authtest.Browser {
	b := authtest.NewBrowser(w)
	b.Stop = func(u *url.URL) bool { return u.Host != "mcp.example.com" && u.Host != "127.0.0.1" }
	return b
}

// do makes a request to the server, and returns the answer as JSON.
func (w *world) do(method, path, kind, body string, header http.Header) (int, map[string]any, http.Header) {
	w.t.Helper()
	req, err := http.NewRequest(method, w.opts.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := w.RoundTrip(req.WithContext(w.t.Context()))
	if err != nil {
		w.t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	var doc map[string]any
	_ = json.Unmarshal(text, &doc)
	return resp.StatusCode, doc, resp.Header
}

func (w *world) post(path string, form url.Values) (int, map[string]any) {
	w.t.Helper()
	status, doc, _ := w.do(http.MethodPost, path, "application/x-www-form-urlencoded", form.Encode(), nil)
	return status, doc
}

// admit returns the status that a token gets at a path.
func (w *world) admit(path, token string) int {
	w.t.Helper()
	r := httptest.NewRequest(http.MethodPost, w.opts.URL+path, http.NoBody).WithContext(w.t.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	_, err := w.policy.Caller(r)
	if refusal, ok := errors.AsType[*httpserver.Refusal](err); ok {
		return refusal.Status
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return http.StatusOK
}

// A program is a client.
type program struct {
	w                  *world
	id, secret         string
	redirect, verifier string
	key                *authtest.Key // by which it proves who it is; nil if it does not
}

// register registers a program with redirect URIs, of which it uses the first.
func (w *world) register(redirects ...string) *program {
	w.t.Helper()
	return w.registerAs(map[string]any{"client_name": "Some program", "redirect_uris": redirects})
}

func (w *world) registerAs(doc map[string]any) *program {
	w.t.Helper()
	text, err := json.Marshal(doc)
	if err != nil {
		w.t.Fatal(err)
	}
	status, answer, _ := w.do(http.MethodPost, "/oauth/register", "application/json", string(text), nil)
	if status != http.StatusCreated {
		w.t.Fatalf("registration: %d %v", status, answer)
	}
	p := &program{w: w, id: answer["client_id"].(string), verifier: rand.Text() + rand.Text()}
	p.secret, _ = answer["client_secret"].(string)
	p.redirect = answer["redirect_uris"].([]any)[0].(string)
	return p
}

// authorizeURL returns where a sign-in begins. Parameters are replaced, or left out if they
// are "-".
func (p *program) authorizeURL(other url.Values) string {
	sum := sha256.Sum256([]byte(p.verifier))
	q := url.Values{
		"response_type": {"code"}, "client_id": {p.id}, "redirect_uri": {p.redirect}, "state": {"the state"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"}, "resource": {us + "/mcp"},
	}
	for name, values := range other {
		if q[name] = values; len(values) == 1 && values[0] == "-" {
			q.Del(name)
		}
	}
	return p.w.opts.URL + "/oauth/authorize?" + q.Encode()
}

// visit has a browser sign in, and returns where it ends.
func (p *program) visit(b *authtest.Browser, other url.Values) *authtest.Page {
	p.w.t.Helper()
	page, err := b.Visit(p.authorizeURL(other))
	if err != nil {
		p.w.t.Fatal(err)
	}
	return page
}

// code signs in and returns the code.
func (p *program) code(b *authtest.Browser, other url.Values) string {
	p.w.t.Helper()
	page := p.visit(b, other)
	code := page.URL.Query().Get("code")
	if code == "" || page.Status != 0 {
		p.w.t.Fatalf("the browser ends at %s, status %d: %s\n%s", page.URL, page.Status, page.Body, p.w.log.String())
	}
	return code
}

func (p *program) auth(form url.Values) url.Values {
	form.Set("client_id", p.id)
	if p.key != nil {
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", p.assertion(nil, nil))
	}
	if p.secret != "" {
		form.Set("client_secret", p.secret)
	}
	return form
}

func (p *program) exchange(code string) (int, map[string]any) {
	p.w.t.Helper()
	return p.w.post("/oauth/token", p.auth(url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {p.redirect}, "code_verifier": {p.verifier}, "resource": {us + "/mcp"},
	}))
}

func (p *program) refresh(token string) (int, map[string]any) {
	p.w.t.Helper()
	return p.w.post("/oauth/token", p.auth(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}))
}

// tokens are what a program has after a sign-in.
type tokens struct{ access, refresh string }

func tokensOf(t *testing.T, status int, doc map[string]any) tokens {
	t.Helper()
	access, _ := doc["access_token"].(string)
	refresh, _ := doc["refresh_token"].(string)
	if status != http.StatusOK || access == "" || refresh == "" {
		t.Fatalf("tokens: %d %v", status, doc)
	}
	return tokens{access, refresh}
}

// signIn signs in, and returns the tokens.
func (p *program) signIn(b *authtest.Browser) tokens {
	p.w.t.Helper()
	status, doc := p.exchange(p.code(b, nil))
	return tokensOf(p.w.t, status, doc)
}

// A spyStore remembers what it was given.
type spyStore struct {
	eventlog.Records
	seen []string
}

func (s *spyStore) Put(ctx context.Context, key string, record []byte, expected uint64) (uint64, error) {
	s.seen = append(s.seen, string(record))
	return s.Records.Put(ctx, key, record, expected)
}
