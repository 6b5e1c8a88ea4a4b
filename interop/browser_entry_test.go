//go:build browser

package interop_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// A guardedGateway is one that lets in by a token and by sign-in, behind something that has the page of the
// tests, too, whatever name it is called by.
type guardedGateway struct {
	t        *testing.T
	url      string
	token    string
	provider *authtest.Server // at which the user is signed in, and which asks nothing
	calls    atomic.Int64     // of tools, that have reached the server

	mu      sync.Mutex
	allowed []string // requests of pages that were not refused; guarded by mu
}

func startGuarded(t *testing.T) *guardedGateway {
	t.Helper()
	g := &guardedGateway{t: t, token: rand.Text()}
	g.provider = authtest.New(t, &authtest.Options{Identity: true})
	server := builtin.New(nil)
	requests := server.Requests()
	endpoint := &streamable.Server{Requests: dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() == protocol.MethodCallTool {
			g.calls.Add(1)
		}
		return requests.Call(ctx, req, from)
	}}}
	upstream := httptest.NewServer(endpoint)
	web := httptest.NewUnstartedServer(nil)
	g.url = "http://" + web.Listener.Addr().String()
	said, _ := serveUntil(t, gatewayCommand(t, gatewayFile(t, "dragoman.json", object{
		"auth": object{
			"url": g.url, "tokens": []string{g.token}, "provider": g.provider.Issuer,
			"client": object{"id": "client", "secret": "secret"},
		},
		"servers": object{"a": object{"url": upstream.URL, "tools": object{"prefix": ""}}},
	}), "--listen", "127.0.0.1:0"), gatewayURL)
	to, err := url.Parse(said)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
		},
		ModifyResponse: g.record, FlushInterval: -1, Transport: &http.Transport{DisableKeepAlives: true},
		ErrorLog: log.New(io.Discard, "", 0), // pages leave
	}
	web.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/page" {
			servePage(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	})
	web.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		web.Close()
		_ = server.Close()
		_ = endpoint.Shutdown(ctx) // it ends with the test
		upstream.Close()
	})
	return g
}

// record records what is not refused.
func (g *guardedGateway) record(resp *http.Response) error {
	if resp.StatusCode < 400 {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.allowed = append(g.allowed, resp.Request.Method+" "+resp.Request.URL.Path)
	}
	return nil
}

// admitted returns what was not refused since it was asked before, each once.
func (g *guardedGateway) admitted() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.Sort(g.allowed)
	list := strings.Join(slices.Compact(g.allowed), ", ")
	g.allowed = nil
	return list
}

// An application is a client that wants a user to sign in.
type application struct {
	page  string // where the user is to go
	codes chan string
}

// newApplication registers an application.
func (g *guardedGateway) newApplication(name string) *application {
	t := g.t
	t.Helper()
	a := &application{codes: make(chan string, 100)}
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code := r.URL.Query().Get("code"); code != "" {
			a.codes <- code
		}
		_, _ = w.Write([]byte(`<p id="done">You can close this page.</p>`))
	}))
	t.Cleanup(listener.Close)
	redirect := listener.URL + "/callback"
	body, err := json.Marshal(object{"client_name": name, "redirect_uris": []string{redirect}, "token_endpoint_auth_method": "none"})
	if err != nil {
		t.Fatal(err)
	}
	var made struct {
		ID string `json:"client_id"`
	}
	fetch(t, http.MethodPost, g.url+"/oauth/register", "application/json", bytes.NewReader(body), &made)
	sum := sha256.Sum256([]byte(rand.Text()))
	a.page = g.url + "/oauth/authorize?" + url.Values{
		"response_type": {"code"}, "client_id": {made.ID}, "redirect_uri": {redirect}, "resource": {g.url + "/mcp"}, "state": {"s"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}.Encode()
	return a
}

// newTab opens a tab, which is closed at the end of the test.
func newTab(t *testing.T, browser context.Context) context.Context {
	t.Helper()
	tab, leave := chromedp.NewContext(browser)
	t.Cleanup(leave)
	if err := chromedp.Do(tab); err != nil {
		t.Fatal(err)
	}
	return tab
}

// mustDo has something done in a tab, in time.
func mustDo(t *testing.T, tab context.Context, what string, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(tab, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatalf("%s: %v; the browser shows %s", what, err, shown(tab))
	}
}

