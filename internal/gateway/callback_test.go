package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/observe/audit"
	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// A visited is a gateway in front of a provider, with a server "s" at which each caller signs in for
// itself.
type visited struct {
	*fronted
	server *authtest.Server
	opts   gateway.Options
	log    *lockedBuffer

	mu   sync.Mutex
	sent []string // the tokens that came to the server
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// visitable starts one, with more in its configuration, and in that of the server.
func visitable(t *testing.T, auth, more string, change func(*authtest.Options)) *visited {
	t.Helper()
	v := &visited{log: &lockedBuffer{}}
	inner := builtin.New(nil)
	endpoint := &streamable.Server{Sessions: inner, Requests: inner.Requests()}
	t.Cleanup(func() {
		_ = endpoint.Close()
		inner.Close()
	})
	o := &authtest.Options{Resource: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v.mu.Lock()
		v.sent = append(v.sent, r.Header.Get("Authorization"))
		v.mu.Unlock()
		endpoint.ServeHTTP(w, r)
	})}
	if change != nil {
		change(o)
	}
	v.server = authtest.New(t, o)
	store, err := oauth.OpenStore(filepath.Join(t.TempDir(), "auth"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	v.opts = gateway.Options{
		Name: "test", Version: "1", Logger: slog.New(slog.NewTextHandler(v.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		SignIn: &upstream.SignInOptions{Store: func() *oauth.Store { return store }, NoBrowser: true},
	}
	opts := v.opts
	v.fronted = inFrontWith(t, &opts, fmt.Sprintf("  s: {url: %q, auth: {signIn: caller%s}}\n%s", v.server.URL, auth, more))
	return v
}

// restart has another process in the place of the gateway.
func (v *visited) restart() {
	v.t.Helper()
	at := v.listener.Addr().String()
	v.down()
	v.listener = listenAt(v.t, at)
	opts := v.opts
	v.up(&opts)
}

// caller signs somebody's program in at the gateway, and returns its token.
func (v *visited) caller(name string) string {
	v.t.Helper()
	v.provider.SetUser(map[string]any{"sub": name})
	_, token, _ := v.signIn()
	return token
}

// as has a browser whose user is somebody at the provider go to a page.
func (v *visited) as(name string, b *authtest.Browser, at string) *authtest.Page {
	v.t.Helper()
	v.provider.SetUser(map[string]any{"sub": name})
	page, err := b.Visit(at)
	if err != nil {
		v.t.Fatal(err)
	}
	return page
}

// An answer is what a caller gets.
type answer struct {
	served              bool
	page, code, message string // if a sign-in is needed
}

// echo calls the server.
func (v *visited) echo(token string) answer {
	v.t.Helper()
	req, err := http.NewRequestWithContext(within(v.t), http.MethodPost, v.url+"/servers/s/call/echo", strings.NewReader(`{"text":"hello"}`))
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	if resp.StatusCode == http.StatusOK {
		return answer{served: true}
	}
	var failed struct {
		Error struct {
			Code    int
			Message string
			Data    struct{ URL, Code string }
		}
	}
	if err := json.Unmarshal(text, &failed); err != nil || failed.Error.Code != protocol.CodeSignIn {
		v.t.Fatalf("the call gets %d %s", resp.StatusCode, text)
	}
	return answer{page: failed.Error.Data.URL, code: failed.Error.Data.Code, message: failed.Error.Message}
}

// needs returns the page that a caller is told.
func (v *visited) needs(token string) string {
	v.t.Helper()
	got := v.echo(token)
	if !strings.HasPrefix(got.page, v.url+"/oauth/servers/s/sign-in?id=") || got.code != "" {
		v.t.Fatalf("the caller is told %+v", got)
	}
	return got.page
}

// served waits until a caller is served, and returns the token that the server got.
func (v *visited) served(token string) string {
	v.t.Helper()
	eventually(v.t, "the caller is signed in", func() bool { return v.echo(token).served })
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.sent[len(v.sent)-1]
}

// capture has a browser continue until something else than the gateway and its provider would be
// asked, and returns where.
func (v *visited) capture(name string, b *authtest.Browser, page string) string {
	v.t.Helper()
	b.Stop = func(u *url.URL) bool { return "http://"+u.Host == v.server.Issuer }
	defer func() { b.Stop = nil }()
	at := v.as(name, b, page)
	if at.Status != 0 {
		v.t.Fatalf("the browser stays at %s: %d %s", at.URL, at.Status, at.Body)
	}
	return at.URL.String()
}

func ends(t *testing.T, page *authtest.Page, status int, text string) {
	t.Helper()
	if page.Status != status || !strings.Contains(page.Body, text) {
		t.Errorf("the browser ends at %s: %d, want %d and %q: %s", page.URL, page.Status, status, text, page.Body)
	}
	for name, want := range map[string]string{"Cache-Control": "no-store", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff"} {
		if got := page.Header.Get(name); got != want {
			t.Errorf("%s of the page is %q", name, got)
		}
	}
	if csp := page.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") {
		t.Errorf("the page may do this: %s", csp)
	}
}

const done, not = "You are signed in", "You are not signed in"

func TestS23_RemoteCallersSignInEachForItselfAtTheGatewaysURL(t *testing.T) {
	v := visitable(t, "", "", nil) // where there are codes, too
	tokens := make(map[string]string)
	callers := []string{"alice", "bob"}
	for _, name := range callers {
		token := v.caller(name)
		b := authtest.NewBrowser(nil)
		page := v.as(name, b, v.needs(token))
		ends(t, page, http.StatusOK, done)
		if at := page.URL.String(); !strings.HasPrefix(at, v.url+"/oauth/servers/s/callback?") {
			t.Errorf("the browser comes back to %s", at)
		}
		if asked := b.Seen[len(b.Seen)-4:]; !slices.ContainsFunc(asked, func(p *authtest.Page) bool {
			return strings.Contains(p.Body, "<dd>"+name+"@") && strings.Contains(p.Body, "<dd>"+strings.TrimPrefix(v.server.Issuer, "http://")+"</dd>")
		}) {
			t.Errorf("%s was not asked", name)
		}
		tokens[name] = v.served(token)
		if again := v.served(token); again != tokens[name] {
			t.Errorf("%s is served with another token the second time", name)
		}
	}
	if tokens["alice"] == tokens["bob"] || v.server.Count("authorize") != 2 || v.server.Count("device") != 0 || v.server.Count("register") != 2 {
		t.Errorf("%d sign-ins, %d codes, %d registrations", v.server.Count("authorize"), v.server.Count("device"), v.server.Count("register"))
	}
	log := v.log.String()
	for _, from := range []*authtest.Server{v.server, v.provider} {
		for what, list := range from.Secrets() {
			for _, secret := range list {
				if len(secret) > 8 && strings.Contains(log, secret) {
					t.Errorf("%s is in the log", what)
				}
			}
		}
	}
	if strings.Contains(log, "sign-in?id=") {
		t.Error("the page of a caller is in the log")
	}
}

// The page of one user is of no use to another, who would give the first what is theirs.
func TestS27_AnotherUserWhoIsSentThePageIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	v := visitable(t, "", fmt.Sprintf("audit: {file: %q}\n", path), nil)
	attacker := v.caller("mallory")
	page := v.needs(attacker)
	victim := authtest.NewBrowser(nil)
	ends(t, v.as("alice", victim, page), http.StatusForbidden, "for another user")
	if n := v.server.Count("authorize"); n != 0 {
		t.Fatalf("the other user was sent on to the server's authorization server (%d times)", n)
	}
	r := written(t, path, func(r *audit.Record) bool { return r.Kind == audit.SignIn && r.Server == "s" })
	if r.Outcome != audit.Denied || !strings.HasPrefix(r.Principal, "user:alice@") {
		t.Errorf("the audit log has %+v", r)
	}
	if again := v.needs(attacker); again != page {
		t.Errorf("the page is %s then, and was %s", again, page)
	}
	// The client that was asked can continue; no other client got anything.
	own := authtest.NewBrowser(nil)
	ends(t, v.as("mallory", own, page), http.StatusOK, done)
	v.served(attacker)
	if v.echo(v.caller("alice")).served {
		t.Error("the victim is signed in by that")
	}
}

// Nor is the URL of the authorization server, though the state in it is right.
func TestS27_AnotherBrowserThatIsSentOnCompletesNothing(t *testing.T) {
	v := visitable(t, "", "", nil)
	attacker := v.caller("mallory")
	page := v.needs(attacker)
	own, victim := authtest.NewBrowser(nil), authtest.NewBrowser(nil)
	captured := v.capture("mallory", own, page)
	ends(t, v.as("alice", victim, captured), http.StatusForbidden, "another browser")

	// The victim's browser has begun a sign-in of its own.
	alice := v.caller("alice")
	v.capture("alice", victim, v.needs(alice))
	ends(t, v.as("alice", victim, captured), http.StatusForbidden, "another browser")

	// It has even been made to be the attacker's at the provider: the button was not pressed there.
	victim.Answer = "-"
	if asked := v.as("mallory", victim, page); !strings.Contains(asked.Body, "<dd>mallory@") {
		t.Errorf("the page does not say whose it is: %s", asked.Body)
	}
	ends(t, v.as("alice", victim, captured), http.StatusForbidden, "another browser")
	if v.echo(attacker).served || v.server.Count("code") != 0 {
		t.Fatalf("the attacker is signed in (%d codes)", v.server.Count("code"))
	}
	ends(t, v.as("mallory", own, captured), http.StatusOK, done)
	v.served(attacker)
}

func TestACallbackWithAStateThatIsNotWaitedForSaysWhatToDo(t *testing.T) {
	v := visitable(t, "", "", nil)
	token, b := v.caller("alice"), authtest.NewBrowser(nil)
	page := v.needs(token)
	captured, err := url.Parse(v.capture("alice", b, page))
	if err != nil {
		t.Fatal(err)
	}
	state := captured.Query().Get("state")
	if state == "" || strings.Contains(page, state) {
		t.Fatalf("the state is in the page that the caller is told: %s", page)
	}
	back := v.url + "/oauth/servers/s/callback?"
	for when, at := range map[string]string{
		"no state":        back + "code=x",
		"an empty one":    back + "code=x&state=",
		"an unknown one":  back + "code=x&state=" + strings.Repeat("A", 26),
		"another server":  v.url + "/oauth/servers/a/callback?code=x&state=" + state,
		"another page":    v.url + "/oauth/servers/s/sign-in?id=" + strings.Repeat("a", 32),
		"page of another": strings.Replace(page, "/servers/s/", "/servers/a/", 1),
	} {
		t.Log(when)
		ends(t, v.as("alice", b, at), http.StatusNotFound, not)
	}
	for when, at := range map[string]string{
		"two states":         back + "code=x&state=" + state + "&state=" + state,
		"what is not a text": back + "code=%zz&state=" + state,
	} {
		t.Log(when)
		ends(t, v.as("alice", authtest.NewBrowser(nil), at), http.StatusBadRequest, not)
	}
	if status, _ := v.get("/oauth/servers/s"); status != http.StatusUnauthorized {
		t.Errorf("a path above: %d", status)
	}
	// What is for a server is not for the gateway itself.
	other := authtest.NewBrowser(nil)
	ofBob, err := url.Parse(v.capture("bob", other, v.needs(v.caller("bob"))))
	if err != nil {
		t.Fatal(err)
	}
	ends(t, v.as("bob", other, v.url+"/oauth/callback?"+url.Values{"code": {"x"}, "state": ofBob.Query()["state"], "iss": {v.provider.Issuer}}.Encode()), http.StatusBadRequest, not)
	// An answer of another issuer than the one that was asked ends the sign-in.
	ends(t, v.as("alice", b, back+url.Values{"code": {"x"}, "state": {state}, "iss": {"https://evil.example.com"}}.Encode()), http.StatusBadRequest, "another authorization server")
	// And once it is over, the state is not good any more.
	eventually(t, "the sign-in is over", func() bool {
		return strings.Contains(v.as("alice", b, captured.String()).Body, "Nobody waits")
	})
}

func TestAStateIsGoodOnce(t *testing.T) {
	v := visitable(t, "", "", nil)
	token, b := v.caller("alice"), authtest.NewBrowser(nil)
	page := v.as("alice", b, v.needs(token))
	ends(t, page, http.StatusOK, done)
	v.served(token)
	ends(t, v.as("alice", b, page.URL.String()), http.StatusNotFound, "Nobody waits")
}

func TestACallerWhoDoesNotAgreeIsNotSentOn(t *testing.T) {
	v := visitable(t, "", "", nil)
	token, b := v.caller("alice"), authtest.NewBrowser(nil)
	page := v.needs(token)
	b.Answer = "-"
	form := v.as("alice", b, page)
	// The form is good in this browser, and from this page.
	for _, spoil := range []func(*http.Request){
		func(r *http.Request) { r.Header.Set("Origin", "https://evil.example.com") },
		func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
	} {
		req, err := b.Submit(form, "allow")
		if err != nil {
			t.Fatal(err)
		}
		spoil(req)
		if got, err := b.Send(req); err != nil || got.Status == http.StatusOK {
			t.Errorf("a form of another page: %v %+v", err, got)
		}
	}
	other := authtest.NewBrowser(nil)
	req, err := other.Submit(form, "allow")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := other.Send(req); err != nil || got.Status != http.StatusBadRequest {
		t.Errorf("a form in another browser: %v %+v", err, got)
	}
	if req, err = b.Submit(form, "deny"); err != nil {
		t.Fatal(err)
	}
	got, err := b.Send(req)
	if err != nil {
		t.Fatal(err)
	}
	ends(t, got, http.StatusOK, "You have not agreed")
	eventually(t, "the caller is told", func() bool { return strings.Contains(v.echo(token).message, "did not agree") })
	if n := v.server.Count("authorize"); n != 0 {
		t.Errorf("the browser was sent on %d times", n)
	}
}

// A browser that is in flight when the gateway is restarted continues when the caller asks again.
func TestASignInOutlivesARestartAndAReload(t *testing.T) {
	v := visitable(t, "", fmt.Sprintf("state: %q\n", t.TempDir()), nil)
	token, b := v.caller("alice"), authtest.NewBrowser(nil)
	page := v.needs(token)
	captured := v.capture("alice", b, page)
	v.write(strings.Replace(v.text, "auth:\n", "auth:\n  accessFor: 1h\n", 1)) // another Server with the same key
	if _, err := v.Reload(); err != nil {
		t.Fatal(err)
	}
	if again := v.needs(token); again != page {
		t.Errorf("after a reload the page is %s, and was %s", again, page)
	}
	v.restart()
	ends(t, v.as("alice", b, page), http.StatusNotFound, "Nobody waits")
	early := v.as("alice", b, captured)
	ends(t, early, http.StatusNotFound, "reload this page")
	if again := v.needs(token); again != page {
		t.Errorf("after a restart the page is %s, and was %s", again, page)
	}
	ends(t, v.as("alice", b, early.URL.String()), http.StatusOK, done)
	v.served(token)
	if v.server.Count("register") != 1 || v.server.Count("code") != 1 {
		t.Errorf("%d registrations, %d codes", v.server.Count("register"), v.server.Count("code"))
	}
}

// Whose user cannot be told in a browser signs in as before.
func TestACallerThatIsNoUserOfTheProviderHasACode(t *testing.T) {
	secret := strings.Repeat("t", 32)
	v := visitable(t, "", "", nil)
	v.write(strings.Replace(v.text, "auth:\n", "auth:\n  tokens: ["+secret+"]\n", 1))
	if _, err := v.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := v.echo(secret); got.code == "" || !strings.HasPrefix(got.page, v.server.Issuer) {
		t.Errorf("the caller is told %+v", got)
	}
}

// A client that is registered for this machine is used there.
func TestACallbackPortKeepsTheBrowserOnThisMachine(t *testing.T) {
	l := listenAt(t, "127.0.0.1:0")
	_, port, _ := strings.Cut(l.Addr().String(), ":")
	_ = l.Close()
	v := visitable(t, ", callbackPort: "+port, "", nil)
	page := v.echo(v.caller("alice")).page
	if u, err := url.Parse(page); err != nil || u.Query().Get("redirect_uri") != "http://127.0.0.1:"+port+"/callback" {
		t.Errorf("the caller is told %s", page)
	}
}

func TestClientsOfBothErasSendTheirUsersToThePage(t *testing.T) {
	v := visitable(t, "", "", nil)
	for _, era := range eras {
		t.Run(era.String(), func(t *testing.T) {
			token, name := v.caller(era.String()), era.String()
			pages := make(chan string, 1)
			var visits sync.WaitGroup
			defer visits.Wait()
			opts := &client.Options{Name: "guest", Version: "1", Era: &era, ElicitationURL: func(_ context.Context, text json.RawMessage) (any, error) {
				var params struct{ Mode, URL string }
				if err := json.Unmarshal(text, &params); err != nil || params.Mode != "url" {
					return nil, fmt.Errorf("asked %s", text)
				}
				pages <- params.URL
				visits.Go(func() { // ends with the last page
					if page, err := authtest.NewBrowser(nil).Visit(params.URL); err != nil || page.Status != http.StatusOK {
						t.Errorf("%s: %v %+v", name, err, page)
					}
				})
				return map[string]string{"action": "accept"}, nil
			}}
			c, err := client.Connect(within(t), &client.Server{URL: v.url + "/mcp", Transport: "http-only", Wrap: bearing(token)}, opts)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			echo(t, c, "s_echo")
			if page := <-pages; !strings.HasPrefix(page, v.url+"/oauth/servers/s/sign-in?id=") {
				t.Errorf("the client is asked to open %s", page)
			}
		})
	}
}

type withToken struct {
	http.RoundTripper
	token string
}

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+w.token)
	return w.RoundTripper.RoundTrip(r)
}

func bearing(token string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		if next == nil {
			next = http.DefaultTransport
		}
		return withToken{next, token}
	}
}
