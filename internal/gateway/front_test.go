package gateway_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/observe"
	"github.com/dragoman-mcp/dragoman/internal/observe/audit"
	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/dragoman-mcp/dragoman/protocol"
	"log/slog"
)

// A fronted is a gateway in front of an identity provider.
type fronted struct {
	*running
	provider *authtest.Server
	listener net.Listener
	web      *httptest.Server
	text     string // of the configuration
}

// inFront starts a gateway whose users sign in at a provider, with more in its configuration.
func inFront(t *testing.T, more string) *fronted {
	t.Helper()
	return inFrontWith(t, &gateway.Options{Name: "test", Version: "1"}, more)
}

func inFrontWith(t *testing.T, opts *gateway.Options, more string) *fronted {
	t.Helper()
	peertest.NoLeak(t)
	f := &fronted{running: &running{t: t, path: filepath.Join(t.TempDir(), "dragoman.yaml")}}
	f.provider = authtest.New(t, &authtest.Options{Identity: true})
	f.listener = listenAt(t, "127.0.0.1:0")
	f.url = "http://" + f.listener.Addr().String()
	f.text = fmt.Sprintf("limits: {failedProofs: 1000000/s, signInRate: 1000000/s}\nauth:\n  url: %s\n  provider: {url: %q, scopes: [openid, offline_access]}\n  client: {id: client, secret: secret}\nservers:\n  a: {url: %q}\n%s",
		f.url, f.provider.Issuer, startBuiltin(t, protocol.LatestLegacy), more)
	f.write(f.text)
	f.up(opts)
	return f
}

func listenAt(t *testing.T, at string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// up starts the gateway on its listener.
func (f *fronted) up(opts *gateway.Options) {
	f.t.Helper()
	opts.Load = f.load
	file, report := f.load()
	if report.Err() != nil {
		f.t.Fatal(report)
	}
	made, err := observe.NewGateway(opts, file, slog.LevelInfo)
	if err != nil {
		f.t.Fatal(err)
	}
	f.Gateway = made
	f.web = httptest.NewUnstartedServer(made.Handler(nil))
	_ = f.web.Listener.Close() // nobody has come
	f.web.Listener = f.listener
	f.web.Start()
	f.t.Cleanup(f.down)
}

// down stops the gateway.
func (f *fronted) down() {
	f.t.Helper()
	if f.Gateway == nil {
		return
	}
	if err := f.Gateway.Shutdown(within(f.t)); err != nil {
		f.t.Error(err)
	}
	f.web.Close()
	f.Gateway = nil
}

// A person has a program that signs in, and a browser.
type person struct {
	t       *testing.T
	source  *oauth.Source
	browser *authtest.Browser
	windows atomic.Int32
	visits  sync.WaitGroup // of the browser
}

func (f *fronted) person(path string) *person {
	f.t.Helper()
	p := &person{t: f.t, browser: authtest.NewBrowser(nil)}
	source, err := oauth.New(&oauth.Config{Server: f.url + path, Name: "Guest", Wait: true, Prompt: func(at oauth.Prompt) bool {
		p.windows.Add(1)
		p.visits.Go(func() { // ends with the page that the client shows
			if page, err := p.browser.Visit(at.URL); err != nil || page.Status != http.StatusOK {
				f.t.Errorf("the browser: %v, %+v", err, page)
			}
		})
		return true
	}})
	if err != nil {
		f.t.Fatal(err)
	}
	p.source = source
	f.t.Cleanup(func() {
		_ = source.Close()
		p.visits.Wait()
	})
	return p
}

// join connects the person's program.
func (p *person) join(f *fronted, path string, era protocol.Era) *client.Client {
	f.t.Helper()
	c, err := client.Connect(within(f.t), &client.Server{URL: f.url + path, Transport: "http-only", Wrap: p.source.Transport}, &client.Options{Name: "guest", Version: "1", Era: &era})
	if err != nil {
		f.t.Fatalf("%s, %s era: %v", path, era, err)
	}
	f.t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestUsersSignInByAProviderThatKnowsNoClients(t *testing.T) {
	f := inFront(t, "")
	f.ready()
	for _, era := range eras {
		p := f.person("/servers/a/mcp")
		c := p.join(f, "/servers/a/mcp", era)
		echo(t, c, "echo")
		if n := p.windows.Load(); n != 1 {
			t.Errorf("%s era: %d windows were opened, want 1", era, n)
		}
	}
	if f.provider.Count("authorize") != 2 || f.provider.Count("register") != 0 {
		t.Errorf("the provider was asked to sign in %d times, and to register %d times", f.provider.Count("authorize"), f.provider.Count("register"))
	}
}

func TestAnOldClientSignsInOverSSE(t *testing.T) {
	f := inFront(t, "")
	f.ready()
	p := f.person("/servers/a/sse")
	era := protocol.Legacy
	c, err := client.Connect(within(t), &client.Server{URL: f.url + "/servers/a/sse", Transport: "sse-only", Wrap: p.source.Transport}, &client.Options{Name: "guest", Version: "1", Era: &era})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	echo(t, c, "echo")
	if n := p.windows.Load(); n != 1 {
		t.Errorf("%d windows were opened, want 1", n)
	}
}

func TestAScopeThatARuleNeedsIsAskedFor(t *testing.T) {
	f := inFront(t, `rules:
- allow user:user tools add on a
- allow user:user tools echo on a with echoing
`)
	f.ready()
	p := f.person("/servers/a/mcp")
	c := p.join(f, "/servers/a/mcp", protocol.Modern)
	if n := p.windows.Load(); n != 1 {
		t.Errorf("%d windows were opened at first, want 1", n)
	}
	echo(t, c, "echo")
	if n := p.windows.Load(); n != 2 {
		t.Errorf("%d windows were opened, want another for the scope", n)
	}
	p.visits.Wait()
	shown := false
	for _, page := range p.browser.Seen {
		shown = shown || strings.Contains(page.Body, "It asks for</dt><dd>echoing")
	}
	if !shown {
		t.Error("the user was not asked about the scope")
	}
}

// post sends a form to the gateway.
func (f *fronted) post(path string, form url.Values) (int, map[string]any) {
	f.t.Helper()
	resp, err := http.PostForm(f.url+path, form)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	var doc map[string]any
	_ = json.Unmarshal(text, &doc) // what is not JSON has no members
	return resp.StatusCode, doc
}

// signIn signs in as a client does, and returns its id and tokens.
func (f *fronted) signIn() (id, access, refresh string) {
	f.t.Helper()
	resp, err := http.Post(f.url+"/oauth/register", "application/json", strings.NewReader(`{"redirect_uris":["http://localhost:9/cb"]}`))
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	var doc map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil {
		f.t.Fatal(err)
	}
	id = doc["client_id"].(string)
	verifier := strings.Repeat("v", 43)
	sum := sha256.Sum256([]byte(verifier))
	b := authtest.NewBrowser(nil)
	b.Stop = func(u *url.URL) bool { return u.Host == "localhost:9" }
	page, err := b.Visit(f.url + "/oauth/authorize?" + url.Values{
		"response_type": {"code"}, "client_id": {id}, "redirect_uri": {"http://localhost:9/cb"}, "code_challenge_method": {"S256"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])},
	}.Encode())
	if err != nil {
		f.t.Fatal(err)
	}
	status, doc := f.post("/oauth/token", url.Values{
		"grant_type": {"authorization_code"}, "client_id": {id}, "redirect_uri": {"http://localhost:9/cb"}, "code_verifier": {verifier}, "code": {page.URL.Query().Get("code")},
	})
	if status != http.StatusOK {
		f.t.Fatalf("%s: %d %v", page.URL, status, doc)
	}
	return id, doc["access_token"].(string), doc["refresh_token"].(string)
}