// TestBrowserPages_S11_S27_GetNothingThroughAuthentication has foreign pages try everything at a gateway that lets in those
// alone who have proven something, in the browser of a user who is about to sign in there, and whose token the pages
// have got hold of.
func TestBrowserPages_S11_S27_GetNothingThroughAuthentication(t *testing.T) {
	browser := startBrowser(t)
	pages := httptest.NewServer(http.HandlerFunc(servePage))
	defer pages.Close()
	g := startGuarded(t)
	good, evil := g.newApplication("good"), g.newApplication("evil")

	// The user has signed in to an application before, and another sign-in is in progress.
	user := newTab(t, browser)
	mustDo(t, user, "a sign-in", chromedp.Navigate(good.page), chromedp.Click("#agree"), chromedp.WaitReady("#done"))
	<-good.codes
	mustDo(t, user, "another sign-in", chromedp.Navigate(good.page), chromedp.WaitReady("#agree"))

	// What the evil application's own browser is asked.
	b := authtest.NewBrowser(&http.Transport{DisableKeepAlives: true})
	b.Answer = "-"
	asked, err := b.Visit(evil.page)
	if err != nil {
		t.Fatal(err)
	}
	_, ticket, _ := strings.Cut(asked.Body, `name="ticket" value="`)
	ticket, _, found := strings.Cut(ticket, `"`)
	if !found {
		t.Fatalf("the page has no ticket: %s", asked.Body)
	}
	g.admitted()
	began := g.provider.Count("authorize")

	// A page of this machine may be let in, if it has a token.
	neighbour := entryGets(barred("Error: status 401"), "TypeError: Failed to fetch", `["opaque",0]`, `"SecurityError"`)
	neighbour["token"], neighbour["tokens"] = "[401,false]", "[401,false]"
	for _, test := range []struct {
		name, page, token string
		rename            func(string) string
		want              map[string]string
		admits            string // requests that are not refused
	}{
		{
			name: "from a foreign origin", page: named("foreign.example", pages.URL), token: g.token, admits: "GET /oauth/authorize",
			want: entryGets(barred("TypeError: Failed to fetch"), "TypeError: Failed to fetch", `["opaque",0]`, `"SecurityError"`),
		},
		{
			name: "under a name of the page", token: g.token, rename: func(url string) string { return named("rebound.example", url) },
			want: entryGets(barred("Error: status 403"), "[403,false]", `["basic",403]`, `"refused with -32600"`),
		},
		{
			name: "from another port of this machine", page: pages.URL, token: "none",
			want: neighbour, admits: "GET /oauth/authorize, OPTIONS /call/echo, OPTIONS /call/slow, OPTIONS /mcp",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			at := g.url
			if test.rename != nil {
				at = test.rename(at)
			}
			origin := test.page
			if origin == "" {
				origin = at
			}
			here := newTab(t, browser)
			got := openIn(t, here, origin+"/page?"+url.Values{
				"at": {at}, "token": {test.token}, "authorize": {strings.Replace(evil.page, g.url, at, 1)}, "ticket": {ticket},
			}.Encode())
			for _, way := range slices.Sorted(maps.Keys(got)) {
				if want := test.want[way]; got[way] != want {
					t.Errorf("%s: the page shows %s, want %s", way, got[way], want)
				}
			}
			if len(got) != len(test.want) {
				t.Errorf("the page shows %d ways, want %d", len(got), len(test.want))
			}
			if test.rename == nil { // under the other name there is no such page
				wantNoFrame(t, here)
			}
			if admits := g.admitted(); admits != test.admits {
				t.Errorf("these are not refused: %s; want %s", admits, test.admits)
			}
			if n := g.calls.Load(); n != 0 {
				t.Errorf("%d calls have reached the server", n)
			}
			if n := g.provider.Count("authorize"); n != began {
				t.Errorf("the provider was asked %d times", n-began)
			}
			if len(evil.codes) > 0 {
				t.Error("the application has got a code")
			}
			// Nothing is remembered: the user is still asked.
			mustDo(t, newTab(t, browser), "the user is asked", chromedp.Navigate(evil.page), chromedp.WaitReady("#agree"))
			g.admitted()
		})
	}
	mustDo(t, user, "the sign-in that was in progress", chromedp.Click("#agree"), chromedp.WaitReady("#done"))
	<-good.codes
}

// wantNoFrame fails the test if the page that asks a user is shown in a frame of a tab.
func wantNoFrame(t *testing.T, tab context.Context) {
	t.Helper()
	const asks = "/oauth/authorize?"
	got, err := chromedp.Call(tab, page.GetFrameTree, cdp.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range got.FrameTree.ChildFrames {
		if f := f.Frame; strings.Contains(f.URL, asks) && f.UnreachableURL == "" {
			t.Errorf("a frame shows %s", f.URL)
		}
	}
	targets, err := chromedp.Targets(tab) // where a frame of another site is
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range targets {
		if f.Type != "iframe" || !strings.Contains(f.URL, asks) {
			continue
		}
		inside, leave := chromedp.NewContext(tab, chromedp.WithTargetID(f.TargetID))
		asked, err := chromedp.Run(inside, chromedp.Evaluate[bool](`document.querySelector("#agree") !== null`))
		leave()
		if err != nil || asked {
			t.Errorf("a frame shows %s, %v", f.URL, err)
		}
	}
}

// entryGets is what a page shows of its attempts at a gateway with authentication: what it gets to read of answers
// that it may read if it is let, of those that it may not, and of windows, whatever it does.
func entryGets(endpoints map[string]string, fetched, opaque, shown string) map[string]string {
	all := maps.Clone(endpoints)
	for _, way := range []string{"credentials", "delete", "token", "token in a URL", "consent fetched", "consent answered", "tokens"} {
		all[way] = fetched
	}
	for _, way := range []string{"opaque get", "opaque post", "consent opaque", "consent answered, opaque"} {
		all[way] = opaque
	}
	for _, way := range []string{
		"form", "form of lines", "frame", "window", "consent framed", "consent in a window", "consent by URL", "consent answered by a form", "sign-in ended",
	} {
		all[way] = shown
	}
	all["consent answered from nowhere"] = `"SecurityError"`
	all["beacon"] = "true" // it was sent, which is all that is told
	all["script"], all["token of a socket"], all["token of events"] = `"error"`, "1006", "undefined"
	return all
}
