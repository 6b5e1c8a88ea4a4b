package oauth_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A place is a server, and a client of it, in a network in memory: the clock is that of the
// test's bubble. The sign-in is by a device code, which needs no network of the machine.
type place struct {
	t      *testing.T
	server *authtest.Server
	source *oauth.Source
	client *http.Client
}

func newPlace(t *testing.T, opts *authtest.Options, c *oauth.Config) *place {
	t.Helper()
	net := memnet.Listen()
	opts.Listener = net
	p := &place{t: t, server: authtest.New(t, opts)}
	c.Server, c.Grant, c.Wait = p.server.URL, oauth.DeviceCode, true
	if c.Prompt == nil {
		c.Prompt = func(prompt oauth.Prompt) bool { p.server.Approve(prompt.Code); return true }
	}
	p.source = newSource(t, c)
	p.source.UseNetwork(&oauth.Network{Dial: net.DialContext})
	base := &http.Transport{DialContext: net.DialContext}
	t.Cleanup(base.CloseIdleConnections)
	p.client = &http.Client{Transport: p.source.Transport(base)}
	return p
}

// get asks the resource.
func (p *place) get() error {
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.server.URL, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

func (p *place) mustGet() {
	p.t.Helper()
	if err := p.get(); err != nil {
		p.t.Fatal(err)
	}
}

func TestATokenIsRefreshedOnceBeforeItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, &authtest.Options{}, &oauth.Config{})
		p.mustGet()
		refused := p.server.Count("refused")
		time.Sleep(59*time.Minute - 2*time.Second)
		p.mustGet()
		if p.server.Count("refresh") != 0 {
			t.Error("it is refreshed too early")
		}
		time.Sleep(30 * time.Second)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if err := p.get(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if p.server.Count("refresh") != 1 || p.server.Count("refused") != refused {
			t.Errorf("%d refreshes, %d refusals", p.server.Count("refresh"), p.server.Count("refused")-refused)
		}
	})
}

// answers is a token endpoint that answers some requests by a status.
func answers(status *int, asked *int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		*asked++
		if *status != 0 {
			w.WriteHeader(*status)
		}
		return *status != 0
	}
}

// An authorization server that is in trouble, or has too much to do, is asked once by each
// request, and the sign-in is not lost.
func TestARefreshThatFailsForAWhileIsTriedByTheNextRequest(t *testing.T) {
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusTooManyRequests, http.StatusRequestTimeout} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fails, asked := 0, 0
				p := newPlace(t, &authtest.Options{Token: answers(&fails, &asked)}, &oauth.Config{})
				p.mustGet()
				time.Sleep(2 * time.Hour)
				fails = status
				for i := range 3 {
					asked = 0
					if err := p.get(); err == nil || !strings.Contains(err.Error(), http.StatusText(status)) || !protocol.NotSent(err) {
						t.Errorf("request %d: %v", i, err)
					}
					if asked != 1 {
						t.Errorf("request %d asks %d times", i, asked)
					}
				}
				fails = 0
				p.mustGet()
				if p.server.Count("device") != 1 {
					t.Errorf("%d sign-ins", p.server.Count("device"))
				}
			})
		})
	}
}

func TestARefreshThatFailsLeavesAGoodTokenInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, &authtest.Options{}, &oauth.Config{})
		p.mustGet()
		refused := p.server.Count("refused")
		time.Sleep(59*time.Minute + 10*time.Second)
		p.server.Break(true)
		for range 20 { // in the time in which it is refreshed early
			p.mustGet()
			time.Sleep(time.Second)
		}
		p.server.Break(false)
		time.Sleep(10 * time.Second)
		p.mustGet()
		if p.server.Count("refresh") != 1 || p.server.Count("refused") != refused || p.server.Count("device") != 1 {
			t.Errorf("%d refreshes, %d refusals, %d sign-ins", p.server.Count("refresh"), p.server.Count("refused")-refused, p.server.Count("device"))
		}
	})
}

// While a token is good, an authorization server that answers nobody holds up one request,
// not one after the other.
func TestAnEarlyRefreshThatHangsHoldsUpRequestsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool // a request that was given up may still look at it
		p := newPlace(t, &authtest.Options{Lifetime: 10 * time.Hour, Token: func(_ http.ResponseWriter, r *http.Request) bool {
			if !hangs.Load() {
				return false
			}
			<-r.Context().Done()
			return true
		}}, &oauth.Config{})
		p.mustGet()
		time.Sleep(10*time.Hour - 55*time.Second)
		hangs.Store(true)
		start := time.Now()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if err := p.get(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		p.mustGet()
		if took := time.Since(start); took > 35*time.Second {
			t.Errorf("it took %v", took)
		}
		time.Sleep(time.Until(start.Add(40 * time.Second))) // it is tried again, with time left
		hangs.Store(false)
		p.mustGet()
		if p.server.Count("refresh") != 1 {
			t.Errorf("%d refreshes", p.server.Count("refresh"))
		}
	})
}

