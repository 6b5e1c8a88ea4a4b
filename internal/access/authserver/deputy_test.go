package authserver_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/authserver"
	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
)

// capture has a browser consent, and stop where the provider would be. It returns that URL.
func (p *program) capture(b *authtest.Browser) string {
	p.w.t.Helper()
	stop := b.Stop
	defer func() { b.Stop = stop }()
	b.Stop = func(u *url.URL) bool { return u.Host == "127.0.0.1" }
	page := p.visit(b, nil)
	if page.Status != 0 || page.URL.Path != "/authorize" {
		p.w.t.Fatalf("the browser is at %s, status %d", page.URL, page.Status)
	}
	return page.URL.String()
}

// returned follows a URL of the provider in a browser up to our callback, and returns that.
func (w *world) returned(b *authtest.Browser, at string) string {
	w.t.Helper()
	stop := b.Stop
	defer func() { b.Stop = stop }()
	b.Stop = func(u *url.URL) bool { return u.Path == "/oauth/callback" }
	page, err := b.Visit(at)
	if err != nil || page.Status != 0 {
		w.t.Fatalf("%v, %+v", err, page)
	}
	return page.URL.String()
}

// refused fails the test unless a page shows that the sign-in does not continue.
func refused(t *testing.T, page *authtest.Page, err error, when string) {
	t.Helper()
	switch {
	case err != nil:
		t.Errorf("%s: %v", when, err)
	case page.Status != http.StatusBadRequest || page.Header.Get("Location") != "" || page.Header.Get("Refresh") != "":
		t.Errorf("%s: status %d, leads to %q: %s", when, page.Status, page.Header.Get("Location"), page.URL)
	case !strings.Contains(page.Body, "You are not signed in"):
		t.Errorf("%s: the page says %s", when, page.Body)
	}
}

func TestS27_TheProvidersURLIsGoodInTheBrowserThatWasAsked(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	p := w.register("https://attacker.example.com/callback")
	attacker, victim := w.browser(), w.browser()
	captured := p.capture(attacker)
	page, err := victim.Visit(captured)
	refused(t, page, err, "a browser without cookies")

	// The victim has signed in here, and is signing in, with a program of its own.
	own := w.register(back)
	own.signIn(victim)
	own.capture(victim)
	page, err = victim.Visit(captured)
	refused(t, page, err, "a browser with cookies of other sign-ins")
	if got := w.happened(); strings.Count(got, "sign-in") != 1 {
		t.Errorf("what happened: %s", got)
	}
	// In the browser that was asked it continues.
	if page, err = attacker.Visit(captured); err != nil || page.URL.Query().Get("code") == "" {
		t.Errorf("the browser that was asked ends at %v, %v", page, err)
	}
}

func TestS27_CookiesOfOneSignInAreNoGoodForAnother(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	p := w.register(back)
	b := w.browser()
	one, two := p.capture(b), p.capture(b)
	var names, values []string
	for _, c := range b.Cookies(us) {
		if strings.Contains(c.Name, "-t-") {
			names, values = append(names, c.Name), append(values, c.Value)
		}
	}
	if len(names) != 2 {
		t.Fatalf("the browser has the cookies %q", names)
	}
	b.SetCookies(us, []*http.Cookie{
		{Name: names[0], Value: values[1], Path: "/", Secure: true}, {Name: names[1], Value: values[0], Path: "/", Secure: true},
	})
	for _, at := range []string{one, two} {
		page, err := b.Visit(at)
		refused(t, page, err, "with the cookie of another sign-in under its name")
	}
}

func TestS27_AStateIsGoodOnceAndForTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, authtest.Options{}, nil)
		p := w.register(back)
		b := w.browser()
		at := w.returned(b, p.capture(b))
		cookies := b.Cookies(us)
		page, err := b.Visit(at)
		if err != nil || page.URL.Query().Get("code") == "" {
			t.Fatalf("the browser ends at %v, %v", page, err)
		}
		page, err = b.Visit(at)
		refused(t, page, err, "again, without the cookie")
		for _, c := range cookies {
			c.Path, c.Secure = "/", true
		}
		b.SetCookies(us, cookies)
		page, err = b.Visit(at)
		refused(t, page, err, "again, with the cookie")

		late := w.browser()
		at = p.capture(late)
		cookies = late.Cookies(us)
		time.Sleep(10 * time.Minute)
		for _, c := range cookies {
			c.Path, c.Secure = "/", true
		}
		late.SetCookies(us, cookies)
		page, err = late.Visit(at)
		refused(t, page, err, "after ten minutes")
	})
}

func TestS27_NobodyIsSignedInAsSomebodyElse(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	p := w.register(back)
	attacker, victim := w.browser(), w.browser()
	// Login CSRF: the attacker's answer of the provider, in the victim's browser.
	at := w.returned(attacker, p.capture(attacker))
	page, err := victim.Visit(at)
	refused(t, page, err, "the callback of another browser")
	// The same, with the state of the victim's own sign-in and the attacker's code.
	own, err := url.Parse(p.capture(victim))
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("state", own.Query().Get("state"))
	u.RawQuery = q.Encode()
	page, err = victim.Visit(u.String())
	if err != nil || page.URL.Query().Get("error") != "access_denied" || page.URL.Query().Get("code") != "" {
		t.Errorf("a code that was got in another browser: %v, %v", page, err)
	}
}

func TestS27_ConsentIsAskedForEachClientAndRedirectURI(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	p := w.register(back, back+"/2", "http://127.0.0.1/callback", "com.example.app:/callback")
	twin := w.register(back)
	b := w.browser()
	asked := func(p *program, other url.Values) bool {
		t.Helper()
		b.Seen = nil
		p.code(b, other)
		return strings.Contains(b.Seen[0].Body, "Allow access?")
	}
	for i, row := range []struct {
		program *program
		other   url.Values
		want    bool
	}{
		{p, nil, true},
		{p, nil, false},
		{p, url.Values{"state": {"another"}, "resource": {us + "/servers/a/mcp"}}, false},
		{p, url.Values{"redirect_uri": {back + "/2"}}, true},
		{p, url.Values{"redirect_uri": {back + "/2"}}, false},
		{p, url.Values{"scope": {"write"}}, true},
		{p, url.Values{"scope": {"write"}}, false},
		{p, url.Values{"scope": {"read write"}}, true},
		{p, url.Values{"scope": {"read"}}, false},
		{twin, nil, true},
		{p, url.Values{"redirect_uri": {"http://127.0.0.1:4711/callback"}}, true},
		{p, url.Values{"redirect_uri": {"http://127.0.0.1:4711/callback"}}, true}, // any program can be at a port
		{p, url.Values{"redirect_uri": {"com.example.app:/callback"}}, true},
		{p, url.Values{"redirect_uri": {"com.example.app:/callback"}}, true},
	} {
		if got := asked(row.program, row.other); got != row.want {
			t.Errorf("%d: %v: asked is %v, want %v", i, row.other, got, row.want)
		}
	}
	b = w.browser()
	if !asked(p, nil) {
		t.Error("another browser is not asked")
	}
}

