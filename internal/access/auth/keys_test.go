package auth

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/certtest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
)

// expect fails the test unless a verifier says that of a token.
func expect(t *testing.T, v Verifier, token, want, when string) {
	t.Helper()
	if _, err := v.verify(t.Context(), token); kindOf(err) != want {
		t.Errorf("%s a token is %s (%v), want %s", when, kindOf(err), err, want)
	}
}

func TestS27_KeysOutliveTheirIssuerForTheConfiguredTime(t *testing.T) {
	for name, limit := range map[string]time.Duration{"by default": 0, "configured": 3 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newIssuing(t, authtest.Options{Lifetime: 24 * time.Hour})
				const us = "https://gw.example.com"
				p := New(&Options{Verifiers: []Verifier{s.jwt(t, JWTOptions{Keys: oidc.KeySetOptions{MaxAge: limit}})}, URL: us}, often, nil)
				status := func(want int, when string) {
					t.Helper()
					if got := caller(t, p, s.Mint(members{"aud": us}), nil); got != want {
						t.Errorf("%s the status is %d, want %d", when, got, want)
					}
				}
				if limit == 0 {
					limit = time.Hour
				}
				s.Leave(true)
				status(503, "before there are keys")
				s.Leave(false)
				status(503, "right after that")
				time.Sleep(10 * time.Second)
				status(200, "when the issuer is there")
				s.Leave(true)
				time.Sleep(limit - time.Second)
				status(200, "while keys are kept")
				time.Sleep(time.Second)
				for range 4 {
					status(503, "after that")
					time.Sleep(time.Hour)
				}
				// A token that was accepted before is refused, too.
				s.Leave(false)
				time.Sleep(10 * time.Second)
				status(200, "when the issuer is back")
			})
		})
	}
}

func TestTokenThatWasAcceptedIsNotAcceptedWithoutKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newIssuing(t, authtest.Options{Lifetime: 24 * time.Hour})
		p := New(&Options{Verifiers: []Verifier{s.jwt(t, JWTOptions{})}, URL: "https://gw.example.com"}, often, nil)
		token := s.Mint(members{"aud": "https://gw.example.com"})
		if got := caller(t, p, token, nil); got != 200 {
			t.Fatalf("status %d, want 200", got)
		}
		s.Leave(true)
		time.Sleep(2 * time.Hour)
		if got := caller(t, p, token, nil); got != 503 {
			t.Errorf("status %d, want 503", got)
		}
		s.Leave(false)
		time.Sleep(10 * time.Second)
		if got := caller(t, p, token, nil); got != 200 {
			t.Errorf("status %d when the issuer is back, want 200", got)
		}
	})
}

// The issuer is public, and its metadata names keys that only we can reach.
func TestS29_KeysOfAPublicIssuerAreNotFetchedInside(t *testing.T) {
	for _, inside := range []string{"http://127.0.0.1:1/keys", "https://keys.example.com/keys", "https://169.254.169.254/keys"} {
		issuer, l, authority := "https://login.example.com", memnet.Listen(), certtest.New(t)
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, issuer, inside)
		}))
		_ = server.Listener.Close()
		server.Listener, server.TLS = l, &tls.Config{Certificates: []tls.Certificate{authority.Pair(t, "login.example.com", "login.example.com")}}
		server.StartTLS()
		var dialed []string
		j, err := NewJWT(&JWTOptions{ClaimOptions: ClaimOptions{Issuer: issuer}, Keys: oidc.KeySetOptions{Network: oidc.Network{
			TLS: &tls.Config{RootCAs: authority.Pool()}, Proxy: http.ProxyURL(nil),
			Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr(map[string]string{"login.example.com": "8.8.4.4", "keys.example.com": "10.0.0.1"}[host])}, nil
			},
			Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				dialed = append(dialed, address)
				return l.DialContext(ctx, network, address)
			},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		token := authtest.NewKey("ES256").Sign(nil, members{"iss": issuer, "sub": "a", "aud": "b", "exp": time.Now().Add(time.Hour).Unix()})
		expect(t, j, token, "unavailable", "with keys at "+inside)
		j.Close()
		server.Close()
		if !slices.Equal(dialed, []string{"8.8.4.4:443"}) {
			t.Errorf("%s: dialed %q", inside, dialed)
		}
	}
}
