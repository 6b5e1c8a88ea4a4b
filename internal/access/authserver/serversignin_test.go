package authserver_test

import (
	"errors"
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

const signInState = "AAAABBBBCCCCDDDDEEEEFFFFGG"

// newServerSignIn returns one of the user of a world, and what it was given.
func (w *world) newServerSignIn(state string) (*authserver.ServerSignIn, *[]url.Values) {
	given := new([]url.Values)
	return &authserver.ServerSignIn{
		Server: "s", Principal: "user:user@" + w.provider.Issuer, URL: "https://as.example.com/authorize?state=" + state, State: state,
		Expires: time.Now().Add(5 * time.Minute), Take: func(v url.Values) error {
			*given = append(*given, v)
			return nil
		},
	}, given
}

func withServerSignIns(o *authserver.Options) { o.ServerSignIns = new(authserver.ServerSignIns) }

// leave has a browser go to the page of a sign-in, and on from there until it leaves.
func (w *world) leave(b *authtest.Browser, v *authserver.ServerSignIn) *authtest.Page {
	w.t.Helper()
	page, err := b.Visit(w.server.Page(v))
	if err != nil {
		w.t.Fatal(err)
	}
	return page
}

func TestAServerSignInIsCompletedInTheBrowserOfItsUser(t *testing.T) {
	w := newWorld(t, authtest.Options{}, withServerSignIns)
	v, given := w.newServerSignIn(signInState)
	end, err := w.opts.ServerSignIns.Begin(v)
	if err != nil {
		t.Fatal(err)
	}
	b := w.browser()
	if page := w.leave(b, v); page.Status != 0 || page.URL.String() != v.URL {
		t.Fatalf("the browser is at %s: %d %s\n%s", page.URL, page.Status, page.Body, w.log.String())
	}
	back := w.server.Callback("s") + "?code=c&state=" + signInState
	if page, err := b.Visit(back); err != nil || page.Status != http.StatusOK || !strings.Contains(page.Body, "You are signed in") {
		t.Fatalf("%v %+v", err, page)
	}
	if len(*given) != 1 || (*given)[0].Get("code") != "c" {
		t.Errorf("the sign-in was given %v", *given)
	}
	if got := w.happened(); got != "connect "+v.Principal {
		t.Errorf("what happened: %s", got)
	}
	// Its state is good once, even as long as it is waited for.
	if page, err := b.Visit(back); err != nil || page.Status != http.StatusForbidden || len(*given) != 1 {
		t.Errorf("the second time: %v %+v", err, page)
	}
	end()
	if page, err := b.Visit(back); err != nil || page.Status != http.StatusNotFound {
		t.Errorf("when it is over: %v %+v", err, page)
	}
	for _, c := range b.Cookies(us) {
		if !strings.HasPrefix(c.Name, "__Host-dragoman-browser") {
			t.Errorf("the browser has kept the cookie %s", c.Name)
		}
	}
}

// Nobody asks about the user later, so the provider is asked for nothing that would do for that.
func TestTheProviderIsAskedForNoRefreshTokenForAServerSignIn(t *testing.T) {
	w := newWorld(t, authtest.Options{}, func(o *authserver.Options) {
		withServerSignIns(o)
		o.Provider.Scopes = []string{"openid", "offline_access"}
		o.Provider.Parameters = map[string]string{"access_type": "offline", "hd": "example.com"}
	})
	v, _ := w.newServerSignIn(signInState)
	if _, err := w.opts.ServerSignIns.Begin(v); err != nil {
		t.Fatal(err)
	}
	b := w.browser()
	b.Stop = func(u *url.URL) bool { return u.Host == "127.0.0.1" }
	q := w.leave(b, v).URL.Query()
	if q.Get("scope") != "openid" || q.Has("access_type") || q.Get("hd") != "example.com" {
		t.Errorf("the provider is asked %v", q)
	}
}

func TestAServerSignInThatTookTooLongIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, authtest.Options{}, withServerSignIns)
		v, given := w.newServerSignIn(signInState)
		if _, err := w.opts.ServerSignIns.Begin(v); err != nil {
			t.Fatal(err)
		}
		b := w.browser()
		if page := w.leave(b, v); page.Status != 0 {
			t.Fatalf("the browser is at %s: %d", page.URL, page.Status)
		}
		time.Sleep(5 * time.Minute)
		for _, at := range []string{w.server.Page(v), w.server.Callback("s") + "?code=c&state=" + signInState} {
			if page, err := b.Visit(at); err != nil || page.Status != http.StatusNotFound || !strings.Contains(page.Body, "Nobody waits") {
				t.Errorf("%s: %v %+v", at, err, page)
			}
		}
		if len(*given) != 0 {
			t.Errorf("it was given %v", *given)
		}
	})
}

func TestServerSignInsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var list authserver.ServerSignIns
		begin := func(n int) (func(), error) {
			return list.Begin(&authserver.ServerSignIn{State: fmt.Sprint("state-", n), Expires: time.Now().Add(time.Minute), Take: func(url.Values) error { return errors.ErrUnsupported }})
		}
		first, err := begin(0)
		for n := 1; n < authserver.MaxServerSignIns && err == nil; n++ {
			_, err = begin(n)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := begin(authserver.MaxServerSignIns); err == nil {
			t.Error("there is one too many")
		}
		first()
		if _, err := begin(authserver.MaxServerSignIns); err != nil {
			t.Errorf("after one has ended: %v", err)
		}
		if _, err := begin(0); err == nil {
			t.Error("there is one too many again")
		}
		time.Sleep(time.Minute)
		if _, err := begin(0); err != nil {
			t.Errorf("after all have expired: %v", err)
		}
	})
}

func TestOnlyUsersOfTheProviderAreKnownInABrowser(t *testing.T) {
	w := newWorld(t, authtest.Options{}, withServerSignIns)
	for principal, want := range map[string]bool{
		"user:alice@" + w.provider.Issuer: true, "user:alice@example.com@" + w.provider.Issuer: true, "user:alice@https://other.example.com": false,
		"token:alice@" + w.provider.Issuer: false, "cert:alice": false, "user:alice": false, "": false,
	} {
		if got := w.server.Knows(principal); got != want {
			t.Errorf("%q: %v", principal, got)
		}
	}
}
