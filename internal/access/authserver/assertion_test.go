package authserver_test

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
)

// assertion returns one of the program, with other members of its header and claims. Those that
// are nil are left out.
func (p *program) assertion(header, other map[string]any) string {
	claims := map[string]any{"iss": p.id, "sub": p.id, "aud": us, "jti": rand.Text(), "exp": time.Now().Add(time.Minute).Unix(), "iat": time.Now().Unix()}
	for name, v := range other {
		if claims[name] = v; v == nil {
			delete(claims, name)
		}
	}
	if header == nil {
		header = map[string]any{"typ": "JWT"}
	}
	return p.key.Sign(header, claims)
}

func keySet(keys ...*authtest.Key) string {
	list := []any{}
	for _, k := range keys {
		list = append(list, k.JWK())
	}
	text, _ := json.Marshal(map[string]any{"keys": list}) // texts always encode
	return string(text)
}

// keyed returns programs that prove who they are by a key: registered, and with documents that have
// it or say where it is.
func (w *world) keyed(algorithm string) map[string]*program {
	key := authtest.NewKey(algorithm)
	const method = `,"token_endpoint_auth_method":"private_key_jwt"`
	w.docs["https://b.example.com/keys"] = keySet(key)
	list := map[string]*program{
		"registered": w.registerAs(map[string]any{"redirect_uris": []string{back}, "token_endpoint_auth_method": "private_key_jwt", "jwks": json.RawMessage(keySet(key))}),
		"jwks":       w.document("https://b.example.com/1", method+`,"jwks":`+keySet(key)),
		"jwks_uri":   w.document("https://b.example.com/2", method+`,"jwks_uri":"https://b.example.com/keys"`),
	}
	for _, p := range list {
		p.key = key
	}
	return list
}

func TestClientsProveWhoTheyAreByAKey(t *testing.T) {
	for _, algorithm := range []string{"ES256", "EdDSA", "RS256"} {
		w := newWorld(t, authtest.Options{}, nil)
		for name, p := range w.keyed(algorithm) {
			t.Run(algorithm+" "+name, func(t *testing.T) {
				if p.secret != "" {
					t.Error("it was given a secret besides")
				}
				have := p.signIn(w.browser())
				status, doc := p.refresh(have.refresh)
				have = tokensOf(t, status, doc)
				if status, doc := w.post("/oauth/revoke", p.auth(url.Values{"token": {have.refresh}})); status != http.StatusOK {
					t.Errorf("revoke: %d %v", status, doc)
				}
				if got := w.admit("/mcp", have.access); got != http.StatusUnauthorized {
					t.Errorf("a token that was revoked: %d", got)
				}
			})
		}
	}
}

