package authserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/authserver"
	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
)

func TestS27_CodesGoToRegisteredRedirectURIsAlone(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	p := w.register("https://app.example.com/callback", "http://127.0.0.1:3000/cb", "http://[::1]/cb", "http://localhost/cb", "com.example.app:/cb")
	for _, uri := range []string{
		"", "https://app.example.com/callback/", "https://app.example.com/callback?x=1", "https://app.example.com/callback#x", "https://app.example.com/Callback",
		"https://APP.example.com/callback", "HTTPS://app.example.com/callback", "https://app.example.com:443/callback", "https://app.example.com:8443/callback",
		"https://user@app.example.com/callback", "https://app.example.com@evil.example.com/callback", "https://app.example.com.evil.example.com/callback",
		"https://app.example.com./callback", "https://app.example.com/x/../callback", "https://app.example.com/./callback", "https://app.example.com//callback",
		"https://app.example.com/callback%00", "https://app.example.com/%63allback", "https://app.example.com\\@evil.example.com/callback", "http://app.example.com/callback",
		"//app.example.com/callback", "/callback", "javascript:alert(1)", "data:text/html,x", "https://app.example.com/callback\r\nX: y", " https://app.example.com/callback",
		"http://127.0.0.1:3000/cb/", "http://127.0.0.2:3000/cb", "http://127.0.0.1:3000@evil.example.com/cb", "http://127.0.0.1:3000.evil.example.com/cb", "http://127.0.0.1:x/cb",
		"http://127.0.0.1:/cb", "http://127.0.0.1:0/cb", "http://127.0.0.1:99999/cb", "https://127.0.0.1:3000/cb", "http://user@127.0.0.1/cb", "http://2130706433/cb", "http://0x7f.1/cb",
		"http://localhost.evil.example.com/cb", "http://LOCALHOST/cb", "http://localhost:1:2/cb", "http://[::1]:1]/cb", "http://[::ffff:127.0.0.1]/cb", "http://[::1%25lo]/cb",
		"com.example.app:/cb/", "com.example.app://cb", "com.example.App:/cb", "com.example.app2:/cb", strings.Repeat("https://app.example.com/", 1000),
	} {
		page := p.visit(w.browser(), url.Values{"redirect_uri": {uri}})
		refused(t, page, nil, fmt.Sprintf("%.80q", uri))
	}
	for _, uri := range []string{
		"https://app.example.com/callback", "http://127.0.0.1/cb", "http://127.0.0.1:3000/cb", "http://127.0.0.1:65535/cb", "http://[::1]:5/cb", "http://localhost:80/cb", "com.example.app:/cb",
	} {
		if page := p.visit(w.browser(), url.Values{"redirect_uri": {uri}}); !strings.HasPrefix(page.URL.String(), uri+"?") {
			t.Errorf("%s: the browser ends at %s", uri, page.URL)
		}
	}
}

func TestRedirectURIsThatCannotBeTrustedAreNotRegistered(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	many := make([]string, 17)
	for i := range many {
		many[i] = fmt.Sprintf("https://app.example.com/%d", i)
	}
	for _, list := range [][]string{
		nil, {""}, {"http://app.example.com/"}, {"http://10.0.0.1/"}, {"javascript:alert(1)"}, {"javascript://app.example.com/%0aalert(1)"}, {"data:text/html,x"}, {"file:///etc/passwd"},
		{"vbscript:x"}, {"blob:https://app.example.com/x"}, {"about:blank"}, {"https://app.example.com/#x"}, {"https://app.example.com/#"}, {"https://u:p@app.example.com/"}, {"https:///x"}, {"https:app.example.com"},
		{"https://app.example.com/\" onload=x"}, {"https://app.example.com/<script>"}, {"myapp:/cb"}, {"com.example.app:cb"}, {"com.example.app:"}, {"com.example.app:/cb#x"}, {"com.example.app:/a b"},
		{"com.example.app://u@x/cb"}, {"urn:ietf:wg:oauth:2.0:oob"}, {"https://app.example.com/" + strings.Repeat("a", 1024)}, {"https://ok.example.com/", "http://evil.example.com/"}, {"HTTPS://app.example.com/"}, many,
		{"https://app.example.com./cb"}, {"https://app.example.com.:8443/cb"}, {"http://localhost./cb"}, {"http://app.localhost.:3000/cb"}, {"com.example.app://host./cb"}, {"cursor.:/cb"}, {"com..example:/cb"},
	} {
		text, _ := json.Marshal(map[string]any{"redirect_uris": list})
		status, doc, _ := w.do(http.MethodPost, "/oauth/register", "application/json", string(text), nil)
		if status != http.StatusBadRequest || doc["error"] != "invalid_redirect_uri" {
			t.Errorf("%.100q: %d %v", list, status, doc)
		}
	}
	w.register(many[:16]...)
	w.register("cursor://anysphere.cursor-mcp/oauth/callback", "vscode://x/cb")
}

