package authserver_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/auth"
	"github.com/dragoman-mcp/dragoman/internal/access/authserver"
	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/internal/util/limit"
)

func TestSigningOutEndsWhatTheProviderHasGiven(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*authserver.Options)
		by     func(tokens) string
		want   int
	}{
		"by the refresh token":          {nil, func(have tokens) string { return have.refresh }, 1},
		"by the access token":           {nil, func(have tokens) string { return have.access }, 0}, // which does not open what is sealed
		"a provider that would end all": {func(o *authserver.Options) { o.Provider.Keeps = true }, func(have tokens) string { return have.refresh }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, authtest.Options{}, test.change)
			p := w.register(back)
			have := p.signIn(w.browser())
			for range 2 { // the second time there is nothing to end
				if status, doc := w.post("/oauth/revoke", p.auth(url.Values{"token": {test.by(have)}})); status != http.StatusOK {
					t.Errorf("it gets %d %v", status, doc)
				}
			}
			if got := w.provider.Count("revoke"); got != test.want {
				t.Errorf("the provider was told %d times, want %d", got, test.want)
			}
			if got := w.admit("/mcp", have.access); got != http.StatusUnauthorized {
				t.Errorf("the token: %d", got)
			}
		})
	}
}

func TestProviderThatCannotRevokeHoldsUpNobody(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	p := w.register(back)
	have := p.signIn(w.browser())
	w.provider.Leave(true)
	if status, doc := w.post("/oauth/revoke", p.auth(url.Values{"token": {have.refresh}})); status != http.StatusOK {
		t.Errorf("it gets %d %v", status, doc)
	}
	if got := w.admit("/mcp", have.access); got != http.StatusUnauthorized || !strings.Contains(w.log.String(), "cannot be revoked") {
		t.Errorf("the token: %d; the log:\n%s", got, w.log.String())
	}
}

// withLists adds pages of lists to a provider, by their paths.
func (w *world) withLists(p *authserver.Provider, pages map[string]func(page int) string) {
	l := memnet.Listen()
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "127.0.0.1"})
	proxy.Transport = w.inside
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		list, ok := pages[r.URL.Path]
		if !ok {
			proxy.ServeHTTP(rw, r)
			return
		}
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		text := list(page)
		switch {
		case !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer "):
			rw.WriteHeader(http.StatusUnauthorized)
		case text == "":
			rw.WriteHeader(http.StatusForbidden)
		}
		_, _ = io.WriteString(rw, text)
	}))
	_ = server.Listener.Close()
	server.Listener = l
	server.Start()
	w.t.Cleanup(server.Close)
	p.Network.Dial = l.DialContext
}

func TestGroupsMayBeListsOfTheirOwn(t *testing.T) {
	full := make([]map[string]string, 100)
	for i := range full {
		full[i] = map[string]string{"login": fmt.Sprint("org", i)}
	}
	hundred, _ := json.Marshal(full) // texts always encode
	for name, test := range map[string]struct {
		orgs, teams func(page int) string
		want        []string // nil if the sign-in fails
	}{
		"some": {
			func(int) string { return `[{"login":"acme"},{"login":"other"},{"login":7},{}]` },
			func(int) string { return `[{"slug":"core","organization":{"login":"acme"}},{"slug":"lost"}]` },
			[]string{"acme", "acme/core", "other"},
		},
		"none": {func(int) string { return `[]` }, func(int) string { return `[]` }, []string{}},
		"in pages": {
			func(page int) string { return map[int]string{1: string(hundred), 2: `[{"login":"last"}]`}[page] },
			func(int) string { return `[]` }, func() (all []string) {
				for _, o := range full {
					all = append(all, o["login"])
				}
				return slices.Sorted(slices.Values(append(all, "last")))
			}(),
		},
		"without an end": {func(int) string { return string(hundred) }, func(int) string { return `[]` }, nil},
		"no list":        {func(int) string { return `{}` }, func(int) string { return `[]` }, nil},
		"no objects":     {func(int) string { return `[1]` }, func(int) string { return `[]` }, nil},
		"not allowed":    {func(int) string { return "" }, func(int) string { return `[]` }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, authtest.Options{}, nil)
			p := &w.opts.Provider
			p.Authorize, p.Token, p.Userinfo = "http://127.0.0.1/authorize", "http://127.0.0.1/token", "http://127.0.0.1/userinfo"
			p.ClaimOptions = auth.ClaimOptions{Issuer: p.Issuer, Principal: "login", Groups: []string{"organizations", "teams"}}
			p.Lists = []authserver.List{
				{Claim: "organizations", URL: "http://127.0.0.1/user/orgs", Paths: []string{"login"}},
				{Claim: "teams", URL: "http://127.0.0.1/user/teams", Paths: []string{"organization.login", "slug"}},
			}
			w.withLists(p, map[string]func(int) string{"/user/orgs": test.orgs, "/user/teams": test.teams})
			w.start()
			w.provider.SetUser(map[string]any{"sub": "1", "login": "octocat"})
			client := w.register(back)
			if test.want == nil {
				if page := client.visit(w.browser(), nil); page.URL.Query().Get("code") != "" {
					t.Error("it signs in")
				}
				return
			}
			have := client.signIn(w.browser())
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, us+"/mcp", http.NoBody)
			r.Header.Set("Authorization", "Bearer "+have.access)
			c, err := w.policy.Caller(r)
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Sorted(slices.Values(c.Claims["groups"])); !slices.Equal(got, test.want) {
				t.Errorf("the groups are %q", got)
			}
		})
	}
}

func TestAddressesThatAskTooOftenHaveToWait(t *testing.T) {
	w := newWorld(t, authtest.Options{}, func(o *authserver.Options) { o.Rate = limit.Rate{Count: 3, Per: time.Hour} })
	for i, path := range []string{"/oauth/register", "/oauth/token", "/oauth/revoke", "/oauth/register", "/oauth/token", "/token", "/oauth/revoke", "/oauth/authorize", "/oauth/callback"} {
		status, doc, header := w.do(http.MethodPost, path, "application/json", `{}`, nil)
		if limited := status == http.StatusTooManyRequests; limited != (i >= 3) || limited && header.Get("Retry-After") == "" {
			t.Errorf("request %d, %s: %d %v, Retry-After %q", i+1, path, status, doc, header.Get("Retry-After"))
		}
	}
	if status, _, _ := w.do(http.MethodGet, "/.well-known/oauth-authorization-server", "", "", nil); status != http.StatusOK {
		t.Errorf("the metadata gets %d", status)
	}
	r := httptest.NewRequest(http.MethodPost, us+"/oauth/register", strings.NewReader(`{}`))
	r.RemoteAddr = "198.51.100.7:1234"
	rec := httptest.NewRecorder()
	if w.server.At("/oauth/register")(rec, r); rec.Code == http.StatusTooManyRequests {
		t.Error("another address has to wait too")
	}
}