func TestS27_OnlyTheFormOfThisBrowserCounts(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	p := w.register(back)
	victim, attacker := w.browser(), w.browser()
	victim.Answer, attacker.Answer = "-", "-"
	page, foreign := p.visit(victim, nil), p.visit(attacker, nil)
	form := func(b *authtest.Browser, of *authtest.Page, change func(*http.Request)) *authtest.Page {
		t.Helper()
		req, err := b.Submit(of, "allow")
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(req)
		}
		page, err := b.Send(req)
		if err != nil {
			t.Fatal(err)
		}
		return page
	}
	refused(t, form(victim, foreign, nil), nil, "the form of another browser")
	refused(t, form(victim, page, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }), nil, "from another site")
	refused(t, form(victim, page, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }), nil, "from a sibling")
	refused(t, form(victim, page, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example.com") }), nil, "from another origin")
	refused(t, form(victim, page, func(r *http.Request) { r.Header.Set("Origin", "null") }), nil, "from no origin")
	refused(t, form(victim, page, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }), nil, "as plain text")
	refused(t, form(w.browser(), page, nil), nil, "without cookies")
	if page := form(victim, page, nil); page.Status != http.StatusOK || !strings.HasPrefix(page.Header.Get("Refresh"), "0; url=http://127.0.0.1/authorize?") {
		t.Errorf("the form of this browser: %+v", page)
	}
}

func TestCancelSendsTheUserBackWithAnError(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	p := w.register("http://localhost:1/callback?x=1")
	b := w.browser()
	b.Answer = "deny"
	page := p.visit(b, nil)
	q := page.URL.Query()
	if page.URL.Host != "localhost:1" || q.Get("x") != "1" || q.Get("error") != "access_denied" || q.Get("state") != "the state" || q.Get("iss") != us {
		t.Errorf("the browser ends at %s", page.URL)
	}
	if w.provider.Count("authorize") != 0 {
		t.Error("the provider was asked all the same")
	}
}

func TestS27_AnswersOfAnotherIssuerAreRefused(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	p := w.register(back)
	for _, iss := range []string{"https://evil.example.com", w.provider.Issuer + "/", ""} {
		b := w.browser()
		u, err := url.Parse(w.returned(b, p.capture(b)))
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		if q.Set("iss", iss); iss == "" {
			q.Del("iss")
		}
		u.RawQuery = q.Encode()
		page, err := b.Visit(u.String())
		refused(t, page, err, "with the issuer "+iss)
	}
}

func TestS27_IDTokensMustBeForThisSignIn(t *testing.T) {
	var change func(claims map[string]any)
	w := newWorld(t, authtest.Options{Change: func(what string, doc map[string]any) {
		if what == "id_token" && change != nil {
			change(doc)
		}
	}}, nil)
	p := w.register(back)
	set := func(name string, v any) func(map[string]any) {
		return func(c map[string]any) {
			if c[name] = v; v == nil {
				delete(c, name)
			}
		}
	}
	for name, f := range map[string]func(map[string]any){
		"nonce of another":     set("nonce", "x"),
		"no nonce":             set("nonce", nil),
		"for another client":   set("aud", "other"),
		"for no client":        set("aud", nil),
		"of another issuer":    set("iss", "https://evil.example.com"),
		"given to another":     set("azp", "other"),
		"several, no azp":      set("aud", []string{"client", "other"}),
		"expired":              set("exp", time.Now().Add(-time.Hour).Unix()),
		"without end":          set("exp", nil),
		"issued in the future": set("iat", time.Now().Add(time.Hour).Unix()),
		"of nobody":            set("sub", nil),
		"of an empty name":     set("sub", ""),
	} {
		change = f
		if page := p.visit(w.browser(), nil); page.URL.Query().Get("error") != "access_denied" || page.URL.Query().Get("code") != "" {
			t.Errorf("%s: the browser ends at %s", name, page.URL)
		}
	}
	change = nil
	p.code(w.browser(), nil)
	w.provider.Rotate(false)
	if page := p.visit(w.browser(), nil); page.URL.Query().Get("code") != "" {
		t.Error("a token with a key that nobody knows was accepted")
	}
}

func TestWithoutAnIDTokenNobodySignsInByOpenID(t *testing.T) {
	w := newWorld(t, authtest.Options{}, func(o *authserver.Options) { o.Provider.Scopes = []string{"email"} })
	if page := w.register(back).visit(w.browser(), nil); page.URL.Query().Get("error") == "" {
		t.Errorf("the browser ends at %s", page.URL)
	}
}
