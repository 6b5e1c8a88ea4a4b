package auth

import (
	"context"
	"crypto"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

func TestNewKeysAreFoundByTheTokensThatNameThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newIssuing(t, authtest.Options{})
		j := s.jwt(t, JWTOptions{})
		before := s.Mint(nil)
		expect(t, j, before, "accepted", "at first")
		time.Sleep(time.Minute)
		s.Rotate(true)
		expect(t, j, s.Mint(nil), "accepted", "signed with a new key")
		expect(t, j, before, "accepted", "signed with the old key, which is still there,")
		if n := s.Count("keys"); n != 2 {
			t.Errorf("the keys were fetched %d times, want 2", n)
		}
	})
}

func TestKeysThatAreTakenBackAreForgottenWithinTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newIssuing(t, authtest.Options{Lifetime: 24 * time.Hour})
		j := s.jwt(t, JWTOptions{})
		token := s.Mint(nil)
		expect(t, j, token, "accepted", "at first")
		s.Rotate(false)
		time.Sleep(keysFresh - time.Second)
		expect(t, j, token, "accepted", "before the keys are old")
		time.Sleep(time.Second)
		expect(t, j, token, "accepted", "when the keys are old, at once,")
		synctest.Wait() // they are fetched in the background
		expect(t, j, token, "invalid", "after that")
		if n := s.Count("keys"); n != 2 {
			t.Errorf("the keys were fetched %d times, want 2", n)
		}
	})
}

func TestTokenIsNotRefusedForAKeyThatMayBeNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newIssuing(t, authtest.Options{})
		j := s.jwt(t, JWTOptions{})
		old := s.Mint(nil)
		expect(t, j, old, "accepted", "at first")
		time.Sleep(time.Minute)
		s.Rotate(true)
		s.Leave(true)
		token := s.Mint(nil)
		expect(t, j, token, "unavailable", "while the issuer is away")
		expect(t, j, token, "unavailable", "right after that")
		expect(t, j, old, "accepted", "signed with a key that is known")
		s.Leave(false)
		time.Sleep(keysPause)
		expect(t, j, token, "accepted", "when the issuer is back")
	})
}

func TestS27_KeysOutliveTheirIssuerForTheConfiguredTime(t *testing.T) {
	for name, limit := range map[string]time.Duration{"by default": 0, "configured": 3 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newIssuing(t, authtest.Options{Lifetime: 24 * time.Hour})
				const us = "https://gw.example.com"
				p := New(&Options{Verifiers: []Verifier{s.jwt(t, JWTOptions{KeysFor: limit})}, URL: us}, often, nil)
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
				time.Sleep(keysPause)
				status(200, "when the issuer is there")
				s.Leave(true)
				time.Sleep(limit - time.Second)
				status(200, "while keys are kept")
				time.Sleep(time.Second)
				for range 4 {
					status(503, "after that")
					time.Sleep(time.Hour)
				}
				// What was let in by a token before is not let in, either.
				s.Leave(false)
				time.Sleep(keysPause)
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
		time.Sleep(keysPause)
		if got := caller(t, p, token, nil); got != 200 {
			t.Errorf("status %d when the issuer is back, want 200", got)
		}
	})
}

func TestStormOfUnknownKeysIsOneRequestInTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newIssuing(t, authtest.Options{})
		j := s.jwt(t, JWTOptions{})
		const seconds = 60
		claims := part(t, s.Claims(nil))
		for second := range seconds {
			var all sync.WaitGroup
			for i := range 50 {
				all.Go(func() {
					header := part(t, members{"alg": "ES256", "kid": fmt.Sprint(second, i)})
					expect(t, j, header+"."+claims+".AAAA", "invalid", "with a key that does not exist")
				})
			}
			all.Wait()
			time.Sleep(time.Second)
		}
		if n := s.Count("keys"); n < 2 || n > seconds/10+1 {
			t.Errorf("the keys were fetched %d times in %d s, want at most %d", n, seconds, seconds/10+1)
		}
		expect(t, j, s.Mint(nil), "accepted", "in spite of them")
	})
}

func TestManyWhoComeFirstShareOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newIssuing(t, authtest.Options{Change: func(what string, _ map[string]any) {
			if what == "keys" {
				time.Sleep(time.Second)
			}
		}})
		j := s.jwt(t, JWTOptions{})
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { expect(t, j, s.Mint(nil), "accepted", "at first") })
		}
		all.Wait()
		if n := s.Count("keys"); n != 1 {
			t.Errorf("the keys were fetched %d times, want once", n)
		}
	})
}

func TestWhoLeavesDoesNotWaitForKeysAndOthersGetThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newIssuing(t, authtest.Options{Change: func(what string, _ map[string]any) {
			if what == "keys" {
				time.Sleep(3 * time.Second)
			}
		}})
		j := s.jwt(t, JWTOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if _, err := j.verify(ctx, s.Mint(nil)); kindOf(err) != "unavailable" {
			t.Errorf("verify of who left: %v, want that it cannot be told", err)
		}
		if waited := time.Since(begin); waited != time.Second {
			t.Errorf("it took %v, want until the context ended", waited)
		}
		expect(t, j, s.Mint(nil), "accepted", "of who stayed")
		if n := s.Count("keys"); n != 1 {
			t.Errorf("the keys were fetched %d times, want once", n)
		}
	})
}

func TestIssuerThatDoesNotAnswerCostsFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newIssuing(t, authtest.Options{Change: func(string, map[string]any) { time.Sleep(time.Minute) }})
		j := s.jwt(t, JWTOptions{})
		begin := time.Now()
		expect(t, j, s.Mint(nil), "unavailable", "of an issuer that does not answer")
		if waited := time.Since(begin); waited != oidc.RequestTime {
			t.Errorf("it took %v, want %v", waited, oidc.RequestTime)
		}
		time.Sleep(time.Minute) // until the issuer has ended
	})
}

func TestCloseEndsARequestForKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := newIssuing(t, authtest.Options{Change: func(string, map[string]any) { <-release }})
		j := s.jwt(t, JWTOptions{})
		var all sync.WaitGroup
		all.Go(func() { expect(t, j, s.Mint(nil), "unavailable", "of a verifier that is closed") })
		synctest.Wait()
		begin := time.Now()
		j.Close()
		all.Wait()
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("Close took %v", waited)
		}
		close(release)
	})
}

func TestRotationUnderLoadRefusesNoToken(t *testing.T) {
	s := newIssuing(t, authtest.Options{})
	j := s.jwt(t, JWTOptions{})
	expect(t, j, s.Mint(nil), "accepted", "at first")
	var all sync.WaitGroup
	var stop atomic.Bool
	for range 4 {
		all.Go(func() {
			for !stop.Load() {
				if _, err := j.verify(t.Context(), s.Mint(nil)); err != nil {
					t.Errorf("verify: %v", err)
					return
				}
			}
		})
	}
	for range 8 {
		j.keys.mu.Lock()
		j.keys.tried = time.Time{} // the pause is over
		j.keys.mu.Unlock()
		s.Rotate(true)
		_ = j.keys.refresh(t.Context())
	}
	stop.Store(true)
	all.Wait()
}

func TestMetadataOfAnotherIssuerAreNotBelieved(t *testing.T) {
	for name, change := range map[string]func(doc map[string]any){
		"another":              func(doc map[string]any) { doc["issuer"] = "https://evil.example.com" },
		"with a slash":         func(doc map[string]any) { doc["issuer"] = doc["issuer"].(string) + "/" },
		"none":                 func(doc map[string]any) { delete(doc, "issuer") },
		"no keys":              func(doc map[string]any) { delete(doc, "jwks_uri") },
		"keys by plain http":   func(doc map[string]any) { doc["jwks_uri"] = "http://example.com/keys" },
		"keys in a file":       func(doc map[string]any) { doc["jwks_uri"] = "file:///etc/passwd" },
		"keys that are absent": func(doc map[string]any) { doc["jwks_uri"] = doc["issuer"].(string) + "/absent" },
	} {
		t.Run(name, func(t *testing.T) {
			s := newIssuing(t, authtest.Options{Change: func(what string, doc map[string]any) {
				if what == "metadata" {
					change(doc)
				}
			}})
			j := s.jwt(t, JWTOptions{})
			expect(t, j, s.Mint(nil), "unavailable", "with metadata of another issuer")
			if n := s.Count("keys"); n != 0 {
				t.Errorf("the keys were fetched %d times", n)
			}
		})
	}
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
		j, err := NewJWT(&JWTOptions{ClaimOptions: ClaimOptions{Issuer: issuer}, Network: oidc.Network{
			TLS: &tls.Config{RootCAs: authority.Pool()}, Proxy: http.ProxyURL(nil),
			Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr(map[string]string{"login.example.com": "8.8.4.4", "keys.example.com": "10.0.0.1"}[host])}, nil
			},
			Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				dialed = append(dialed, address)
				return l.DialContext(ctx, network, address)
			},
		}})
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