// ping sends a request with a token, and returns the status.
func (f *fronted) ping(token string) int {
	f.t.Helper()
	req, err := http.NewRequestWithContext(within(f.t), http.MethodGet, f.url+"/status", http.NoBody)
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

func TestSignInsAndClientsOutliveTheGatewayWithAStateDirectory(t *testing.T) {
	f := inFront(t, fmt.Sprintf("state: %q\n", t.TempDir()))
	id, access, refresh := f.signIn()
	if got := f.ping(access); got != http.StatusOK {
		t.Fatalf("at first: %d", got)
	}
	at := f.listener.Addr().String()
	f.down()
	f.listener = listenAt(t, at)
	f.up(&gateway.Options{Name: "test", Version: "1"})
	if got := f.ping(access); got != http.StatusOK {
		t.Errorf("after a restart: %d", got)
	}
	status, doc := f.post("/oauth/token", url.Values{"grant_type": {"refresh_token"}, "client_id": {id}, "refresh_token": {refresh}})
	if status != http.StatusOK {
		t.Errorf("a refresh after a restart: %d %v", status, doc)
	}
}

func TestWithoutAStateDirectorySignInsEndWithTheGateway(t *testing.T) {
	f := inFront(t, "")
	_, access, _ := f.signIn()
	at := f.listener.Addr().String()
	f.down()
	f.listener = listenAt(t, at)
	f.up(&gateway.Options{Name: "test", Version: "1"})
	if got := f.ping(access); got != http.StatusUnauthorized {
		t.Errorf("after a restart: %d", got)
	}
}

func TestAReloadLeavesSignInsAlone(t *testing.T) {
	f := inFront(t, "")
	id, access, refresh := f.signIn()
	for _, text := range []string{
		f.text, strings.Replace(f.text, "auth:\n", "auth:\n  accessFor: 1h\n", 1), f.text + "rules: [allow anyone with more]\n", f.text,
	} {
		f.write(text)
		if _, err := f.Reload(); err != nil {
			t.Fatal(err)
		}
		if got := f.ping(access); got != http.StatusOK {
			t.Errorf("after a reload: %d", got)
		}
	}
	f.write(strings.Replace(f.text, "id: client", "id: other", 1))
	if _, err := f.Reload(); err != nil {
		t.Fatal(err)
	}
	status, doc := f.post("/oauth/token", url.Values{"grant_type": {"refresh_token"}, "client_id": {id}, "refresh_token": {refresh}})
	if status != http.StatusOK {
		t.Errorf("a refresh: %d %v", status, doc)
	}
	f.write(fmt.Sprintf("auth: {tokens: [%s]}\nservers:\n  a: {url: %q}\n", strings.Repeat("t", 32), "http://127.0.0.1:9/mcp"))
	if _, err := f.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := f.ping(access); got != http.StatusUnauthorized {
		t.Errorf("when there is no provider any more: %d", got)
	}
	if status, _ = f.post("/oauth/token", url.Values{}); status != http.StatusUnauthorized {
		t.Errorf("the token endpoint then: %d", status)
	}
}

func TestAStreamEndsAtOnceWhenItsSignInIsRevoked(t *testing.T) {
	f := inFront(t, "")
	f.ready()
	id, access, refresh := f.signIn()
	req, err := http.NewRequestWithContext(within(t), http.MethodGet, f.url+"/servers/a/sse", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+access)
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	began := time.Now()
	if status, _ := f.post("/oauth/revoke", url.Values{"client_id": {id}, "token": {refresh}}); status != http.StatusOK {
		t.Errorf("revoke: %d", status)
	}
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Errorf("the stream ends with %v", err)
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the stream ended after %v", took)
	}
}

