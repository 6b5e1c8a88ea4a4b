//go:build browser

package interop_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/oauth"
)

// login fills in the form of an authServer whose interaction is "form".
func login(account string) chromedp.Action[chromedp.Void] {
	return chromedp.Steps(
		chromedp.SendKeys("#login", account), chromedp.SendKeys("#password", "secret"), chromedp.Click("#sign-in"))
}

// browserSignIn opens an authorization URL in a tab of its own, signs in as an account, or as
// who is signed in already if that is empty, and consents. It returns the address of
// the page where that ends, which is of the redirect URI, and the page's text.
func browserSignIn(t *testing.T, browser context.Context, authorization, account string) (callback *url.URL, text string) {
	t.Helper()
	at, err := url.Parse(authorization)
	if err != nil {
		t.Fatal(err)
	}
	tab, leave := chromedp.NewContext(browser)
	defer leave()
	tab, cancel := context.WithTimeout(tab, patience)
	defer cancel()
	steps := []chromedp.Action[chromedp.Void]{chromedp.Navigate(authorization)}
	if account != "" {
		steps = append(steps, login(account))
	}
	err = chromedp.Do(tab, append(steps, chromedp.WaitReady("#allow"))...)
	if err == nil {
		_, err = chromedp.RunResponse(tab, chromedp.Click("#allow")) // it waits for the page behind
	}
	if err != nil {
		t.Fatalf("the sign-in fails: %v; the browser shows %s", err, shown(tab))
	}
	text, err = chromedp.Run(tab, chromedp.Evaluate[string]("document.body.innerText"))
	if err != nil {
		t.Fatal(err)
	}
	location, err := chromedp.Run(tab, chromedp.Location())
	if err != nil {
		t.Fatal(err)
	}
	if callback, err = url.Parse(location); err != nil || !strings.HasPrefix(location, at.Query().Get("redirect_uri")) {
		t.Fatalf("the sign-in leads to %s, %v", location, err)
	}
	return callback, text
}

// browserApproves opens the page of a device code in a tab of its own, signs in and
// consents.
func browserApproves(t *testing.T, browser context.Context, page, account string) {
	t.Helper()
	tab, leave := chromedp.NewContext(browser)
	defer leave()
	tab, cancel := context.WithTimeout(tab, patience)
	defer cancel()
	if err := chromedp.Do(tab, chromedp.Navigate(page), chromedp.Click("#confirm"), login(account), chromedp.Click("#allow"), chromedp.WaitReady("#done")); err != nil {
		t.Fatalf("the device is not signed in: %v; the browser shows %s", err, shown(tab))
	}
}

// shown is what a tab shows, for errors. The time of the tab may be over.
func shown(tab context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tab), patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("location.href + '\\n' + document.documentElement.outerHTML"))
	if err != nil {
		return err.Error()
	}
	return text
}

func TestBrowserSignsInAtAnAuthorizationServer(t *testing.T) {
	browser := startBrowser(t)
	auth := startAuthServer(t, object{"interaction": "form"})
	server := startProtected(t, auth, nil)
	client := register(t, auth, server.url)
	called := make(chan *url.URL, 10)
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/callback" { // and not for an icon
			called <- r.URL
			_, _ = w.Write([]byte("You can close this page."))
		}
	}))
	defer listener.Close()
	client.redirect = listener.URL + "/callback"

	callback, text := browserSignIn(t, browser, client.authorizationURL("mcp:read offline_access"), "bob")
	if text != "You can close this page." {
		t.Errorf("the browser shows %q", text)
	}
	if got := <-called; got.RawQuery != callback.RawQuery {
		t.Errorf("the listener is called with %s, the browser is at %s", got, callback)
	}
	got := client.redeem(client.checkCallback(callback))
	if scopes := strings.Fields(got.Scope); !slices.Contains(scopes, "mcp:read") || slices.Contains(scopes, "mcp:write") {
		t.Errorf("the token is for %q", got.Scope)
	}
	// The browser stays signed in, so that only the consent is asked for.
	callback, _ = browserSignIn(t, browser, client.authorizationURL("mcp:write"), "")
	if got := client.redeem(client.checkCallback(callback)); !slices.Contains(strings.Fields(got.Scope), "mcp:write") {
		t.Errorf("the token is for %q", got.Scope)
	}
	if counts := auth.tally().Counts; counts["authorizations"] != 2 {
		t.Errorf("the server counts %v", counts)
	}
}

func TestBrowserApprovesADevice(t *testing.T) {
	browser := startBrowser(t)
	auth := startAuthServer(t, object{"interaction": "form"})
	server := startProtected(t, auth, nil)
	client := register(t, auth, server.url)
	code, page := client.device("mcp:read")
	client.wantError("authorization_pending", code)
	browserApproves(t, browser, page, "bob")
	if got := client.want(code); got.Scope != "mcp:read" {
		t.Errorf("the token is for %q", got.Scope)
	}
}

// startLogin starts `dragoman login`. It returns the page that the command names and what
// waits for its end.
func startLogin(t *testing.T, server string, env []string) (page string, wait func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close() // it is free now
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	t.Cleanup(cancel)
	// With a port it is a page, also at a server that has codes.
	cmd := exec.CommandContext(ctx, dragomanProgram.in(t), "login", "--no-browser", "--callback-port", port, server)
	cmd.Env = append(os.Environ(), env...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = cmd.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	wait = func() error {
		_, _ = io.Copy(&said, stderr) // the end of the process tells
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("dragoman login: %w: %s", err, &said)
		}
		return nil
	}
	pattern := regexp.MustCompile(`http://[^\s"]+/auth\?[^\s"]+`)
	buffer := make([]byte, 4096)
	for page == "" {
		n, err := stderr.Read(buffer)
		said.Write(buffer[:n])
		if before, _, whole := strings.Cut(said.String(), "\n"); whole {
			page = pattern.FindString(before)
		}
		if err != nil {
			t.Fatal(wait())
		}
	}
	return page, wait
}

// TestBrowserSignsInToDragoman has a person sign in whom `dragoman login` has told where,
// and then a host use the server.
func TestBrowserSignsInToDragoman(t *testing.T) {
	browser := startBrowser(t)
	auth := startAuthServer(t, object{"interaction": "form"})
	server := startProtected(t, auth, nil)
	env := []string{oauth.DirVariable + "=" + filepath.Join(t.TempDir(), "sign-ins")}
	page, wait := startLogin(t, server.url, env)
	_, text := browserSignIn(t, browser, page, "bob")
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "close") {
		t.Errorf("the browser shows %q, which does not say what to do next", text)
	}
	c, err := client.Connect(t.Context(), &client.Server{Command: []string{dragomanProgram.in(t), "connect", "--no-browser", server.url}, Env: env}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	result, err := c.CallTool(t.Context(), "whoami", nil, nil)
	if err != nil || !strings.Contains(result.Text(), `"bob"`) {
		t.Errorf("whoami: %+v, %v", result, err)
	}
	if counts := auth.tally().Counts; counts["authorizations"] != 1 {
		t.Errorf("the server counts %v", counts)
	}
}