func TestAnswersThatAreNoKeysAreNotBelieved(t *testing.T) {
	huge := `{"keys":[` + strings.Repeat(" ", 1<<20) + `]}`
	many := `{"keys":[` + strings.TrimSuffix(strings.Repeat("{},", maxKeys+1), ",") + `]}`
	for name, answer := range map[string]http.HandlerFunc{
		"redirect":   func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
		"huge":       func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, huge) },
		"too many":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, many) },
		"a page":     func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"a list":     func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[]") },
		"no list":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"keys":{}}`) },
		"keys twice": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"keys":[],"keys":[]}`) },
		"refused":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"failed":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests++
				answer(w, r)
			}))
			defer server.Close()
			s := newIssuing(t, authtest.Options{})
			j, err := NewJWT(&JWTOptions{ClaimOptions: ClaimOptions{Issuer: s.Issuer}, KeysURL: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			expect(t, j, s.Mint(nil), "unavailable", "with such an answer")
			if requests != 1 {
				t.Errorf("there were %d requests, want one", requests)
			}
		})
	}
}

func TestKeysInAFileAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newIssuing(t, authtest.Options{})
		file := filepath.Join(t.TempDir(), "keys.json")
		write := func(keys ...*authtest.Key) {
			t.Helper()
			list := []any{}
			for _, k := range keys {
				list = append(list, k.JWK())
			}
			text, err := json.Marshal(members{"keys": list})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(s.Key())
		j := s.jwt(t, JWTOptions{KeysFile: file})
		s.Leave(true) // who is not asked
		expect(t, j, s.Mint(nil), "accepted", "of a file")
		s.Rotate(false)
		write(s.Key())
		time.Sleep(keysPause)
		expect(t, j, s.Mint(nil), "accepted", "of a file that has changed")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(keysFor)
		expect(t, j, s.Mint(nil), "unavailable", "of a file that is gone")
		if n := s.Count("away"); n != 0 {
			t.Errorf("the issuer was asked %d times", n)
		}
	})
}

// with returns a key with a member that is another, or is left out if that is nil.
func with(k *authtest.Key, name string, v any) members {
	set := maps.Clone(k.JWK())
	if set[name] = v; v == nil {
		delete(set, name)
	}
	return set
}

