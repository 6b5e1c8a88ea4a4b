package oauth_test

import (
	"context"
	"errors"
	"io"
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

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// visit is a user who goes to the page at once, in a browser of their own.
func visit(t testing.TB, windows *atomic.Int32) func(oauth.Prompt) bool {
	return func(p oauth.Prompt) bool {
		if windows != nil {
			windows.Add(1)
		}
		go func() {
			resp, err := http.Get(p.URL)
			if err != nil {
				t.Log("the browser: ", err)
				return
			}
			_ = resp.Body.Close()
		}()
		return true
	}
}

func openStore(t testing.TB, dir string) *oauth.Store {
	t.Helper()
	store, err := oauth.OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func newSource(t testing.TB, c *oauth.Config) *oauth.Source {
	t.Helper()
	s, err := oauth.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// get asks the resource, and returns its status and what it says.
func get(t testing.TB, s *oauth.Source, at string) (int, string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader("a body"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: s.Transport(nil)}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func mustGet(t testing.TB, s *oauth.Source, at string) {
	t.Helper()
	if status, text, err := get(t, s, at); err != nil || status != http.StatusOK {
		t.Fatalf("status %d %q, error %v", status, text, err)
	}
}

func TestARequestSignsInAndIsSentAgainWithItsBody(t *testing.T) {
	var bodies []string
	server := authtest.New(t, &authtest.Options{Resource: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(text))
	})})
	var windows atomic.Int32
	s := newSource(t, &oauth.Config{Server: server.URL, Prompt: visit(t, &windows), Wait: true})
	mustGet(t, s, server.URL)
	mustGet(t, s, server.URL)
	if windows.Load() != 1 || server.Count("code") != 1 || !slices.Equal(bodies, []string{"a body", "a body"}) {
		t.Errorf("%d windows, %d codes, bodies %q", windows.Load(), server.Count("code"), bodies)
	}
	if resources := server.Resources(); !slices.Equal(resources, []string{server.URL}) {
		t.Errorf("the tokens are for %q, want %q", resources, server.URL)
	}
}

func TestWithoutAnybodyToAskTheErrorSaysThatASignInIsNeeded(t *testing.T) {
	server := authtest.New(t, nil)
	s := newSource(t, &oauth.Config{Server: server.URL})
	_, _, err := get(t, s, server.URL)
	e, ok := errors.AsType[*oauth.SignInError](err)
	rpc, told := errors.AsType[*dragoman.Error](err)
	if !ok || !told || rpc.Code != protocol.CodeSignIn || !protocol.NotSent(err) {
		t.Fatalf("%v (%T), want a sign-in error that is −31007 and not sent", err, err)
	}
	if e.Prompt.URL != "" || server.Count("register") != 0 {
		t.Errorf("somebody is asked all the same: %+v", e)
	}
}

func TestARequestThatDoesNotWaitIsToldWhereToSignIn(t *testing.T) {
	server := authtest.New(t, nil)
	told := make(chan oauth.Prompt, 1)
	signedIn := make(chan struct{})
	s := newSource(t, &oauth.Config{Server: server.URL, Prompt: func(p oauth.Prompt) bool { told <- p; return true }, Done: func() { close(signedIn) }})
	_, _, err := get(t, s, server.URL)
	e, ok := errors.AsType[*oauth.SignInError](err)
	p := <-told
	if !ok || e.Prompt.URL == "" || e.Prompt.URL != p.URL {
		t.Fatalf("%v, want the page %s", err, p.URL)
	}
	if pending, ok := s.Pending(); !ok || pending.URL != p.URL {
		t.Errorf("pending is %v, %v", pending, ok)
	}
	_, _, again := get(t, s, server.URL)
	if f, ok := errors.AsType[*oauth.SignInError](again); !ok || f.Prompt.URL != p.URL {
		t.Errorf("the next request is told %v, want the same page", again)
	}
	visit(t, nil)(p)
	<-signedIn
	mustGet(t, s, server.URL)
	if _, ok := s.Pending(); ok {
		t.Error("the sign-in is over and still pending")
	}
}

func TestSignInsOutliveTheProcess(t *testing.T) {
	server, dir := authtest.New(t, nil), t.TempDir()
	mustGet(t, newSource(t, &oauth.Config{Server: server.URL, Store: openStore(t, filepath.Join(dir, "auth")), Prompt: visit(t, nil), Wait: true}), server.URL)
	mustGet(t, newSource(t, &oauth.Config{Server: server.URL, Store: openStore(t, filepath.Join(dir, "auth"))}), server.URL)
	files, err := filepath.Glob(filepath.Join(dir, "auth", "*"))
	if err != nil || len(files) == 0 {
		t.Fatal("nothing is kept", err)
	}
	for _, name := range files {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestAStoreThatOthersCanReadIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // that is the point
		t.Fatal(err)
	}
	if _, err := oauth.OpenStore(dir); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("the error is %v", err)
	}
}