// polls returns the times between the questions of a device whose code is never entered,
// until limit; answers are what they are answered, one after the other.
func polls(t *testing.T, limit int, device map[string]any, answers ...string) (waits []time.Duration, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last time.Time
	opts := &authtest.Options{
		Change: func(what string, doc map[string]any) {
			if what == "device" {
				last = time.Now()
				for name, value := range device {
					if doc[name] = value; value == nil {
						delete(doc, name)
					}
				}
			}
		},
		Token: func(w http.ResponseWriter, r *http.Request) bool {
			waits, last = append(waits, time.Since(last)), time.Now()
			if len(waits) == limit {
				cancel()
			}
			answer := "authorization_pending"
			if len(waits) <= len(answers) {
				answer = answers[len(waits)-1]
			}
			switch answer {
			case "503":
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			case "reset":
				panic(http.ErrAbortHandler)
			case "silence":
				<-r.Context().Done()
				return true
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":"` + answer + `"}`))
			return true
		},
	}
	p := newPlace(t, opts, &oauth.Config{Prompt: func(oauth.Prompt) bool { return true }})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.client.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	return waits, err
}

func TestADeviceAsksAsOftenAsItIsTold(t *testing.T) {
	const s = time.Second
	for _, test := range []struct {
		name    string
		device  map[string]any
		answers []string
		want    []time.Duration
	}{
		{"as told", nil, nil, []time.Duration{s, s, s}},
		{"slower", nil, []string{"slow_down", "authorization_pending", "slow_down"}, []time.Duration{s, 6 * s, 6 * s, 11 * s}},
		{"not told", map[string]any{"interval": nil}, nil, []time.Duration{5 * s, 5 * s}},
		{"far too often", map[string]any{"interval": 0.001}, nil, []time.Duration{s, s}},
		{"never", map[string]any{"interval": -1}, nil, []time.Duration{5 * s, 5 * s}},
		{"it is in trouble", nil, []string{"503", "authorization_pending"}, []time.Duration{s, 6 * s, 6 * s}},
		{"the connection is reset", nil, []string{"reset", "reset", "reset", "slow_down"}, []time.Duration{s, 2 * s, 4 * s, 8 * s, 6 * s}},
		{"nobody answers for 30 seconds", nil, []string{"silence", "silence"}, []time.Duration{s, 32 * s, 34 * s, s}},
		{"an outage that lasts", map[string]any{"interval": 40}, []string{"reset", "reset"}, []time.Duration{40 * s, 60 * s, 60 * s, 40 * s}},
		{"it does not say until when", map[string]any{"expires_in": nil}, nil, []time.Duration{s, s, s}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, err := polls(t, len(test.want), test.device, test.answers...)
				if len(got) != len(test.want) {
					t.Fatalf("it asks %v, want %v (%v)", got, test.want, err)
				}
				for i := range got {
					if got[i] != test.want[i] {
						t.Errorf("it asks %v, want %v", got, test.want)
						break
					}
				}
			})
		})
	}
}

func TestADeviceCodeEnds(t *testing.T) {
	for _, test := range []struct {
		name    string
		device  map[string]any
		answers []string
		want    string
		after   time.Duration
	}{
		{"nobody enters it", map[string]any{"expires_in": 20}, nil, "nobody entered the code in time", 20 * time.Second},
		{"the wait is longer than its life", map[string]any{"expires_in": 20, "interval": 1e9}, nil, "nobody entered the code in time", 20 * time.Second},
		{"it lives forever", map[string]any{"expires_in": 1e12, "interval": 50}, nil, "nobody signed in in time", oauth.DefaultTimeout},
		{"nobody answers any more", map[string]any{"expires_in": 50}, slices.Repeat([]string{"reset"}, 10), "nobody entered the code in time", 50 * time.Second},
		{"the server ends it", nil, []string{"expired_token"}, "expired_token", time.Second},
		{"the user refuses", nil, []string{"authorization_pending", "access_denied"}, "access_denied", 2 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, err := polls(t, -1, test.device, test.answers...)
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("the error is %v, want %q", err, test.want)
				}
				if took := time.Since(start); took != test.after {
					t.Errorf("it took %v, want %v", took, test.after)
				}
			})
		})
	}
}

// Who signs out while a token is refreshed has no token afterwards, and the new one is
// revoked.
func TestSignOutDuringARefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, release := false, make(chan struct{})
		p := newPlace(t, &authtest.Options{Token: func(http.ResponseWriter, *http.Request) bool {
			if slow {
				slow = false
				<-release
			}
			return false
		}}, &oauth.Config{})
		p.mustGet()
		time.Sleep(2 * time.Hour)
		slow = true
		var all sync.WaitGroup
		all.Go(func() { _ = p.get() }) // with the last token, or none
		synctest.Wait()
		all.Go(func() {
			if had, err := p.source.SignOut(t.Context()); !had || err != nil {
				t.Error(had, err)
			}
		})
		synctest.Wait()
		close(release)
		all.Wait()
		st, err := p.source.Status()
		if err != nil || p.server.Count("refresh") != 1 || p.server.Count("revoke") != 2 {
			t.Errorf("%d refreshes, %d revocations, %v", p.server.Count("refresh"), p.server.Count("revoke"), err)
		}
		if st.SignedIn && p.server.Count("device") != 2 { // the request may have signed in again
			t.Errorf("it is still signed in: %+v", st)
		}
	})
}

// Of two processes one signs out, and the authorization server cannot revoke tokens: the
// other one has none after ten seconds, and reads nothing before.
func TestASignOutElsewhereIsNoticedWithinTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := oauth.NewMemory()
		p := newPlace(t, &authtest.Options{Change: func(what string, doc map[string]any) {
			if what == "metadata" {
				delete(doc, "revocation_endpoint")
			}
		}}, &oauth.Config{Store: store})
		p.mustGet()
		time.Sleep(time.Minute)
		p.mustGet() // and has read what there is
		if had, err := newSource(t, &oauth.Config{Server: p.server.URL, Store: store}).SignOut(t.Context()); !had || err != nil {
			t.Fatal(had, err)
		}
		time.Sleep(10*time.Second - time.Nanosecond)
		if token, err := p.source.Token(t.Context()); err != nil || token == "" {
			t.Errorf("the store is read before: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if _, err := p.source.Token(t.Context()); err == nil {
			t.Error("the token is still used")
		}
	})
}
