package authserver_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/access/auth"
	"github.com/dragoman-mcp/dragoman/internal/access/authserver"
	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
	"github.com/dragoman-mcp/dragoman/internal/wire/token"
)

const back = "https://app.example.com/callback"

func TestASignInGivesTokensForOneResource(t *testing.T) {
	w := newWorld(t, authtest.Options{}, func(o *authserver.Options) {
		o.EndpointPaths = func(path string) []string { return []string{path, "/sse"} }
	})
	p := w.register(back)
	b := w.browser()
	page := p.visit(b, url.Values{"scope": {"read unknown"}})
	if got := page.URL.Query(); got.Get("state") != "the state" || got.Get("iss") != us || !strings.HasPrefix(page.URL.String(), back+"?") {
		t.Fatalf("the browser ends at %s", page.URL)
	}
	status, doc := p.exchange(page.URL.Query().Get("code"))
	have := tokensOf(t, status, doc)
	if doc["token_type"] != "Bearer" || doc["expires_in"] != 600.0 || doc["scope"] != "read" {
		t.Errorf("the answer is %v", doc)
	}
	for path, want := range map[string]int{"/mcp": 200, "/sse": 200, "/servers/other/mcp": 401, "/": 401} {
		if got := w.admit(path, have.access); got != want {
			t.Errorf("the token at %s: %d, want %d", path, got, want)
		}
	}
	if got := w.happened(); got != "register, sign-in user:user@"+w.provider.Issuer+", token user:user@"+w.provider.Issuer {
		t.Errorf("what happened: %s", got)
	}
}

func TestWithoutAResourceATokenIsForAllOfOurs(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	p := w.register(back)
	status, doc := w.post("/oauth/token", url.Values{
		"client_id": {p.id}, "grant_type": {"authorization_code"}, "redirect_uri": {back}, "code_verifier": {p.verifier},
		"code": {p.code(w.browser(), url.Values{"resource": {"-"}})},
	})
	have := tokensOf(t, status, doc)
	for _, path := range []string{"/mcp", "/servers/a/mcp"} {
		if got := w.admit(path, have.access); got != http.StatusOK {
			t.Errorf("%s: %d", path, got)
		}
	}
}

func TestWhatIsKnownOfAUserComesFromTheProvider(t *testing.T) {
	for name, change := range map[string]func(*authserver.Options){
		"ID token": nil,
		"userinfo": func(o *authserver.Options) { // plain OAuth
			o.Provider.Authorize, o.Provider.Token, o.Provider.Userinfo = "http://127.0.0.1/authorize", "http://127.0.0.1/token", "http://127.0.0.1/userinfo"
			o.Provider.Scopes = []string{"read:user"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, authtest.Options{}, func(o *authserver.Options) {
				o.Provider.ClaimOptions = auth.ClaimOptions{Issuer: o.Provider.Issuer, Principal: "login", Groups: []string{"realm.roles"}, Claims: []string{"hd"}}
				if change != nil {
					change(o)
				}
			})
			w.provider.SetUser(map[string]any{
				"sub": "1", "login": 77, "realm": map[string]any{"roles": []string{"dev", "ops"}}, "hd": "example.com", "email": "a@example.com",
			})
			have := w.register(back).signIn(w.browser())
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, us+"/mcp", http.NoBody)
			r.Header.Set("Authorization", "Bearer "+have.access)
			c, err := w.policy.Caller(r)
			if err != nil {
				t.Fatal(err)
			}
			if c.Principal != "user:77@"+w.provider.Issuer || !slices.Equal(c.Claims["groups"], []string{"dev", "ops"}) ||
				!slices.Equal(c.Claims["hd"], []string{"example.com"}) || c.Claims["email"] != nil || c.Credential != "sign-in" {
				t.Errorf("the caller is %+v", c)
			}
		})
	}
}

func TestRefreshTokensAreUsedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, authtest.Options{}, nil)
		p := w.register(back)
		first := p.signIn(w.browser())
		time.Sleep(9 * time.Minute)
		status, doc := p.refresh(first.refresh)
		second := tokensOf(t, status, doc)
		if second.refresh == first.refresh || second.access == first.access {
			t.Error("the tokens are those from before")
		}
		for _, token := range []string{first.access, second.access} {
			if got := w.admit("/mcp", token); got != http.StatusOK {
				t.Errorf("a token that has not expired: %d", got)
			}
		}
		// The answer was lost.
		time.Sleep(5 * time.Second)
		status, doc = p.refresh(first.refresh)
		if again := tokensOf(t, status, doc); again.refresh != second.refresh {
			t.Error("a retry gets another refresh token: one of both would end the sign-in")
		}
		w.happened()
		time.Sleep(6 * time.Second)
		if status, doc = p.refresh(first.refresh); status != http.StatusBadRequest || doc["error"] != "invalid_grant" {
			t.Errorf("a refresh token that was used: %d %v", status, doc)
		}
		if got := w.happened(); !strings.HasPrefix(got, "reuse user:user@") {
			t.Errorf("what happened: %s", got)
		}
		for _, token := range []string{first.access, second.access} {
			if got := w.admit("/mcp", token); got != http.StatusUnauthorized {
				t.Errorf("a token of a sign-in that has ended: %d", got)
			}
		}
		if status, _ = p.refresh(second.refresh); status != http.StatusBadRequest {
			t.Errorf("the newest refresh token of a sign-in that has ended: %d", status)
		}
	})
}

func TestAnOldRefreshTokenIsNotTakenOnceTheNewOneWasUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, authtest.Options{}, nil)
		p := w.register(back)
		first := p.signIn(w.browser())
		status, doc := p.refresh(first.refresh)
		second := tokensOf(t, status, doc)
		if status, doc = p.refresh(second.refresh); status != http.StatusOK {
			t.Fatalf("refresh: %d %v", status, doc)
		}
		if status, _ = p.refresh(first.refresh); status != http.StatusBadRequest {
			t.Errorf("the first one, a moment later: %d", status)
		}
	})
}

func TestAccessTokensExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, authtest.Options{}, nil)
		have := w.register(back).signIn(w.browser())
		time.Sleep(10*time.Minute - time.Second)
		if got := w.admit("/mcp", have.access); got != http.StatusOK {
			t.Errorf("before: %d", got)
		}
		time.Sleep(time.Second)
		if got := w.admit("/mcp", have.access); got != http.StatusUnauthorized {
			t.Errorf("after ten minutes: %d", got)
		}
	})
}

func TestStreamsEndAtOnceWhenASignInIsRevoked(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	p := w.register(back)
	for _, by := range []string{"access", "refresh"} {
		have := p.signIn(w.browser())
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, us+"/mcp", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+have.access)
		c, err := w.policy.Caller(r)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		stop := c.OnEnd(func() { close(ended) })
		defer stop()
		other := w.register(back)
		if status, _ := w.post("/oauth/revoke", url.Values{"client_id": {other.id}, "token": {have.refresh}}); status != http.StatusOK {
			t.Errorf("revoked by another client: %d", status)
		}
		if got := w.admit("/mcp", have.access); got != http.StatusOK {
			t.Errorf("after another client has tried: %d", got)
		}
		token := map[string]string{"access": have.access, "refresh": have.refresh}[by]
		if status, _ := w.post("/oauth/revoke", url.Values{"client_id": {p.id}, "token": {token}}); status != http.StatusOK {
			t.Errorf("revoke: %d", status)
		}
		<-ended
		if got := w.admit("/mcp", have.access); got != http.StatusUnauthorized {
			t.Errorf("after that: %d", got)
		}
	}
}

func TestTheUserIsAskedAboutAtEveryRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, authtest.Options{}, nil)
		w.provider.SetUser(map[string]any{"sub": "user", "groups": []string{"dev"}})
		p := w.register(back)
		have := p.signIn(w.browser())
		caller := func() *dragoman.Caller {
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, us+"/mcp", http.NoBody)
			r.Header.Set("Authorization", "Bearer "+have.access)
			c, err := w.policy.Caller(r)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		first := caller()
		if got := first.Claims["groups"]; !slices.Equal(got, []string{"dev"}) {
			t.Errorf("groups are %q", got)
		}
		ended := make(chan struct{})
		defer first.OnEnd(func() { close(ended) })()
		w.provider.SetUser(map[string]any{"sub": "user", "groups": []string{"guest"}})
		time.Sleep(5 * time.Minute)
		status, doc := p.refresh(have.refresh)
		next := tokensOf(t, status, doc)
		began := time.Now()
		<-ended // at once: streams see what the groups show
		if took := time.Since(began); took != 0 {
			t.Errorf("streams of the old groups ended after %v", took)
		}
		if got := caller().Claims["groups"]; !slices.Equal(got, []string{"guest"}) {
			t.Errorf("after a refresh the old token is for the groups %q", got)
		}
		have = next
		w.provider.Revoke()
		time.Sleep(5 * time.Minute)
		w.happened()
		if status, doc = p.refresh(have.refresh); status != http.StatusBadRequest || doc["error"] != "invalid_grant" {
			t.Errorf("when the provider has ended the sign-in: %d %v", status, doc)
		}
		if got := w.happened(); !strings.HasPrefix(got, "gone") {
			t.Errorf("what happened: %s", got)
		}
		if got := w.admit("/mcp", have.access); got != http.StatusUnauthorized {
			t.Errorf("its token: %d", got)
		}
	})
}

func TestAProviderThatTellsOfAnotherUserEndsTheSignIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, authtest.Options{}, nil)
		p := w.register(back)
		have := p.signIn(w.browser())
		w.provider.SetUser(map[string]any{"sub": "somebody else"})
		time.Sleep(5 * time.Minute)
		if status, doc := p.refresh(have.refresh); status != http.StatusBadRequest || doc["error"] != "invalid_grant" {
			t.Errorf("refresh: %d %v", status, doc)
		}
		if got := w.admit("/mcp", have.access); got != http.StatusUnauthorized {
			t.Errorf("its token: %d", got)
		}
	})
}

func TestSignInsGoOnForAnHourWhileTheProviderIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, authtest.Options{}, nil)
		p := w.register(back)
		have := p.signIn(w.browser())
		w.provider.Leave(true)
		for i := range 8 {
			time.Sleep(8 * time.Minute)
			status, doc := p.refresh(have.refresh)
			if i == 7 {
				if status != http.StatusServiceUnavailable || doc["error"] != "temporarily_unavailable" {
					t.Errorf("after an hour: %d %v", status, doc)
				}
				break
			}
			have = tokensOf(t, status, doc)
		}
		page := p.visit(w.browser(), nil)
		if page.Status != 0 && page.Status != http.StatusServiceUnavailable && page.URL.Host != "127.0.0.1" {
			t.Errorf("a sign-in meanwhile: %+v", page)
		}
		w.provider.Leave(false)
		if status, doc := p.refresh(have.refresh); status != http.StatusOK {
			t.Errorf("when the provider is back: %d %v", status, doc)
		}
	})
}

func TestASignInThatCannotBeAskedAboutLastsADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, authtest.Options{NoRefresh: true}, nil)
		p := w.register(back)
		have := p.signIn(w.browser())
		for range 24*6 - 1 {
			time.Sleep(10 * time.Minute)
			status, doc := p.refresh(have.refresh)
			have = tokensOf(t, status, doc)
		}
		time.Sleep(10 * time.Minute)
		if status, _ := p.refresh(have.refresh); status != http.StatusBadRequest {
			t.Errorf("after a day: %d", status)
		}
	})
}