// expired has a sign-in in dir whose access token has ended.
func expired(t *testing.T, server *authtest.Server, dir string) {
	t.Helper()
	mustGet(t, newSource(t, &oauth.Config{Server: server.URL, Store: openStore(t, dir), Prompt: visit(t, nil), Wait: true}), server.URL)
	server.Expire()
}

// Of any number of processes one refreshes a token that rotates; each has a store of its
// own, as processes do.
func TestOneOfManyRefreshesARotatingToken(t *testing.T) {
	server, dir := authtest.New(t, nil), filepath.Join(t.TempDir(), "auth")
	expired(t, server, dir)
	var all sync.WaitGroup
	for range 20 {
		s := newSource(t, &oauth.Config{Server: server.URL, Store: openStore(t, dir)})
		all.Go(func() {
			if status, text, err := get(t, s, server.URL); err != nil || status != http.StatusOK {
				t.Errorf("status %d %q, error %v", status, text, err)
			}
		})
	}
	all.Wait()
	if server.Count("refresh") != 1 || server.Count("reuse") != 0 || server.Count("authorize") != 1 {
		t.Errorf("%d refreshes, %d reuses, %d sign-ins", server.Count("refresh"), server.Count("reuse"), server.Count("authorize"))
	}
	for _, resource := range server.Resources() {
		if resource != server.URL {
			t.Errorf("a token request is for %q", resource)
		}
	}
}

func TestOneOfManyOpensAWindow(t *testing.T) {
	server, dir := authtest.New(t, nil), filepath.Join(t.TempDir(), "auth")
	var windows atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		s := newSource(t, &oauth.Config{Server: server.URL, Store: openStore(t, dir), Prompt: visit(t, &windows), Wait: true})
		all.Go(func() {
			if status, text, err := get(t, s, server.URL); err != nil || status != http.StatusOK {
				t.Errorf("status %d %q, error %v", status, text, err)
			}
		})
	}
	all.Wait()
	if windows.Load() != 1 || server.Count("authorize") != 1 || server.Count("code") != 1 {
		t.Errorf("%d windows, %d sign-ins, %d codes", windows.Load(), server.Count("authorize"), server.Count("code"))
	}
}