func TestRegistrationsThatMakeNoSenseAreRefused(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	for _, text := range []string{
		"", "[]", "null", "{", `{"redirect_uris":"x"}`, `{"redirect_uris":["https://a.example.com/"],"grant_types":["client_credentials"]}`,
		`{"redirect_uris":["https://a.example.com/"],"response_types":["token"]}`, `{"redirect_uris":["https://a.example.com/"],"token_endpoint_auth_method":"tls_client_auth"}`,
		`{"client_name":"` + strings.Repeat("x", 17<<10) + `"}`,
	} {
		status, doc, _ := w.do(http.MethodPost, "/oauth/register", "application/json", text, nil)
		if status != http.StatusBadRequest || doc["error"] == nil {
			t.Errorf("%.60s: %d %v", text, status, doc)
		}
	}
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		if status, _, _ := w.do(method, "/oauth/register", "", "", nil); status != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, status)
		}
	}
}

func TestAuthorizationRequestsThatAreRefusedGoBackToTheClient(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	p := w.register(back)
	for name, row := range map[string]struct {
		other url.Values
		want  string
	}{
		"implicit":               {url.Values{"response_type": {"token"}}, "unsupported_response_type"},
		"hybrid":                 {url.Values{"response_type": {"code id_token"}}, "unsupported_response_type"},
		"no type":                {url.Values{"response_type": {"-"}}, "unsupported_response_type"},
		"no PKCE":                {url.Values{"code_challenge": {"-"}, "code_challenge_method": {"-"}}, "invalid_request"},
		"plain PKCE":             {url.Values{"code_challenge_method": {"plain"}}, "invalid_request"},
		"no method":              {url.Values{"code_challenge_method": {"-"}}, "invalid_request"},
		"short challenge":        {url.Values{"code_challenge": {"abc"}}, "invalid_request"},
		"long challenge":         {url.Values{"code_challenge": {strings.Repeat("a", 44)}}, "invalid_request"},
		"fragment":               {url.Values{"response_mode": {"fragment"}}, "invalid_request"},
		"form_post":              {url.Values{"response_mode": {"form_post"}}, "invalid_request"},
		"request object":         {url.Values{"request": {"x"}}, "invalid_request"},
		"silent":                 {url.Values{"prompt": {"none"}}, "interaction_required"},
		"another resource":       {url.Values{"resource": {"https://other.example.com/mcp"}}, "invalid_target"},
		"resource as ours":       {url.Values{"resource": {us + ".evil.example.com/mcp"}}, "invalid_target"},
		"resource by http":       {url.Values{"resource": {"http://mcp.example.com/mcp"}}, "invalid_target"},
		"resource with a query":  {url.Values{"resource": {us + "/mcp?x=1"}}, "invalid_target"},
		"resource with dots":     {url.Values{"resource": {us + "/servers/a/../b/mcp"}}, "invalid_target"},
		"resource with escapes":  {url.Values{"resource": {us + "/servers/%61/mcp"}}, "invalid_target"},
		"resource of a user":     {url.Values{"resource": {"https://mcp.example.com@evil.example.com/"}}, "invalid_target"},
		"two resources":          {url.Values{"resource": {us + "/mcp", us + "/servers/a/mcp"}}, "invalid_target"},
		"many scopes":            {url.Values{"scope": {strings.Repeat("a ", 40)}}, "invalid_scope"},
		"long state":             {url.Values{"state": {strings.Repeat("s", 1025)}}, "invalid_request"},
		"long state and so on":   {url.Values{"state": {strings.Repeat("s", 1024)}, "resource": {us + "/" + strings.Repeat("a", 900)}}, "invalid_request"},
		"a very long resource":   {url.Values{"resource": {us + "/" + strings.Repeat("a", 1100)}}, "invalid_target"},
		"a resource in no shape": {url.Values{"resource": {"mcp"}}, "invalid_target"},
	} {
		page := p.visit(w.browser(), row.other)
		q := page.URL.Query()
		if !strings.HasPrefix(page.URL.String(), back+"?") || q.Get("error") != row.want || q.Get("iss") != us || q.Get("code") != "" {
			t.Errorf("%s: the browser ends at %.200s, status %d", name, page.URL, page.Status)
		}
	}
	if w.provider.Count("authorize") != 0 {
		t.Error("the provider was asked")
	}
	for name, at := range map[string]string{
		"client_id twice":    p.authorizeURL(nil) + "&client_id=x",
		"redirect_uri twice": p.authorizeURL(nil) + "&redirect_uri=https://evil.example.com/",
		"bad escape":         p.authorizeURL(nil) + "&x=%zz",
		"too long":           p.authorizeURL(url.Values{"x": {strings.Repeat("x", 9000)}}),
		"nobody":             p.authorizeURL(url.Values{"client_id": {"-"}}),
		"an unknown client":  p.authorizeURL(url.Values{"client_id": {"dgmk_" + strings.Repeat("A", 100)}}),
		"a changed client":   p.authorizeURL(url.Values{"client_id": {p.id[:len(p.id)-4] + "AAAA"}}),
		"a huge client":      p.authorizeURL(url.Values{"client_id": {"dgmk_" + strings.Repeat("A", 5000)}}),
		"a ticket as client": p.authorizeURL(url.Values{"client_id": {"dgmk_"}}),
	} {
		page, err := w.browser().Visit(at)
		refused(t, page, err, name)
	}
}

