package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
)

// introspection returns a verifier that asks the issuer, which ends with the test.
func (s *issuing) introspection(t testing.TB, o IntrospectionOptions) *Introspection {
	t.Helper()
	o.Issuer, o.Endpoint, o.Network = s.Issuer, s.Issuer+"/introspect", s.network
	if o.ClientID == "" && o.Bearer == nil {
		o.ClientID, o.ClientSecret = "client", "secret"
	}
	v, err := NewIntrospection(&o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

func TestIssuerTellsWhoseAnOpaqueTokenIs(t *testing.T) {
	s := newIssuing(t, authtest.Options{})
	exp := time.Now().Add(time.Hour).Truncate(time.Second)
	token := s.MintOpaque(members{"sub": "ada", "aud": "x", "scope": "a b", "username": "Ada", "groups": []string{"staff"}, "exp": exp.Unix()})
	want := &identity{
		principal: "user:ada@" + s.Issuer, proof: "introspection", scopes: []string{"a", "b"}, audience: []string{"x"}, expires: exp.Add(time.Minute),
		claims: map[string][]string{"sub": {"ada"}, "client_id": {"client"}, "username": {"Ada"}, "groups": {"staff"}},
	}
	access, _, _ := s.Issue()
	for name, o := range map[string]IntrospectionOptions{
		"basic":  {},
		"post":   {ClientID: "client", ClientSecret: "secret", Post: true},
		"bearer": {Bearer: func(context.Context) (string, error) { return access, nil }},
	} {
		got, err := s.introspection(t, o).verify(t.Context(), token)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: identity is\n%+v, %v, want\n%+v", name, got, err, want)
		}
	}
}

func TestTokensThatTheIssuerDoesNotVouchForAreRefused(t *testing.T) {
	s := newIssuing(t, authtest.Options{})
	v := s.introspection(t, IntrospectionOptions{})
	for name, row := range map[string]struct{ want, token string }{
		"not known":        {"foreign", "garbage"},
		"without exp":      {"accepted", s.MintOpaque(members{"exp": nil})},
		"without iss":      {"accepted", s.MintOpaque(members{"iss": nil})},
		"expired":          {"invalid", s.MintOpaque(members{"exp": 1})},
		"not yet valid":    {"invalid", s.MintOpaque(members{"nbf": time.Now().Add(time.Hour).Unix()})},
		"without aud":      {"invalid", s.MintOpaque(members{"aud": nil})},
		"without sub":      {"invalid", s.MintOpaque(members{"sub": nil, "username": "ada"})},
		"of another":       {"invalid", s.MintOpaque(members{"iss": "https://evil.example.com"})},
		"of another, null": {"accepted", s.MintOpaque(members{"iss": nil})},
		"bound by DPoP":    {"invalid", s.MintOpaque(members{"cnf": members{"jkt": "x"}})},
		"refresh token":    {"invalid", s.MintOpaque(members{"typ": "Refresh"})},
		"our own JWT":      {"foreign", s.Mint(nil)}, // the issuer of these tests does not know its own
	} {
		expect(t, v, row.token, row.want, name)
		expect(t, v, row.token, row.want, name+", again")
	}
}

func TestTokensOfOtherIssuersAreNotShownToThisOne(t *testing.T) {
	s := newIssuing(t, authtest.Options{})
	v := s.introspection(t, IntrospectionOptions{})
	expect(t, v, s.Mint(members{"iss": "https://other.example.com"}), "foreign", "of another issuer")
	p := New(&Options{Verifiers: []Verifier{s.jwt(t, JWTOptions{}), v}}, often, nil)
	for _, token := range []string{s.Mint(nil), s.Mint(members{"exp": 1})} {
		_, _ = p.verify(t.Context(), token)
	}
	if n := s.Count("introspect"); n != 0 {
		t.Errorf("the endpoint was asked %d times, want never", n)
	}
	if _, err := p.verify(t.Context(), s.MintOpaque(nil)); err != nil || s.Count("introspect") != 1 {
		t.Errorf("an opaque token: %v, after %d questions", err, s.Count("introspect"))
	}
}

func TestWhatTheIssuerDoesNotKnowIsAskedOnceInTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newIssuing(t, authtest.Options{})
		v := s.introspection(t, IntrospectionOptions{})
		for range 100 {
			expect(t, v, "garbage", "foreign", "not known,")
		}
		if n := s.Count("introspect"); n != 1 {
			t.Errorf("the endpoint was asked %d times, want once", n)
		}
		time.Sleep(refusedFor)
		expect(t, v, "garbage", "foreign", "not known,")
		if n := s.Count("introspect"); n != 2 {
			t.Errorf("the endpoint was asked %d times after ten seconds, want twice", n)
		}
	})
}

func TestRefusedTokensAreBounded(t *testing.T) {
	v := &Introspection{refused: make(map[digest]refusal)}
	for i := range 3 * maxRefused {
		v.refuse(digest{byte(i), byte(i >> 8), byte(i >> 16)}, errForeign)
		if len(v.refused) > maxRefused {
			t.Fatalf("%d are remembered, want %d at most", len(v.refused), maxRefused)
		}
	}
	if len(v.refused) < maxRefused/2 {
		t.Errorf("%d are remembered: too many were forgotten", len(v.refused))
	}
}

func TestManyWithOneTokenAskOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newIssuing(t, authtest.Options{Change: func(what string, _ map[string]any) {
			if what == "introspection" {
				time.Sleep(time.Second)
			}
		}})
		v := s.introspection(t, IntrospectionOptions{})
		token := s.MintOpaque(nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := v.verify(ctx, token); kindOf(err) != "unavailable" {
				t.Errorf("verify of who left: %v", err)
			}
		})
		for range 100 {
			all.Go(func() { expect(t, v, token, "accepted", "of many") })
		}
		all.Wait()
		if n := s.Count("introspect"); n != 1 {
			t.Errorf("the endpoint was asked %d times, want once", n)
		}
		if len(v.under) != 0 {
			t.Errorf("%d inquiries are left", len(v.under))
		}
	})
}

func TestStormOfTokensIsAskedAboutAFewAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most := 0, 0
		l := memnet.Listen()
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			now--
			mu.Unlock()
			fmt.Fprint(w, `{"active":false}`)
		})}
		go func() { _ = server.Serve(l) }() // ends with Close
		defer server.Close()
		v, err := NewIntrospection(&IntrospectionOptions{
			ClaimOptions: ClaimOptions{Issuer: "https://login.example.com"}, Endpoint: "http://127.0.0.1/introspect",
			ClientID: "client", Network: oidc.Network{Dial: l.DialContext, Proxy: http.ProxyURL(nil)},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		var all sync.WaitGroup
		for i := range 8 * maxInquiries {
			all.Go(func() {
				if _, err := v.verify(t.Context(), fmt.Sprint("garbage", i)); err == nil {
					t.Error("garbage is accepted")
				}
			})
		}
		all.Wait()
		if most != maxInquiries {
			t.Errorf("%d were asked about at the same time, want %d", most, maxInquiries)
		}
	})
}

func TestIssuerThatCannotBeAskedIsAnOutageAndNoRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answer atomic.Value
		s := newIssuing(t, authtest.Options{Change: func(what string, doc map[string]any) {
			switch answer.Load() {
			case "no active":
				delete(doc, "active")
			case "active a text":
				doc["active"] = "true"
			case "slow":
				time.Sleep(time.Minute)
			}
		}})
		v := s.introspection(t, IntrospectionOptions{})
		token := s.MintOpaque(nil)
		for _, how := range []string{"no active", "active a text", "slow"} {
			answer.Store(how)
			expect(t, v, token, "unavailable", how)
		}
		time.Sleep(time.Minute)
		answer.Store("as it should be")
		s.Leave(true)
		expect(t, v, token, "unavailable", "away")
		s.Leave(false)
		expect(t, v, token, "accepted", "back again")

		wrong := s.introspection(t, IntrospectionOptions{ClientID: "client", ClientSecret: "wrong-secret"})
		_, err := wrong.verify(t.Context(), token)
		if kindOf(err) != "unavailable" || strings.Contains(err.Error(), "wrong-secret") || strings.Contains(err.Error(), token) {
			t.Errorf("with a wrong secret: %v", err)
		}
		failing := s.introspection(t, IntrospectionOptions{Bearer: func(context.Context) (string, error) { return "", errors.New("none") }})
		expect(t, failing, token, "unavailable", "without a token of ours")
	})
}

func TestRevokedTokenIsRefusedWithinTheTimeOfRechecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newIssuing(t, authtest.Options{})
		const us = "https://gw.example.com"
		p := New(&Options{Verifiers: []Verifier{s.introspection(t, IntrospectionOptions{})}, URL: us}, often, nil)
		token := s.MintOpaque(members{"aud": us})
		for range 10 {
			if got := caller(t, p, token, nil); got != 200 {
				t.Fatalf("status %d, want 200", got)
			}
		}
		if n := s.Count("introspect"); n != 1 {
			t.Errorf("the endpoint was asked %d times, want once", n)
		}
		s.Revoke()
		time.Sleep(recheck)
		if got := caller(t, p, token, nil); got != 401 {
			t.Errorf("status %d of a revoked token, want 401", got)
		}
	})
}

func TestIntrospectionNeedsAnEndpointAndCredentials(t *testing.T) {
	at := ClaimOptions{Issuer: "https://login.example.com"}
	bearer := func(context.Context) (string, error) { return "", nil }
	for name, o := range map[string]IntrospectionOptions{
		"no issuer":      {Endpoint: "https://login.example.com/introspect", ClientID: "a"},
		"no endpoint":    {ClaimOptions: at, ClientID: "a"},
		"plain http":     {ClaimOptions: at, ClientID: "a", Endpoint: "http://login.example.com/introspect"},
		"no credentials": {ClaimOptions: at, Endpoint: "https://login.example.com/introspect"},
		"two of them":    {ClaimOptions: at, Endpoint: "https://login.example.com/introspect", ClientID: "a", Bearer: bearer},
	} {
		if _, err := NewIntrospection(&o); err == nil || !strings.HasPrefix(err.Error(), "auth: ") {
			t.Errorf("%s: %v, want an error of this package", name, err)
		}
	}
}