func TestS27_ClientsWithAKeyAreNobodyWithoutIt(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	for name, p := range w.keyed("ES256") {
		t.Run(name, func(t *testing.T) {
			// Without an assertion a code is wasted, since somebody else has it.
			bare := *p
			bare.key = nil
			if status, doc := bare.exchange(p.code(w.browser(), nil)); status == http.StatusOK {
				t.Errorf("without an assertion: %v", doc)
			}
			bare.secret = "secret"
			if status, doc := bare.exchange(p.code(w.browser(), nil)); status == http.StatusOK {
				t.Errorf("with a secret: %v", doc)
			}
			have := p.signIn(w.browser())
			if status, _ := w.post("/oauth/revoke", url.Values{"client_id": {p.id}, "token": {have.refresh}}); status == http.StatusOK && w.admit("/mcp", have.access) != http.StatusOK {
				t.Error("somebody without the key has ended the sign-in")
			}
			other := authtest.NewKey("ES256")
			other.ID = p.key.ID
			forged := *p
			forged.key = other
			for what, text := range map[string]string{
				"of another key":    forged.assertion(nil, nil),
				"for another":       p.assertion(nil, map[string]any{"aud": "https://other.example.com"}),
				"for nobody":        p.assertion(nil, map[string]any{"aud": nil}),
				"of another client": p.assertion(nil, map[string]any{"iss": "x", "sub": "x"}),
				"about another":     p.assertion(nil, map[string]any{"sub": "x"}),
				"without an id":     p.assertion(nil, map[string]any{"jti": nil}),
				"with a long id":    p.assertion(nil, map[string]any{"jti": strings.Repeat("x", 1000)}),
				"without an end":    p.assertion(nil, map[string]any{"exp": nil}),
				"over":              p.assertion(nil, map[string]any{"exp": time.Now().Add(-2 * time.Minute).Unix()}),
				"without end":       p.assertion(nil, map[string]any{"exp": time.Now().Add(24 * time.Hour).Unix()}),
				"of the future":     p.assertion(nil, map[string]any{"nbf": time.Now().Add(time.Hour).Unix(), "exp": nil}),
				"an access token":   p.assertion(map[string]any{"typ": "at+jwt"}, nil),
				"critical":          p.assertion(map[string]any{"typ": "JWT", "crit": []string{"x"}}, nil),
				"nothing":           "",
				"no token":          "a.b.c",
			} {
				status, doc := w.post("/oauth/token", url.Values{
					"grant_type": {"refresh_token"}, "refresh_token": {have.refresh}, "client_id": {p.id},
					"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {text},
				})
				if status != http.StatusUnauthorized || doc["error"] != "invalid_client" {
					t.Errorf("%s: %d %v", what, status, doc)
				}
			}
			if status, doc := w.post("/oauth/token", url.Values{
				"grant_type": {"refresh_token"}, "refresh_token": {have.refresh}, "client_secret": {"x"},
				"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {p.assertion(nil, nil)},
			}); status == http.StatusOK {
				t.Errorf("in two ways: %v", doc)
			}
			if status, doc := p.refresh(have.refresh); status != http.StatusOK {
				t.Errorf("all that has ended the sign-in: %d %v", status, doc)
			}
		})
	}
}

func TestAssertionsAreGoodOnce(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	for name, p := range w.keyed("EdDSA") {
		t.Run(name, func(t *testing.T) {
			have, text := p.signIn(w.browser()), p.assertion(nil, map[string]any{"aud": []string{"https://x.example.com", us + "/oauth/token"}})
			form := url.Values{
				"grant_type": {"refresh_token"}, "refresh_token": {have.refresh},
				"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {text},
			}
			if status, doc := w.post("/oauth/token", form); status != http.StatusOK {
				t.Fatalf("once: %d %v", status, doc)
			}
			if status, doc := w.post("/oauth/token", form); status != http.StatusUnauthorized {
				t.Errorf("twice: %d %v", status, doc)
			}
		})
	}
}

func TestClientsMayChangeTheirKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, authtest.Options{}, nil)
		p := w.keyed("ES256")["jwks_uri"]
		have := p.signIn(w.browser())
		time.Sleep(time.Minute)
		p.key = authtest.NewKey("ES256")
		w.docs["https://b.example.com/keys"] = keySet(p.key)
		if status, doc := p.refresh(have.refresh); status != http.StatusOK {
			t.Errorf("with a new key: %d %v", status, doc)
		}
	})
}

func TestRegistrationsWithBadKeysAreRefused(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	private := authtest.NewKey("ES256").JWK()
	private["d"] = "AAAA"
	secret, _ := json.Marshal(map[string]any{"keys": []any{private}}) // texts always encode
	for name, more := range map[string]string{
		"none":          ``,
		"at a URL":      `,"jwks_uri":"https://b.example.com/keys"`,
		"both":          `,"jwks_uri":"https://b.example.com/keys","jwks":` + keySet(authtest.NewKey("ES256")),
		"an empty list": `,"jwks":{"keys":[]}`,
		"no list":       `,"jwks":{}`,
		"no object":     `,"jwks":"x"`,
		"private":       `,"jwks":` + string(secret),
		"too many":      `,"jwks":` + keySet(authtest.NewKey("ES256"), authtest.NewKey("ES256"), authtest.NewKey("ES256"), authtest.NewKey("ES256")),
	} {
		status, doc, _ := w.do(http.MethodPost, "/oauth/register", "application/json", `{"redirect_uris":["`+back+`"],"token_endpoint_auth_method":"private_key_jwt"`+more+`}`, nil)
		if status != http.StatusBadRequest || doc["error"] != "invalid_client_metadata" {
			t.Errorf("%s: %d %v", name, status, doc)
		}
	}
}
