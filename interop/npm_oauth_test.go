//go:build npm

package interop_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/oauth"
)

// A signIn is how a test signs in to a protected server by package oauth.
type signIn struct {
	t       *testing.T
	auth    *authServer
	server  *protectedServer
	browser *headless
	dir     string // of the store
}

func newSignIn(t *testing.T, auth, server object) *signIn {
	t.Helper()
	a := startAuthServer(t, auth)
	return &signIn{t: t, auth: a, server: startProtected(t, a, server), browser: newHeadless(t, false), dir: filepath.Join(t.TempDir(), "sign-ins")}
}

// source returns what another process would have: a store of its own in the same
// folder. What the test says besides is done to its configuration.
func (s *signIn) source(change func(*oauth.Config)) *oauth.Source {
	s.t.Helper()
	store, err := oauth.OpenStore(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	conf := &oauth.Config{Server: s.server.url, Store: store, Wait: true, Prompt: func(p oauth.Prompt) bool {
		s.browser.open(p.URL)
		return true
	}}
	if change != nil {
		change(conf)
	}
	source, err := oauth.New(conf)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := errors.Join(source.Close(), store.Close()); err != nil {
			s.t.Error(err)
		}
	})
	return source
}

// call calls a tool of the server and returns its text.
func (s *signIn) call(source *oauth.Source, tool string) (string, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*patience)
	defer cancel()
	c, err := client.Connect(ctx, &client.Server{URL: s.server.url, Wrap: source.Transport}, nil)
	if err != nil {
		return "", err
	}
	defer c.Close()
	result, err := c.CallTool(ctx, tool, nil, nil)
	if err != nil {
		return "", err
	}
	if result.IsError || len(result.Content) != 1 {
		return "", fmt.Errorf("%s answers %+v", tool, result)
	}
	return decode[struct{ Text string }](s.t, result.Content[0]).Text, nil
}

// want calls whoami and checks who it says we are.
func (s *signIn) want(source *oauth.Source, sub string, scopes ...string) {
	s.t.Helper()
	text, err := s.call(source, "whoami")
	if err != nil {
		s.t.Fatal(err)
	}
	who := decode[struct {
		Sub    string
		Scopes []string
	}](s.t, json.RawMessage(text))
	if who.Sub != sub || !slices.Equal(who.Scopes, scopes) {
		s.t.Errorf("the server sees %+v, want %s with %q", who, sub, scopes)
	}
}

// wantCounts checks what the authorization server has counted since its start.
func (s *signIn) wantCounts(want map[string]int) {
	s.t.Helper()
	got := s.auth.tally()
	for kind, n := range want {
		if got.Counts[kind] != n {
			s.t.Errorf("%d %s, want %d; the server counts %v and %v", got.Counts[kind], kind, n, got.Counts, got.Failures)
		}
	}
	for _, request := range got.Requests {
		if request["path"] == "/token" && request["resource"] != s.server.url {
			s.t.Errorf("a token is asked for without its resource: %v", request)
		}
	}
}

// expire waits until the token that is kept has ended.
func (s *signIn) expire(source *oauth.Source) {
	s.t.Helper()
	status, err := source.Status()
	if err != nil {
		s.t.Fatal(err)
	}
	<-time.After(time.Until(status.Expires))
}

func TestNpmOAuthSignsInRefreshesAndStepsUp(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]struct{ auth, server object }{
		"opaque tokens, SDK 1": {object{"accessTTL": 2}, nil},
		"signed tokens, SDK 2": {object{"accessTTL": 2, "format": "jwt"}, object{"sdk": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSignIn(t, settings.auth, settings.server)
			source := s.source(nil)
			s.want(source, "alice", "mcp:read")
			s.expire(source)
			s.want(source, "alice", "mcp:read")
			s.wantCounts(map[string]int{"registrations": 1, "authorizations": 1, "authorization_code": 1, "reuse": 0})
			if s.auth.tally().Counts["refresh_token"] == 0 {
				t.Error("the token was not refreshed")
			}

			s.auth.set(object{"accessTTL": 600})
			if text, err := s.call(source, "write"); err != nil || text != "written" {
				t.Errorf("write: %q, %v", text, err)
			}
			s.want(source, "alice", "mcp:read", "mcp:write")
			s.want(s.source(nil), "alice", "mcp:read", "mcp:write") // another process
			s.wantCounts(map[string]int{"registrations": 1, "authorizations": 2, "reuse": 0})
			if pages := s.browser.pages(); len(pages) != 2 {
				t.Errorf("%d pages were opened, want 2", len(pages))
			}
		})
	}
}

func TestNpmOAuthOutlivesARestartAndNewKeys(t *testing.T) {
	t.Parallel()
	s := newSignIn(t, object{"accessTTL": 1, "format": "jwt"}, nil)
	source := s.source(nil)
	s.want(source, "alice", "mcp:read")
	s.auth.restart()
	s.expire(source)
	s.want(source, "alice", "mcp:read")
	s.auth.rotateKeys(false)
	s.expire(source)
	s.want(source, "alice", "mcp:read")
	if pages := s.browser.pages(); len(pages) != 1 {
		t.Errorf("%d pages were opened, want 1", len(pages))
	}
}

func TestNpmOAuthManyProcessesRefreshOnce(t *testing.T) {
	t.Parallel()
	s := newSignIn(t, object{"accessTTL": 1}, nil)
	first := s.source(nil)
	s.want(first, "alice", "mcp:read")
	s.expire(first)
	s.auth.set(object{"accessTTL": 600})
	before := s.auth.tally().Counts["refresh_token"]
	s.callAtOnce(20)
	s.wantCounts(map[string]int{"authorizations": 1, "refresh_token": before + 1, "reuse": 0})
	if pages := s.browser.pages(); len(pages) != 1 {
		t.Errorf("%d pages were opened, want 1", len(pages))
	}
}

