package oauth_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
	"github.com/dragoman-mcp/dragoman/oauth"
)

// A site is a callback of ours.
type site struct {
	url string

	mu    sync.Mutex
	open  map[string]*oauth.SignIn // by state
	ended int
}

func newSite(t *testing.T) *site {
	s := &site{open: make(map[string]*oauth.SignIn)}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		v := s.open[r.FormValue("state")]
		s.mu.Unlock()
		switch {
		case v == nil:
			http.Error(w, "nobody waits", http.StatusNotFound)
		case r.URL.Path == "/page":
			http.Redirect(w, r, v.URL, http.StatusFound)
		default:
			if err := v.Take(r.URL.Query()); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
			}
		}
	}))
	t.Cleanup(web.Close)
	s.url = web.URL
	return s
}

func (s *site) callback() *oauth.Callback {
	return &oauth.Callback{URI: s.url + "/back", Open: func(v *oauth.SignIn) (string, func(), error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open[v.State] = v
		return s.url + "/page?state=" + v.State, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.open, v.State)
			s.ended++
		}, nil
	}}
}

// counts returns how many visits are open, and how many have ended.
func (s *site) counts() (open, ended int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open), s.ended
}

// signIn signs in in a browser that goes where the prompt leads it, and returns the prompt.
func signIn(t *testing.T, c *oauth.Config) oauth.Prompt {
	t.Helper()
	told := make(chan oauth.Prompt, 1)
	c.Prompt = func(p oauth.Prompt) bool { told <- p; return true }
	source := newSource(t, c)
	done := make(chan error, 1)
	go func() { done <- source.SignIn(t.Context()) }()
	select {
	case p := <-told:
		if page, err := authtest.NewBrowser(nil).Visit(p.URL); err != nil || page.Status != http.StatusOK {
			t.Fatalf("the browser: %v %+v", err, page)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		return p
	case err := <-done:
		t.Fatal(err)
	}
	return oauth.Prompt{}
}

func TestABrowserElsewhereComesBackToACallback(t *testing.T) {
	server, at := authtest.New(t, nil), newSite(t)
	// Also where a code could be had.
	p := signIn(t, &oauth.Config{Server: server.URL, NoBrowser: true, Callback: at.callback})
	if !strings.HasPrefix(p.URL, at.url+"/page?") || p.Code != "" {
		t.Errorf("the user is told %+v", p)
	}
	if open, ended := at.counts(); open != 0 || ended != 1 {
		t.Errorf("%d visits are open, %d have ended", open, ended)
	}
}

// A client is registered with the place that it comes back to, and with no other.
func TestAClientIsRegisteredAgainForAnotherPlaceToComeBackTo(t *testing.T) {
	server, at, store := authtest.New(t, nil), newSite(t), oauth.NewMemory()
	here := func() *oauth.Config { return &oauth.Config{Server: server.URL, Store: store} }
	there := func() *oauth.Config { return &oauth.Config{Server: server.URL, Store: store, Callback: at.callback} }
	for i, step := range []struct {
		config func() *oauth.Config
		want   int
	}{
		{here, 1}, {there, 2}, {there, 2}, {here, 3}, {there, 4},
		{func() *oauth.Config { c := there(); c.CallbackPath = "/mine"; return c }, 5},
	} {
		signIn(t, step.config())
		if got := server.Count("register"); got != step.want {
			t.Errorf("step %d: %d registrations, want %d", i, got, step.want)
		}
	}
}

func TestAUserWhoDoesNotWantToSignInAtACallbackEndsIt(t *testing.T) {
	server, at := authtest.New(t, nil), newSite(t)
	told := make(chan oauth.Prompt, 1)
	source := newSource(t, &oauth.Config{Server: server.URL, Callback: at.callback, Prompt: func(p oauth.Prompt) bool { told <- p; return true }})
	done := make(chan error, 1)
	go func() { done <- source.SignIn(t.Context()) }()
	u, err := url.Parse((<-told).URL)
	if err != nil {
		t.Fatal(err)
	}
	at.mu.Lock()
	v := at.open[u.Query().Get("state")]
	at.mu.Unlock()
	if err := v.Take(nil); err == nil {
		t.Error("that is no error for the user")
	}
	if err := v.Take(url.Values{"code": {"x"}, "iss": {server.Issuer}}); err == nil {
		t.Error("a second answer counts")
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "did not agree") {
		t.Errorf("the sign-in ends with %v", err)
	}
}

func TestAClientOfAWebsiteIsRegisteredAsOne(t *testing.T) {
	const back = "https://mcp.example.com/back"
	var asked map[string]any
	server := authtest.New(t, &authtest.Options{Change: func(what string, doc map[string]any) {
		if what == "registration" {
			asked = doc
		}
	}})
	full := errors.New("too many are waiting")
	source := newSource(t, &oauth.Config{
		Server: server.URL, Prompt: func(oauth.Prompt) bool { t.Error("the user is asked"); return true },
		Callback: func() *oauth.Callback {
			return &oauth.Callback{URI: back, Open: func(*oauth.SignIn) (string, func(), error) { return "", nil, full }}
		},
	})
	if err := source.SignIn(t.Context()); !errors.Is(err, full) {
		t.Errorf("the sign-in ends with %v, want what the callback says", err)
	}
	if asked["application_type"] != "web" || fmt.Sprint(asked["redirect_uris"]) != "["+back+"]" {
		t.Errorf("the client registers as %v", asked)
	}
}