func TestS27_CodesAreBoundToTheirRequest(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	p, other := w.register(back, back+"/2"), w.register(back)
	for name, change := range map[string]url.Values{
		"another client":       {"client_id": {other.id}},
		"another redirect URI": {"redirect_uri": {back + "/2"}},
		"no redirect URI":      {"redirect_uri": {""}},
		"another verifier":     {"code_verifier": {other.verifier}},
		"no verifier":          {"code_verifier": {""}},
		"challenge as plain":   {"code_verifier": {"x"}},
		"another resource":     {"resource": {us + "/servers/a/mcp"}},
	} {
		form := url.Values{
			"grant_type": {"authorization_code"}, "client_id": {p.id}, "code": {p.code(w.browser(), nil)}, "redirect_uri": {back},
			"code_verifier": {p.verifier}, "resource": {us + "/mcp"},
		}
		good := url.Values{}
		for k, v := range form {
			good[k] = v
		}
		for k, v := range change {
			form[k] = v
		}
		if status, doc := w.post("/oauth/token", form); status != http.StatusBadRequest || doc["error"] != "invalid_grant" {
			t.Errorf("%s: %d %v", name, status, doc)
		}
		if status, _ := w.post("/oauth/token", good); status != http.StatusBadRequest {
			t.Errorf("after %s the code is still good: %d", name, status)
		}
	}
	for _, code := range []string{"", "x", "dgmc_", "dgmc_" + strings.Repeat("a", 58), "dgmc_" + strings.Repeat("é", 29), strings.Repeat("a", 30<<10)} {
		if status, doc := p.exchange(code); status != http.StatusBadRequest || doc["error"] != "invalid_grant" {
			t.Errorf("the code %.20q: %d %v", code, status, doc)
		}
	}
}

func TestS27_ACodeThatComesTwiceEndsTheSignIn(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	p := w.register(back)
	code := p.code(w.browser(), nil)
	status, doc := p.exchange(code)
	have := tokensOf(t, status, doc)
	w.happened()
	if status, doc = p.exchange(code); status != http.StatusBadRequest || doc["error"] != "invalid_grant" {
		t.Errorf("the second time: %d %v", status, doc)
	}
	if got := w.happened(); !strings.HasPrefix(got, "replay user:") {
		t.Errorf("what happened: %s", got)
	}
	if got := w.admit("/mcp", have.access); got != http.StatusUnauthorized {
		t.Errorf("the token that it gave: %d", got)
	}
	if status, _ = p.refresh(have.refresh); status != http.StatusBadRequest {
		t.Errorf("its refresh token: %d", status)
	}
}

func TestCodesAreGoodForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, authtest.Options{}, nil)
		p := w.register(back)
		code := p.code(w.browser(), nil)
		time.Sleep(time.Minute)
		if status, _ := p.exchange(code); status != http.StatusBadRequest {
			t.Errorf("after a minute: %d", status)
		}
	})
}