func TestS27_NothingButTheSignInIsPublicInFrontOfAProvider(t *testing.T) {
	f := inFront(t, "")
	for path, want := range map[string]int{
		"/.well-known/oauth-authorization-server": 200, "/.well-known/oauth-authorization-server/mcp": 200, "/.well-known/openid-configuration": 200,
		"/.well-known/openid-configuration/servers/a/mcp": 200, "/.well-known/oauth-protected-resource/mcp": 200,
		"/oauth/authorize": 400, "/oauth/callback": 400, "/oauth/token": 405, "/oauth/register": 405, "/oauth/revoke": 405, "/token": 405,
		"/oauth/servers/a/sign-in": 404, "/oauth/servers/a/callback": 404, "/oauth/servers/a": 401, "/oauth/servers//callback": 401, "/oauth/servers/a/callback/x": 401,
		"/oauth": 401, "/oauth/": 401, "/oauth/keys": 401, "/oauth/authorize/": 401, "/oauth/authorize/x": 401, "/OAUTH/authorize": 401, "/oauth//authorize": 401,
		"/.well-known/oauth-authorization-serverx": 401, "/.well-known/jwks.json": 401, "/mcp": 401, "/status": 401, "/servers/a/mcp": 401, "/authorize": 401, "/register": 401, "/token/": 401,
	} {
		if status, body := f.get(path); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, body, want)
		}
	}
	_, body := f.get("/.well-known/oauth-protected-resource/servers/a/mcp")
	var doc struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
	}
	decode(t, body, &doc)
	if doc.Resource != f.url+"/servers/a/mcp" || !slices.Equal(doc.Servers, []string{f.url}) {
		t.Errorf("the metadata of the resource is %s", body)
	}
	resp, err := http.Get(f.url + "/mcp")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("WWW-Authenticate"); !strings.Contains(got, f.url+"/.well-known/oauth-protected-resource/mcp") {
		t.Errorf("the challenge is %s", got)
	}
}

func TestTokensOfTheProviderDoNotLetInAndOursDoNotGoThere(t *testing.T) {
	f := inFront(t, "")
	_, access, refresh := f.signIn()
	for what, list := range f.provider.Secrets() {
		for _, secret := range list {
			if got := f.ping(secret); got != http.StatusUnauthorized {
				t.Errorf("%s of the provider: %d", what, got)
			}
			if secret == access || secret == refresh {
				t.Errorf("%s of the provider is the client's", what)
			}
		}
	}
}

func TestSignInsAreWrittenDown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	f := inFront(t, fmt.Sprintf("audit: {file: %q}\n", path))
	id, access, refresh := f.signIn()
	if status, _ := f.post("/oauth/revoke", url.Values{"client_id": {id}, "token": {refresh}}); status != http.StatusOK {
		t.Fatalf("revoke: %d", status)
	}
	for kind, reason := range map[string]string{audit.SignIn: "", audit.TokenIssued: "", audit.TokenRevoked: "the client has signed out"} {
		r := written(t, path, func(r *audit.Record) bool { return r.Kind == kind })
		if r.Principal != "user:user@"+f.provider.Issuer || r.Client == "" || r.Reason != reason {
			t.Errorf("%s: %+v", kind, r)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{access, refresh, id} {
		if strings.Contains(string(text), secret) {
			t.Errorf("%.12s… is in the audit log", secret)
		}
	}
}