func TestSignInsOutliveTheServer(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	p := w.register(back)
	have := p.signIn(w.browser())
	b := w.browser()
	b.Answer = "-"
	page := p.visit(b, nil) // asks for consent
	w.start()
	if got := w.admit("/mcp", have.access); got != http.StatusOK {
		t.Errorf("the access token: %d", got)
	}
	if status, doc := p.refresh(have.refresh); status != http.StatusOK {
		t.Errorf("the refresh token: %d %v", status, doc)
	}
	req, err := b.Submit(page, "allow")
	if err != nil {
		t.Fatal(err)
	}
	if page, err = b.Send(req); err != nil || page.Status != http.StatusOK || page.Header.Get("Refresh") == "" {
		t.Errorf("a sign-in in progress: %+v, %v", page, err)
	}
	p.code(b, nil) // the client is known
	w.opts.Key = []byte(rand.Text() + rand.Text())[:token.KeySize]
	w.start()
	if page := p.visit(w.browser(), nil); page.Status != http.StatusBadRequest {
		t.Errorf("a client that was registered under another key: %d", page.Status)
	}
}

func TestTokensOfAnotherProviderAreNotTaken(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	have := w.register(back).signIn(w.browser())
	w.opts.Provider.Issuer = "https://other.example.com"
	w.start()
	if got := w.admit("/mcp", have.access); got != http.StatusUnauthorized {
		t.Errorf("status %d", got)
	}
}

func TestSecretsAreNotInRecordsNorInTheLog(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	store := &spyStore{Records: w.opts.Store}
	w.opts.Store = store
	w.start()
	p := w.register(back)
	code := p.code(w.browser(), nil)
	status, doc := p.exchange(code)
	have := tokensOf(t, status, doc)
	status, doc = p.refresh(have.refresh)
	next := tokensOf(t, status, doc)
	all := []string{code, have.access, have.refresh, next.access, next.refresh}
	for _, list := range w.provider.Secrets() {
		all = append(all, list...)
	}
	if len(all) < 10 {
		t.Fatalf("there are %d secrets, want more", len(all))
	}
	for _, secret := range all {
		for _, text := range append(store.seen, w.log.String(), fmt.Sprint(w.events)) {
			if strings.Contains(text, secret) {
				t.Errorf("%.12s… is in %.200s", secret, text)
			}
		}
	}
}

func TestRefreshesAtOnceGetTheSameRefreshToken(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	p := w.register(back)
	have := p.signIn(w.browser())
	type answer struct {
		status int
		doc    map[string]any
	}
	answers := make(chan answer)
	for range 16 {
		go func() { // ends with its answer
			status, doc := p.refresh(have.refresh)
			answers <- answer{status, doc}
		}()
	}
	var first any
	for range 16 {
		a := <-answers
		if a.status != http.StatusOK || first != nil && a.doc["refresh_token"] != first {
			t.Errorf("%d %v", a.status, a.doc)
		}
		first = a.doc["refresh_token"]
	}
	if status, doc := p.refresh(first.(string)); status != http.StatusOK {
		t.Errorf("the new one: %d %v", status, doc)
	}
}

func TestACodeIsTakenByOneOfMany(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	p := w.register(back)
	code := p.code(w.browser(), nil)
	good := make(chan string)
	for range 16 {
		go func() { // ends with its answer
			_, doc := p.exchange(code)
			token, _ := doc["access_token"].(string)
			good <- token
		}()
	}
	var list []string
	for range 16 {
		if token := <-good; token != "" {
			list = append(list, token)
		}
	}
	if len(list) != 1 {
		t.Fatalf("%d got tokens, want one", len(list))
	}
	if got := w.admit("/mcp", list[0]); got != http.StatusUnauthorized {
		t.Errorf("the token of a code that came twice: %d", got)
	}
}