// The process that listens for the browser ends while the window is open: another one
// listens in its place, at the same address, and no second window is opened.
func TestAnotherProcessContinuesWithASignIn(t *testing.T) {
	server, dir := authtest.New(t, nil), filepath.Join(t.TempDir(), "auth")
	shown := make(chan oauth.Prompt, 2)
	ask := func(p oauth.Prompt) bool { shown <- p; return true }
	first, err := oauth.New(&oauth.Config{Server: server.URL, Store: openStore(t, dir), Prompt: ask})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := get(t, first, server.URL); err == nil {
		t.Fatal("no sign-in is needed")
	}
	p := <-shown
	second := newSource(t, &oauth.Config{Server: server.URL, Store: openStore(t, dir), Prompt: ask, Wait: true})
	done := make(chan error, 1)
	go func() {
		_, _, err := get(t, second, server.URL)
		done <- err
	}()
	_ = first.Close()
	for { // until the second listens
		resp, err := http.Get(p.URL)
		if err == nil {
			_ = resp.Body.Close()
			break
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(shown) != 0 || server.Count("register") != 1 {
		t.Errorf("%d further windows, %d registrations", len(shown), server.Count("register"))
	}
}

func TestARefusedSignInOpensNoFurtherWindow(t *testing.T) {
	server, dir := authtest.New(t, &authtest.Options{Deny: true}), filepath.Join(t.TempDir(), "auth")
	var windows atomic.Int32
	for range 3 {
		s := newSource(t, &oauth.Config{Server: server.URL, Store: openStore(t, dir), Prompt: visit(t, &windows), Wait: true})
		for range 2 {
			if _, _, err := get(t, s, server.URL); err == nil || !strings.Contains(err.Error(), "access_denied") {
				t.Fatalf("the error is %v", err)
			}
		}
	}
	if windows.Load() != 1 {
		t.Errorf("%d windows", windows.Load())
	}
}

func TestAScopeThatIsMissingIsAskedFor(t *testing.T) {
	server := authtest.New(t, &authtest.Options{Needs: "read", Scopes: []string{"read", "write"}})
	s := newSource(t, &oauth.Config{Server: server.URL, Prompt: visit(t, nil), Wait: true})
	mustGet(t, s, server.URL)
	if st, _ := s.Status(); st.Scope != "read" {
		t.Errorf("the scope is %q, want what the server wants", st.Scope)
	}
	mustGet(t, s, server.URL+"?need=write")
	if st, _ := s.Status(); st.Scope != "read write" {
		t.Errorf("the scope is %q, want both", st.Scope)
	}
	mustGet(t, s, server.URL+"?need=read")
	if server.Count("authorize") != 2 {
		t.Errorf("%d sign-ins, want 2", server.Count("authorize"))
	}
}

func TestSignOutRevokesAndForgets(t *testing.T) {
	server := authtest.New(t, nil)
	s := newSource(t, &oauth.Config{Server: server.URL, Prompt: visit(t, nil), Wait: true})
	mustGet(t, s, server.URL)
	if had, err := s.SignOut(t.Context()); !had || err != nil {
		t.Fatal(had, err)
	}
	if st, _ := s.Status(); st.SignedIn || server.Count("revoke") != 2 {
		t.Errorf("%+v, %d revocations", st, server.Count("revoke"))
	}
	if had, err := s.SignOut(t.Context()); had || err != nil {
		t.Errorf("once more: %v, %v", had, err)
	}
	mustGet(t, s, server.URL)
	if server.Count("register") != 1 {
		t.Errorf("%d registrations, want the first one used again", server.Count("register"))
	}
}

func TestADeviceCodeIsEnteredElsewhere(t *testing.T) {
	server := authtest.New(t, nil)
	s := newSource(t, &oauth.Config{Server: server.URL, Grant: oauth.DeviceCode, Wait: true, Prompt: func(p oauth.Prompt) bool {
		if p.Code == "" || p.URL != server.Issuer+"/enter" {
			t.Errorf("the prompt is %+v", p)
		}
		server.Approve(p.Code)
		return true
	}})
	mustGet(t, s, server.URL)
	if server.Count("device") != 1 || server.Count("authorize") != 0 {
		t.Errorf("%d devices, %d sign-ins by browser", server.Count("device"), server.Count("authorize"))
	}
}

// Without a browser here a code is used, if one can be had.
func TestWhereThereIsNoBrowserACodeIsUsedIfOneCanBeHad(t *testing.T) {
	refused := func(what string, doc map[string]any) {
		if what == "device" {
			clear(doc)
			doc["error"] = "unauthorized_client"
		}
	}
	for _, test := range []struct {
		name    string
		server  authtest.Options
		conf    oauth.Config
		by, not string // what is counted
	}{
		{"there are codes", authtest.Options{}, oauth.Config{NoBrowser: true}, "device", "authorize"},
		{"there are none", authtest.Options{NoDevice: true}, oauth.Config{NoBrowser: true}, "authorize", "device"},
		{"there is a browser", authtest.Options{}, oauth.Config{}, "authorize", "device"},
		{"our client gets none", authtest.Options{Change: refused}, oauth.Config{NoBrowser: true}, "authorize", "none"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := authtest.New(t, &test.server)
			test.conf.Server, test.conf.Wait = server.URL, true
			test.conf.Prompt = func(p oauth.Prompt) bool {
				if p.Code != "" {
					server.Approve(p.Code)
					return true
				}
				return visit(t, nil)(p)
			}
			s := newSource(t, &test.conf)
			mustGet(t, s, server.URL)
			if server.Count(test.by) != 1 || server.Count(test.not) != 0 {
				t.Errorf("%d by %s, %d by %s", server.Count(test.by), test.by, server.Count(test.not), test.not)
			}
			server.Expire()
			mustGet(t, s, server.URL)
			if server.Count("refresh") != 1 || server.Count(test.by) != 1 {
				t.Errorf("then %d refreshes, %d by %s", server.Count("refresh"), server.Count(test.by), test.by)
			}
		})
	}
}

func TestClientCredentialsNeedNobody(t *testing.T) {
	server := authtest.New(t, &authtest.Options{NoRegistration: true})
	s := newSource(t, &oauth.Config{Server: server.URL, Grant: oauth.ClientCredentials, ClientID: "client", ClientSecret: "secret"})
	mustGet(t, s, server.URL)
	server.Expire()
	mustGet(t, s, server.URL)
	if server.Count("credentials") != 2 || server.Count("authorize") != 0 {
		t.Errorf("%d tokens, %d sign-ins", server.Count("credentials"), server.Count("authorize"))
	}
}

func TestS28_ATokenGoesToItsServerOnly(t *testing.T) {
	server, other := authtest.New(t, nil), authtest.New(t, nil)
	s := newSource(t, &oauth.Config{Server: server.URL, Prompt: visit(t, nil), Wait: true})
	mustGet(t, s, server.URL)
	if status, _, err := get(t, s, other.URL); err != nil || status != http.StatusUnauthorized {
		t.Errorf("status %d, error %v", status, err)
	}
	if other.Count("refused") != 1 {
		t.Errorf("the other server was asked %d times", other.Count("refused"))
	}
}

func TestConfigurationsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, c := range []oauth.Config{
		{Server: "stdio"},
		{Server: "ftp://example.com"},
		{Server: "https://example.com", ClientSecret: "x"},
		{Server: "https://example.com", Grant: "password"},
		{Server: "https://example.com", Grant: oauth.ClientCredentials},
		{Server: "https://example.com", Grant: oauth.JWTBearer},
		{Server: "https://example.com", CallbackHost: "example.com"},
		{Server: "https://example.com", CallbackPath: "back"},
		{Server: "https://example.com", MetadataURL: "http://example.com/client"},
		{Server: "https://example.com", ClientID: "x", ClientKey: []byte("no key")},
	} {
		if s, err := oauth.New(&c); err == nil {
			_ = s.Close()
			t.Errorf("%+v is taken", c)
		}
	}
}

