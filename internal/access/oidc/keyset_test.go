package oidc

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
)

// An issuer is in a network in memory.
type issuer struct {
	*authtest.Server
	network Network
}

func newIssuer(t testing.TB, opts authtest.Options) *issuer {
	t.Helper()
	l := memnet.Listen()
	opts.Listener = l
	return &issuer{authtest.New(t, &opts), Network{Dial: l.DialContext, Proxy: http.ProxyURL(nil)}}
}

// keys returns the keys of the issuer, which are closed with the test.
func (s *issuer) keys(t testing.TB, o KeySetOptions) *KeySet {
	t.Helper()
	o.Issuer, o.Network = s.Issuer, s.network
	j, err := NewKeySet(&o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.Close)
	return j
}

type members = map[string]any

func verify(ctx context.Context, s *KeySet, token string) error {
	t, ok := ParseJWS(token)
	if !ok {
		return errors.New("not a signed token")
	}
	return s.Verify(ctx, t)
}

// kindOf returns how a token was judged.
func kindOf(err error) string {
	_, refused := errors.AsType[*InvalidError](err)
	_, unavailable := errors.AsType[*UnavailableError](err)
	switch {
	case err == nil:
		return "accepted"
	case refused:
		return "invalid"
	case unavailable:
		return "unavailable"
	}
	return "other: " + err.Error()
}

// expect fails the test unless a token is judged like that.
func expect(t *testing.T, s *KeySet, token, want, when string) {
	t.Helper()
	if err := verify(t.Context(), s, token); kindOf(err) != want {
		t.Errorf("%s a token is %s (%v), want %s", when, kindOf(err), err, want)
	}
}

func TestNewKeysAreFoundByTheTokensThatNameThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newIssuer(t, authtest.Options{})
		j := s.keys(t, KeySetOptions{})
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
		s := newIssuer(t, authtest.Options{Lifetime: 24 * time.Hour})
		j := s.keys(t, KeySetOptions{})
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
		s := newIssuer(t, authtest.Options{})
		j := s.keys(t, KeySetOptions{})
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

func TestStormOfUnknownKeysIsOneRequestInTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newIssuer(t, authtest.Options{})
		j := s.keys(t, KeySetOptions{})
		const seconds = 60
		for second := range seconds {
			var all sync.WaitGroup
			for i := range 50 {
				all.Go(func() {
					header := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"alg":"ES256","kid":"%d %d"}`, second, i))
					expect(t, j, header+".e30.AAAA", "invalid", "with a key that does not exist")
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
		s := newIssuer(t, authtest.Options{Change: func(what string, _ map[string]any) {
			if what == "keys" {
				time.Sleep(time.Second)
			}
		}})
		j := s.keys(t, KeySetOptions{})
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
		s := newIssuer(t, authtest.Options{Change: func(what string, _ map[string]any) {
			if what == "keys" {
				time.Sleep(3 * time.Second)
			}
		}})
		j := s.keys(t, KeySetOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if err := verify(ctx, j, s.Mint(nil)); kindOf(err) != "unavailable" {
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
		s := newIssuer(t, authtest.Options{Change: func(string, map[string]any) { time.Sleep(time.Minute) }})
		j := s.keys(t, KeySetOptions{})
		begin := time.Now()
		expect(t, j, s.Mint(nil), "unavailable", "of an issuer that does not answer")
		if waited := time.Since(begin); waited != RequestTime {
			t.Errorf("it took %v, want %v", waited, RequestTime)
		}
		time.Sleep(time.Minute) // until the issuer has ended
	})
}

func TestCloseEndsARequestForKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := newIssuer(t, authtest.Options{Change: func(string, map[string]any) { <-release }})
		j := s.keys(t, KeySetOptions{})
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
	s := newIssuer(t, authtest.Options{})
	j := s.keys(t, KeySetOptions{})
	expect(t, j, s.Mint(nil), "accepted", "at first")
	var all sync.WaitGroup
	var stop atomic.Bool
	for range 4 {
		all.Go(func() {
			for !stop.Load() {
				if err := verify(t.Context(), j, s.Mint(nil)); err != nil {
					t.Errorf("verify: %v", err)
					return
				}
			}
		})
	}
	for range 8 {
		j.mu.Lock()
		j.tried = time.Time{} // the pause is over
		j.mu.Unlock()
		s.Rotate(true)
		_ = j.refresh(t.Context())
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
			s := newIssuer(t, authtest.Options{Change: func(what string, doc map[string]any) {
				if what == "metadata" {
					change(doc)
				}
			}})
			j := s.keys(t, KeySetOptions{})
			expect(t, j, s.Mint(nil), "unavailable", "with metadata of another issuer")
			if n := s.Count("keys"); n != 0 {
				t.Errorf("the keys were fetched %d times", n)
			}
		})
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
			s := newIssuer(t, authtest.Options{})
			j, err := NewKeySet(&KeySetOptions{Issuer: s.Issuer, Network: Network{Proxy: http.ProxyURL(nil)}, URL: server.URL})
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
		s := newIssuer(t, authtest.Options{})
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
		j := s.keys(t, KeySetOptions{File: file})
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
func decoded(t *testing.T, v any) Claims {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	set, err := ParseClaims(text)
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
			if algorithmOf(name).fits(got.public) {
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
			s := newIssuer(t, authtest.Options{Change: func(what string, doc map[string]any) {
				if what == "keys" {
					doc["keys"] = row.keys
				}
			}})
			j := s.keys(t, KeySetOptions{})
			expect(t, j, row.key.Sign(row.header, s.Claims(nil)), row.want, "with such keys")
		})
	}
}

func TestKeysOfAClientThatCannotBeUsedAreExplained(t *testing.T) {
	for text, want := range map[string]string{
		`{"keys":[]}`: "the key set is empty",
		`{}`:          "the key set has no list of keys (keys)",
	} {
		if _, err := ParseKeys([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// weakRSA returns a key that is too small.
func weakRSA(t testing.TB) *authtest.Key {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	return &authtest.Key{ID: "weak", Algorithm: "RS256", Private: k}
}
