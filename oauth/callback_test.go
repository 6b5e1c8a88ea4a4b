package oauth_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
	"github.com/dragoman-mcp/dragoman/oauth"
)

// A window is a sign-in that waits for its browser.
type window struct {
	server   *authtest.Server
	source   *oauth.Source
	page     *url.URL // at the authorization server
	redirect *url.URL // that it comes back to
	done     chan error
}

func openWindow(t *testing.T, c *oauth.Config) *window {
	t.Helper()
	w := &window{server: authtest.New(t, nil), done: make(chan error, 1)}
	told := make(chan oauth.Prompt, 1)
	c.Server, c.Prompt = w.server.URL, func(p oauth.Prompt) bool { told <- p; return true }
	w.source = newSource(t, c)
	go func() { w.done <- w.source.SignIn(t.Context()) }()
	var err error
	select {
	case p := <-told:
		if w.page, err = url.Parse(p.URL); err == nil {
			w.redirect, err = url.Parse(w.page.Query().Get("redirect_uri"))
		}
	case err = <-w.done:
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// back returns where a browser comes back to with parameters, besides the right state.
func (w *window) back(set url.Values) string {
	q := url.Values{"state": {w.page.Query().Get("state")}, "iss": {w.server.Issuer}}
	for name, values := range set {
		if q[name] = values; values == nil {
			delete(q, name)
		}
	}
	u := *w.redirect
	u.RawQuery = q.Encode()
	return u.String()
}

// finish is the user, who signs in.
func (w *window) finish(t *testing.T) {
	t.Helper()
	if status, text := ask(t, http.MethodGet, w.page.String(), ""); status != http.StatusOK || !strings.Contains(text, "You are signed in") {
		t.Errorf("the real one gets status %d: %s", status, text)
	}
	if err := <-w.done; err != nil {
		t.Error(err)
	}
	if w.server.Count("code") != 1 {
		t.Errorf("%d codes are redeemed", w.server.Count("code"))
	}
}

// ask makes a request with a Host header of its own.
func ask(t *testing.T, method, at, host string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, at, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// Whoever does not know the state, or comes by another way, changes nothing.
func TestACallbackOfSomebodyElseChangesNothing(t *testing.T) {
	w := openWindow(t, &oauth.Config{})
	good := w.back(url.Values{"code": {"stolen"}})
	for _, test := range []struct {
		name, method, at, host string
		want                   int
	}{
		{"another state", http.MethodGet, w.back(url.Values{"code": {"x"}, "state": {"x"}}), "", http.StatusBadRequest},
		{"no state", http.MethodGet, w.back(url.Values{"code": {"x"}, "state": nil}), "", http.StatusBadRequest},
		{"an empty state", http.MethodGet, w.back(url.Values{"code": {"x"}, "state": {""}}), "", http.StatusBadRequest},
		{"a part of the state", http.MethodGet, w.back(url.Values{"code": {"x"}, "state": {w.page.Query().Get("state")[:5]}}), "", http.StatusBadRequest},
		{"two states", http.MethodGet, good + "&state=x", "", http.StatusBadRequest},
		{"an error without a state", http.MethodGet, w.back(url.Values{"error": {"access_denied"}, "state": nil}), "", http.StatusBadRequest},
		{"no query", http.MethodGet, w.redirect.String(), "", http.StatusBadRequest},
		{"a huge query", http.MethodGet, w.back(url.Values{"code": {strings.Repeat("x", 128<<10)}}), "", http.StatusRequestHeaderFieldsTooLarge},
		{"another path", http.MethodGet, strings.Replace(good, "/callback", "/favicon.ico", 1), "", http.StatusNotFound},
		{"the path's parent", http.MethodGet, strings.Replace(good, "/callback", "/", 1), "", http.StatusNotFound},
		{"a path below", http.MethodGet, strings.Replace(good, "/callback", "/callback/x", 1), "", http.StatusNotFound},
		{"POST", http.MethodPost, good, "", http.StatusMethodNotAllowed},
		{"HEAD", http.MethodHead, good, "", http.StatusMethodNotAllowed},
		{"OPTIONS", http.MethodOptions, good, "", http.StatusMethodNotAllowed},
		{"a name that was bound to this machine", http.MethodGet, good, "evil.example", http.StatusMisdirectedRequest},
		{"such a name with the port", http.MethodGet, good, "evil.example:" + w.redirect.Port(), http.StatusMisdirectedRequest},
		{"another port", http.MethodGet, good, "127.0.0.1:1", http.StatusMisdirectedRequest},
	} {
		t.Run(test.name, func(t *testing.T) {
			if status, text := ask(t, test.method, test.at, test.host); status != test.want || strings.Contains(text, "You are signed in") {
				t.Errorf("status %d, want %d: %s", status, test.want, text)
			}
		})
	}
	w.finish(t)
}

// An answer with the right state, but not from the authorization server that was asked, or
// without a code, ends the sign-in; no code is redeemed.
func TestAnswersThatEndASignIn(t *testing.T) {
	for _, test := range []struct {
		name string
		set  url.Values
		want string
	}{
		{"another issuer", url.Values{"code": {"x"}, "iss": {"https://evil.example"}}, "from another authorization server"},
		{"an issuer with a slash more", url.Values{"code": {"x"}, "iss": {"ISSUER/"}}, "from another authorization server"},
		{"two issuers", url.Values{"code": {"x"}, "iss": {"ISSUER", "ISSUER"}}, "from another authorization server"},
		{"no issuer, though it is promised", url.Values{"code": {"x"}, "iss": nil}, "does not say which authorization server"},
		{"an error of another issuer", url.Values{"error": {"access_denied"}, "iss": {"https://evil.example"}}, "from another authorization server"},
		{"no code", nil, "sent no code"},
		{"two codes", url.Values{"code": {"x", "y"}}, "more than one code"},
		{"an error", url.Values{"error": {"access_denied"}, "error_description": {"not today"}}, "access_denied: not today"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := openWindow(t, &oauth.Config{})
			for i, iss := range test.set["iss"] {
				test.set["iss"][i] = strings.Replace(iss, "ISSUER", w.server.Issuer, 1)
			}
			if status, text := ask(t, http.MethodGet, w.back(test.set), ""); status != http.StatusBadRequest || !strings.Contains(text, test.want) {
				t.Errorf("status %d: %s", status, text)
			}
			if err := <-w.done; err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
			if w.server.Count("code") != 0 {
				t.Error("a code is redeemed")
			}
		})
	}
}

func TestWhatAnAnswerSaysIsShownAsText(t *testing.T) {
	w := openWindow(t, &oauth.Config{})
	hostile := "<script>x</script>\"'><img src=x>\x1b[31m\r\n\x00\u009b2J\u202e\u2028" + strings.Repeat("long ", 1000)
	status, text := ask(t, http.MethodGet, w.back(url.Values{"error": {hostile}, "error_description": {hostile}}), "")
	if status != http.StatusBadRequest || strings.Contains(text, "<script") || strings.Contains(text, "<img") {
		t.Errorf("status %d: %s", status, text)
	}
	err := <-w.done
	if err == nil || len(err.Error()) > 300 {
		t.Fatalf("the error is %v", err)
	}
	for _, bad := range []string{"\x1b", "\r", "\n", "\x00", "\u009b", "\u202e", "\u2028"} {
		if strings.Contains(err.Error(), bad) {
			t.Errorf("the error has %q: %q", bad, err)
		}
	}
}

// The first answer counts. Whoever comes again, as by a reload, is told of that one.
func TestTheFirstAnswerCounts(t *testing.T) {
	w := openWindow(t, &oauth.Config{})
	var all sync.WaitGroup
	pages := make(chan string, 100)
	resp, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Get(w.page.String())
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	for range cap(pages) {
		all.Go(func() {
			if resp, err := http.Get(resp.Header.Get("Location")); err == nil { // or it is not listened for any more
				text, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				pages <- fmt.Sprint(resp.StatusCode, " ", string(text))
			}
		})
	}
	all.Wait()
	close(pages)
	if err := <-w.done; err != nil {
		t.Fatal(err)
	}
	for text := range pages {
		if !strings.HasPrefix(text, "200") {
			t.Error(text)
		}
	}
	if w.server.Count("code") != 1 {
		t.Errorf("%d codes are redeemed", w.server.Count("code"))
	}
}

func TestACodeAfterAFailureIsNotSaidToSignIn(t *testing.T) {
	w := openWindow(t, &oauth.Config{})
	slow := holdOpen(t, w.redirect.Host) // keeps it listening for a moment after the first
	defer slow.Close()
	if _, text := ask(t, http.MethodGet, w.back(url.Values{"error": {"access_denied"}}), ""); !strings.Contains(text, "access_denied") {
		t.Error(text)
	}
	if resp, err := http.Get(w.back(url.Values{"code": {"x"}})); err == nil { // or it is not listened for any more
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if strings.Contains(string(text), "You are signed in") {
			t.Errorf("after a failure: %s", text)
		}
	}
	if err := <-w.done; err == nil {
		t.Error("it is signed in")
	}
}

// holdOpen begins a request and never ends it.
func holdOpen(t *testing.T, host string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET /callback?state="); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestClientsThatNeverFinishHoldUpNobody(t *testing.T) {
	w := openWindow(t, &oauth.Config{})
	for range 50 {
		defer holdOpen(t, w.redirect.Host).Close()
	}
	w.finish(t)
}

func TestTheBrowserComesBackWhereItIsConfigured(t *testing.T) {
	for _, test := range []struct{ host, path string }{
		{"", "/"}, {"localhost", "/oauth/callback"}, {"", "/a/{$}/{x...}"}, {"", "/with space"}, {"", "/callback/"},
	} {
		t.Run(test.host+test.path, func(t *testing.T) {
			openWindow(t, &oauth.Config{CallbackHost: test.host, CallbackPath: test.path}).finish(t)
		})
	}
}
