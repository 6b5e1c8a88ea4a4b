//go:build browser

package interop_test

import (
	"context"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// frontSignIn opens the page that a client has named in a tab of its own, allows the client, signs in as an account at
// the provider, and returns what is shown in the end.
func frontSignIn(t *testing.T, browser context.Context, page, account string) (text string) {
	t.Helper()
	tab, leave := chromedp.NewContext(browser)
	defer leave()
	tab, cancel := context.WithTimeout(tab, patience)
	defer cancel()
	steps := []chromedp.Action[chromedp.Void]{
		chromedp.Navigate(page), chromedp.Click("#agree"),
	}
	if account != "" {
		steps = append(steps, login(account), chromedp.Click("#allow"))
	}
	if err := chromedp.Do(tab, append(steps, chromedp.WaitReady("#done"))...); err != nil {
		t.Fatalf("the sign-in fails: %v; the browser shows %s", err, shown(tab))
	}
	text, err := chromedp.Run(tab, chromedp.Evaluate[string]("document.body.innerText"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestBrowserSignsInThroughUsAtAProviderThatRegistersNobody(t *testing.T) {
	browser := startBrowser(t)
	gateway, auth := startFront(t, object{"interaction": "form"})
	for i, version := range []string{"1", "2"} {
		client, page := signsIn(t, typeScript(t, version, gateway+"/servers/a/mcp"))
		account := ""
		if i == 0 {
			account = "bob" // who stays signed in at the provider
		}
		if text := frontSignIn(t, browser, page, account); !strings.Contains(text, "close") {
			t.Errorf("SDK %s: the browser shows %q", version, text)
		}
		client.wantEcho()
	}
	if got := auth.tally(); got.Counts["registrations"] != 0 || got.Counts["authorization_code"] != 2 {
		t.Errorf("the provider counts %v and %v", got.Counts, got.Failures)
	}
}

func TestBrowserShowsThePageThatAsksAndRunsNoScriptOnIt(t *testing.T) {
	browser := startBrowser(t)
	gateway, _ := startFront(t, object{})
	client, page := signsIn(t, typeScript(t, "1", gateway+"/servers/a/mcp"))
	tab, leave := chromedp.NewContext(browser)
	defer leave()
	tab, cancel := context.WithTimeout(tab, patience)
	defer cancel()
	if err := chromedp.Do(tab, chromedp.Navigate(page), chromedp.WaitReady("form")); err != nil {
		t.Fatal(err)
	}
	style, err := chromedp.Run(tab, chromedp.Evaluate[string]("getComputedStyle(document.querySelector('button[value=allow]')).backgroundColor"))
	if err != nil || style != "rgb(26, 95, 180)" {
		t.Errorf("the style does not apply: %q, %v", style, err)
	}
	ran, err := chromedp.Run(tab, chromedp.Evaluate[bool](`(() => { const s = document.createElement("script"); s.textContent = "window.ran = true"; document.body.append(s); return window.ran === true; })()`))
	if err != nil || ran {
		t.Errorf("a script runs on the page: %v", err)
	}
	if text := frontSignIn(t, browser, page, ""); !strings.Contains(text, "close") {
		t.Errorf("the browser shows %q", text)
	}
	client.wantEcho()
}