func TestNpmOAuthManyProcessesSignInOnce(t *testing.T) {
	t.Parallel()
	s := newSignIn(t, nil, nil)
	s.callAtOnce(20)
	s.wantCounts(map[string]int{"registrations": 1, "authorizations": 1, "authorization_code": 1, "refresh_token": 0})
	if pages := s.browser.pages(); len(pages) != 1 {
		t.Errorf("%d pages were opened, want 1", len(pages))
	}
}

// callAtOnce has n sources, each as of a process of its own, call the server at once.
func (s *signIn) callAtOnce(n int) {
	s.t.Helper()
	var calls sync.WaitGroup
	for range n {
		source := s.source(nil)
		calls.Go(func() {
			if _, err := s.call(source, "whoami"); err != nil {
				s.t.Error(err)
			}
		})
	}
	calls.Wait()
}

func TestNpmOAuthSignsInAgainOnceTheGrantIsTakenBack(t *testing.T) {
	t.Parallel()
	s := newSignIn(t, nil, nil)
	source := s.source(nil)
	s.want(source, "alice", "mcp:read")
	s.auth.revokeAll()
	s.want(source, "alice", "mcp:read")
	s.wantCounts(map[string]int{"registrations": 1, "authorizations": 2})
}

func TestNpmOAuthSaysThatTheUserSaidNo(t *testing.T) {
	t.Parallel()
	s := newSignIn(t, object{"interaction": "deny"}, nil)
	s.browser.mayFail = true
	source := s.source(nil)
	for range 2 {
		_, err := s.call(source, "whoami")
		if e, ok := errors.AsType[*oauth.SignInError](err); !ok || !strings.Contains(e.Error(), "the user said no") {
			t.Errorf("the call fails with %v", err)
		}
	}
	if pages := s.browser.pages(); len(pages) != 1 {
		t.Errorf("%d pages were opened, want 1", len(pages))
	}
}

func TestNpmOAuthSignsOut(t *testing.T) {
	t.Parallel()
	s := newSignIn(t, nil, nil)
	source := s.source(nil)
	s.want(source, "alice", "mcp:read")
	token, err := source.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if had, err := source.SignOut(t.Context()); err != nil || !had {
		t.Errorf("sign-out: %v, %v", had, err)
	}
	if status, _ := s.server.refuses(token, "whoami"); status != http.StatusUnauthorized {
		t.Errorf("after the sign-out the token is taken with status %d", status)
	}
	if status, err := source.Status(); err != nil || status.SignedIn {
		t.Errorf("after the sign-out: %+v, %v", status, err)
	}
}

func TestNpmOAuthSignsInByADeviceCode(t *testing.T) {
	t.Parallel()
	s := newSignIn(t, nil, nil)
	prompts := make(chan oauth.Prompt, 1)
	source := s.source(func(c *oauth.Config) {
		c.Grant = oauth.DeviceCode
		c.Prompt = func(p oauth.Prompt) bool {
			prompts <- p
			return true
		}
	})
	done := make(chan error, 1)
	go func() { // ends with the call, which is bounded
		_, err := s.call(source, "whoami")
		done <- err
	}()
	select {
	case p := <-prompts:
		newPerson(t).approveDevice(p.URL)
	case err := <-done:
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s.want(source, "alice", "mcp:read")
	s.wantCounts(map[string]int{"device codes": 1, "urn:ietf:params:oauth:grant-type:device_code": 1, "authorization_code": 0})
}

func TestNpmOAuthSignsInAsTheClientItself(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	s := newSignIn(t, object{"accessTTL": 1, "clients": []object{
		machine("basic", "client_secret_basic", object{"client_secret": "a secret: of the client"}),
		machine("post", "client_secret_post", object{"client_secret": "a secret: of the client"}),
		machine("signing", "private_key_jwt", object{"jwks": object{"keys": []object{publicJWK(key)}}}),
	}}, nil)
	for _, id := range []string{"basic", "post", "signing"} {
		source := s.source(func(c *oauth.Config) {
			c.Grant, c.ClientID, c.Prompt, c.Scopes = oauth.ClientCredentials, id, nil, []string{"mcp:read"}
			if id == "signing" {
				c.ClientKey = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
			} else {
				c.ClientSecret, c.ClientAuth = "a secret: of the client", "client_secret_"+id
			}
		})
		s.want(source, id, "mcp:read")
		s.expire(source)
		s.want(source, id, "mcp:read")
	}
	s.wantCounts(map[string]int{"authorization requests": 0})
	if n := s.auth.tally().Counts["client_credentials"]; n < 6 {
		t.Errorf("the clients signed in %d times, want twice each at least", n)
	}
}

func TestNpmOAuthSignsInByAMetadataDocument(t *testing.T) {
	t.Parallel()
	const id = "https://client.example/metadata.json"
	s := newSignIn(t, object{"registration": false, "documents": object{id: object{
		"client_id": id, "client_name": "documented", "application_type": "native", "token_endpoint_auth_method": "none",
		"redirect_uris": []string{"http://127.0.0.1/callback"}, "grant_types": []string{"authorization_code", "refresh_token"},
	}}}, nil)
	source := s.source(func(c *oauth.Config) { c.MetadataURL = id })
	s.want(source, "alice", "mcp:read")
	s.wantCounts(map[string]int{"registrations": 0, "authorizations": 1})
}