// decoded returns what was sent as JSON, as it is read.
func decoded(t *testing.T, v any) claimSet {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	set, err := decodeObject(text)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestKeysThatCannotBeUsedAreLeftOut(t *testing.T) {
	ec, rsaKey, ed := authtest.NewKey("ES256"), authtest.NewKey("RS256"), authtest.NewKey("EdDSA")
	zeros := base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	for k, fitting := range map[*authtest.Key]string{
		ec: "ES256", authtest.NewKey("ES384"): "ES384", authtest.NewKey("ES512"): "ES512",
		ed: "Ed25519 EdDSA", rsaKey: "PS256 PS384 PS512 RS256 RS384 RS512",
	} {
		got, err := parseKey(decoded(t, k.JWK()))
		if err != nil || !k.Private.Public().(interface{ Equal(crypto.PublicKey) bool }).Equal(got.public) {
			t.Errorf("a key for %s: %v", k.Algorithm, err)
			continue
		}
		var fits []string
		for _, name := range Algorithms() {
			if algorithms[name].fits(got.public) {
				fits = append(fits, name)
			}
		}
		if strings.Join(fits, " ") != fitting {
			t.Errorf("a key for %s fits %v, want %s", k.Algorithm, fits, fitting)
		}
	}
	for name, set := range map[string]members{
		"use enc":           with(ec, "use", "enc"),
		"use a number":      with(ec, "use", 1),
		"key_ops encrypt":   with(ec, "key_ops", []any{members{}, "encrypt"}),
		"key_ops empty":     with(ec, "key_ops", []string{}),
		"alg HS256":         with(ec, "alg", "HS256"),
		"alg none":          with(ec, "alg", "none"),
		"alg a number":      with(ec, "alg", 1),
		"private":           with(ec, "d", zeros),
		"not on the curve":  with(ec, "x", zeros),
		"no x":              with(ec, "x", nil),
		"x too short":       with(ec, "x", "AAAA"),
		"x padded":          with(ec, "x", ec.JWK()["x"].(string)+"="),
		"curve of another":  with(ec, "crv", "P-384"),
		"curve not known":   with(ec, "crv", "secp256k1"),
		"kty of another":    with(ec, "kty", "RSA"),
		"kty oct":           with(ec, "kty", "oct"),
		"weak RSA":          weakRSA(t).JWK(),
		"RSA, e 1":          with(rsaKey, "e", "AQ"),
		"RSA, e even":       with(rsaKey, "e", "BA"),
		"RSA, e huge":       with(rsaKey, "e", "AQAAAAE"),
		"RSA, n even":       with(rsaKey, "n", "_"+strings.Repeat("A", 341)),
		"RSA, n huge":       with(rsaKey, "n", strings.Repeat("_", 2048)),
		"RSA, no n":         with(rsaKey, "n", nil),
		"Ed25519 too short": with(ed, "x", "AAAA"),
		"Ed448":             with(ed, "crv", "Ed448"),
		"X25519":            with(ed, "crv", "X25519"),
	} {
		if _, err := parseKey(decoded(t, set)); err == nil {
			t.Errorf("%s: the key is taken", name)
		}
	}
}

func TestWhichKeysCount(t *testing.T) {
	good, same := authtest.NewKey("ES256"), authtest.NewKey("ES256")
	same.ID = good.ID
	rsaKey := authtest.NewKey("RS256")
	many := []any{}
	for range maxTries + 1 {
		many = append(many, with(authtest.NewKey("ES256"), "kid", nil))
	}
	for name, row := range map[string]struct {
		keys   []any
		key    *authtest.Key
		header members
		want   string
	}{
		"plain":                        {[]any{good.JWK()}, good, nil, "accepted"},
		"no kid in the set":            {[]any{with(good, "kid", nil)}, good, nil, "accepted"},
		"no kid in both":               {[]any{with(good, "kid", nil)}, good, members{"kid": nil}, "accepted"},
		"two of one kid":               {[]any{same.JWK(), good.JWK()}, good, nil, "accepted"},
		"another of the kid":           {[]any{same.JWK()}, good, nil, "invalid"},
		"another of the kid, and bare": {[]any{same.JWK(), with(good, "kid", nil)}, good, nil, "invalid"},
		"no alg":                       {[]any{with(good, "alg", nil)}, good, nil, "accepted"},
		"no use":                       {[]any{with(good, "use", nil)}, good, nil, "accepted"},
		"key_ops verify":               {[]any{with(good, "key_ops", []string{"verify"})}, good, nil, "accepted"},
		"beside keys that are none":    {[]any{1, nil, members{}, []any{}, members{"kty": "oct", "k": "AA"}, good.JWK()}, good, nil, "accepted"},
		"too many to try":              {append(many, with(good, "kid", nil)), good, members{"kid": nil}, "invalid"},
		"none":                         {[]any{}, good, nil, "invalid"},

		"alg of another":             {[]any{with(rsaKey, "alg", "PS256")}, rsaKey, nil, "invalid"},
		"of a kind that is left out": {[]any{with(good, "use", "enc")}, good, nil, "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newIssuing(t, authtest.Options{Change: func(what string, doc map[string]any) {
				if what == "keys" {
					doc["keys"] = row.keys
				}
			}})
			j := s.jwt(t, JWTOptions{})
			expect(t, j, row.key.Sign(row.header, s.Claims(nil)), row.want, "with such keys")
		})
	}
}