func TestOneTokenIsNoGoodForTheUseOfAnother(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	p := w.register(back)
	code := p.code(w.browser(), nil)
	have := p.signIn(w.browser())
	for name, token := range map[string]string{
		"code": code, "refresh": have.refresh, "renamed refresh": "dgma_" + have.refresh[5:], "client": p.id, "empty": "dgma_",
		"half": have.access[:40], "longer": have.access + "a", "upper case": strings.ToUpper(have.access), "ours of nobody": "dgma_" + strings.Repeat("a", 58),
	} {
		if got := w.admit("/mcp", token); got != http.StatusUnauthorized {
			t.Errorf("%s as an access token: %d", name, got)
		}
	}
	for name, token := range map[string]string{"code": code, "access": have.access, "renamed code": "dgmr_" + code[5:]} {
		if status, _ := p.refresh(token); status != http.StatusBadRequest {
			t.Errorf("%s as a refresh token: %d", name, status)
		}
	}
}

func TestRefreshTokensAreBoundToTheirClient(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	p, other := w.register(back), w.register(back)
	have := p.signIn(w.browser())
	form := url.Values{"grant_type": {"refresh_token"}, "client_id": {p.id}, "refresh_token": {have.refresh}}
	form.Set("resource", us+"/servers/a/mcp")
	if status, doc := w.post("/oauth/token", form); status != http.StatusBadRequest || doc["error"] != "invalid_target" {
		t.Errorf("for another resource: %d %v", status, doc)
	}
	form.Set("resource", us+"/mcp/")
	form.Set("scope", "read")
	if status, doc := w.post("/oauth/token", form); status != http.StatusBadRequest || doc["error"] != "invalid_scope" {
		t.Errorf("for more scopes: %d %v", status, doc)
	}
	if status, doc := other.refresh(have.refresh); status != http.StatusBadRequest || doc["error"] != "invalid_grant" {
		t.Errorf("by another client: %d %v", status, doc)
	}
	if got := w.admit("/mcp", have.access); got != http.StatusUnauthorized {
		t.Errorf("the sign-in continues though another client has its token: %d", got)
	}
}

func TestClientsProveWhoTheyAre(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	p := w.registerAs(map[string]any{"redirect_uris": []string{back}, "token_endpoint_auth_method": "client_secret_basic"})
	public := w.register(back)
	basic := func(id, secret string) http.Header {
		r := http.Request{Header: make(http.Header)}
		r.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
		return r.Header
	}
	for name, row := range map[string]struct {
		form   url.Values
		header http.Header
		want   int
		code   string
	}{
		"secret in the header":    {url.Values{}, basic(p.id, p.secret), 400, "unsupported_grant_type"},
		"secret in the form":      {url.Values{"client_id": {p.id}, "client_secret": {p.secret}}, nil, 400, "unsupported_grant_type"},
		"no secret":               {url.Values{"client_id": {p.id}}, nil, 401, "invalid_client"},
		"wrong secret":            {url.Values{}, basic(p.id, p.secret+"x"), 401, "invalid_client"},
		"both":                    {url.Values{"client_id": {p.id}, "client_secret": {p.secret}}, basic(p.id, p.secret), 400, "invalid_request"},
		"two clients":             {url.Values{"client_id": {public.id}}, basic(p.id, p.secret), 400, "invalid_request"},
		"another scheme":          {url.Values{"client_id": {public.id}}, http.Header{"Authorization": {"Bearer x"}}, 401, "invalid_client"},
		"nobody":                  {url.Values{}, nil, 401, "invalid_client"},
		"unknown":                 {url.Values{"client_id": {"client"}}, nil, 401, "invalid_client"},
		"public with a secret":    {url.Values{"client_id": {public.id}, "client_secret": {"x"}}, nil, 401, "invalid_client"},
		"document with a secret":  {url.Values{"client_id": {"https://app.example.com/c.json"}, "client_secret": {"x"}}, nil, 401, "invalid_client"},
		"document that is no URL": {url.Values{"client_id": {"https://app.example.com"}}, nil, 401, "invalid_client"},
	} {
		row.form.Set("grant_type", "password")
		status, doc, header := w.do(http.MethodPost, "/oauth/token", "application/x-www-form-urlencoded", row.form.Encode(), row.header)
		if status != row.want || doc["error"] != row.code || header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v", name, status, doc)
		}
	}
	for name, body := range map[string]string{"JSON": `{"grant_type":"x"}`, "twice": "client_id=" + public.id + "&code=a&code=b", "long": "x=" + strings.Repeat("x", 33<<10), "bad": "%zz"} {
		kind := "application/x-www-form-urlencoded"
		if name == "JSON" {
			kind = "application/json"
		}
		if status, doc, _ := w.do(http.MethodPost, "/oauth/token", kind, body, nil); status != 400 || doc["error"] != "invalid_request" {
			t.Errorf("%s: %d %v", name, status, doc)
		}
	}
	if have := p.signIn(w.browser()); w.admit("/mcp", have.access) != http.StatusOK {
		t.Error("a client with a secret cannot sign in")
	}
}