func TestConsentIsAskedForWithOfflineAccess(t *testing.T) {
	for _, test := range []struct {
		name       string
		scopes     []string
		parameters url.Values
		want       []string // values of prompt
	}{
		{"without", []string{"read"}, nil, nil},
		{"with", []string{"read", "offline_access"}, nil, []string{"consent"}},
		{"with another prompt", []string{"offline_access"}, url.Values{"prompt": {"login consent"}}, []string{"login consent"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := authtest.New(t, nil)
			told := make(chan oauth.Prompt, 1)
			s := newSource(t, &oauth.Config{
				Server: server.URL, Scopes: test.scopes, Parameters: test.parameters,
				Prompt: func(p oauth.Prompt) bool { told <- p; return true },
			})
			if _, _, err := get(t, s, server.URL); err == nil {
				t.Fatal("nobody was asked")
			}
			page, err := url.Parse((<-told).URL)
			if err != nil {
				t.Fatal(err)
			}
			if got := page.Query()["prompt"]; !slices.Equal(got, test.want) {
				t.Errorf("prompt is %q, want %q", got, test.want)
			}
		})
	}
}

func TestARefusalOfAServerThatOffersNoSignInIsPassedOn(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1); r.URL.Path != "/mcp" {
			http.NotFound(w, r)
			return
		}
		http.Error(w, "not you", http.StatusUnauthorized)
	}))
	defer server.Close()
	var windows atomic.Int32
	for name, prompt := range map[string]func(oauth.Prompt) bool{"nobody can be asked": nil, "somebody": visit(t, &windows)} {
		s := newSource(t, &oauth.Config{Server: server.URL + "/mcp", Prompt: prompt})
		for range 2 {
			if status, text, err := get(t, s, server.URL+"/mcp"); err != nil || status != http.StatusUnauthorized || text != "not you\n" {
				t.Errorf("%s: status %d %q, error %v", name, status, text, err)
			}
		}
		asked.Store(0)
		_, _, _ = get(t, s, server.URL+"/mcp")
		if n := asked.Load(); prompt != nil && n != 1 {
			t.Errorf("%s: the server is asked %d times, want once", name, n)
		}
	}
	if windows.Load() != 0 {
		t.Errorf("%d windows", windows.Load())
	}
}