func TestPagesCannotBeFramedAndRunNothing(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	const evil = `<script>alert(1)</script>"'><img src=x onerror=y>`
	p := w.registerAs(map[string]any{"client_name": evil + "\u202e\u0007\n" + strings.Repeat("x", 300), "redirect_uris": []string{"http://localhost/" + "cb"}})
	b := w.browser()
	p.code(b, url.Values{"scope": {"read"}, "state": {evil}})
	b.Answer = "-"
	for _, at := range []string{p.authorizeURL(nil), p.authorizeURL(url.Values{"client_id": {evil}}), us + "/oauth/callback?state=" + url.QueryEscape(evil) + "&error=" + url.QueryEscape(evil)} {
		if _, err := b.Visit(at); err != nil {
			t.Fatal(err)
		}
	}
	pages := 0
	for _, page := range b.Seen {
		if page.URL.Host != "mcp.example.com" || page.Body == "" {
			continue
		}
		pages++
		csp := page.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: the policy is %q, want %s in it", page.URL.Path, csp, want)
			}
		}
		if page.Header.Get("X-Frame-Options") != "DENY" || page.Header.Get("X-Content-Type-Options") != "nosniff" || page.Header.Get("Cache-Control") != "no-store" || page.Header.Get("Referrer-Policy") != "same-origin" {
			t.Errorf("%s: the headers are %v", page.URL.Path, page.Header)
		}
		if strings.Contains(page.Body, "<script") || strings.Contains(page.Body, "<img") || strings.ContainsAny(page.Body, "\u202e\u0007") || strings.Contains(page.Body, strings.Repeat("x", 100)) {
			t.Errorf("%s: the page is %s", page.URL.Path, page.Body)
		}
	}
	if pages < 4 {
		t.Errorf("%d pages were seen", pages)
	}
	first := b.Seen[0].Body
	for _, want := range []string{"&lt;script&gt;", "nobody has checked this", "a program on this computer (localhost)", "read", "127.0.0.1"} {
		if !strings.Contains(first, want) {
			t.Errorf("%q is not on the page:\n%s", want, first)
		}
	}
}

func TestCookiesAreOfThisHostAlone(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	b := w.browser()
	p := w.register(back)
	p.code(b, nil)
	n := 0
	for _, page := range b.Seen {
		for _, line := range page.Header.Values("Set-Cookie") {
			n++
			c, err := http.ParseSetCookie(line)
			if err != nil || !strings.HasPrefix(c.Name, "__Host-dragoman-") || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" {
				t.Errorf("a cookie is %s", line)
			}
		}
	}
	if n < 4 {
		t.Errorf("there were %d cookies", n)
	}
	local := newWorld(t, authtest.Options{}, func(o *authserver.Options) { o.URL = "http://localhost:8080" })
	at := local.register("http://localhost/cb").authorizeURL(url.Values{"resource": {"-"}})
	page, err := func() (*authtest.Page, error) {
		b := authtest.NewBrowser(local)
		b.Answer = "-"
		return b.Visit(at)
	}()
	if err != nil {
		t.Fatal(err)
	}
	if c, err := http.ParseSetCookie(page.Header.Get("Set-Cookie")); err != nil || c.Name != "dragoman-browser" || c.Secure || !c.HttpOnly {
		t.Errorf("by http the cookie is %v, %v", c, err)
	}
}

func TestABrowserKeepsFewSignInsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, authtest.Options{}, nil)
		p := w.register(back)
		b := w.browser()
		first := p.capture(b)
		for range 10 {
			time.Sleep(time.Second)
			p.capture(b)
		}
		n, size := 0, 0
		for _, c := range b.Cookies(us) {
			size += len(c.Name) + len(c.Value)
			if strings.Contains(c.Name, "-t-") {
				n++
			}
		}
		if n != 4 || size > 12<<10 {
			t.Errorf("there are %d, and all cookies have %d bytes", n, size)
		}
		page, err := b.Visit(first)
		refused(t, page, err, "the oldest")
	})
}
