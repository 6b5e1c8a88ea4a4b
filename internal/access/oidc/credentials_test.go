package oidc_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
)

func TestClientAuthenticationIsWhatTheServerOffers(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret := oidc.Credentials{ID: "a b:c", Secret: "d&e%f"}
	keyed := oidc.Credentials{ID: "me", Key: key}
	both := oidc.Credentials{ID: "me", Secret: "s", Key: key}
	id := oidc.Credentials{ID: "me"}
	with := func(who oidc.Credentials, method string) oidc.Credentials { who.Method = method; return who }
	for _, test := range []struct {
		name    string
		who     oidc.Credentials
		offered []string
		want    string // "" for an error
	}{
		{"secret, nothing said", secret, nil, "basic"},
		{"secret, basic", secret, []string{"client_secret_post", "client_secret_basic"}, "basic"},
		{"secret, post", secret, []string{"none", "client_secret_post"}, "post"},
		{"secret, none", secret, []string{"none"}, "none"},
		{"secret, nothing that fits", secret, []string{"tls_client_auth"}, ""},
		{"id, nothing said", id, nil, "none"},
		{"id, none", id, []string{"client_secret_basic", "none"}, "none"},
		{"id, none not offered", id, []string{"client_secret_basic"}, "none"},
		{"key, nothing said", keyed, nil, "key"},
		{"key", keyed, []string{"private_key_jwt"}, "key"},
		{"key, not offered", keyed, []string{"client_secret_basic"}, ""},
		{"both, key", both, []string{"client_secret_basic", "private_key_jwt"}, "key"},
		{"both, post", both, []string{"client_secret_post"}, "post"},
		{"chosen", with(secret, "client_secret_post"), []string{"client_secret_basic"}, "post"},
		{"chosen none", with(secret, "none"), []string{"client_secret_basic"}, "none"},
		{"chosen, unknown", with(secret, "tls_client_auth"), nil, ""},
		{"chosen key without one", with(secret, "private_key_jwt"), nil, ""},
		{"no id", oidc.Credentials{Secret: "s"}, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var form url.Values
			var header string
			w, c, as := authorizationServer(t, func(rw http.ResponseWriter, r *http.Request) {
				header = r.Header.Get("Authorization")
				_ = r.ParseForm()
				form = r.PostForm
				says(200, "application/json", `{"access_token":"A"}`)(rw, r)
			})
			as.TokenAuthMethods = test.offered
			_, err := c.Token(t.Context(), as, &test.who, url.Values{"grant_type": {"client_credentials"}})
			if test.want == "" {
				if asked := w.requests(); err == nil || len(asked) > 0 {
					t.Errorf("%v, asked %q", err, asked)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			form.Del("grant_type")
			if test.want == "key" {
				if !strings.HasPrefix(form.Get("client_assertion"), "ey") || form.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
					t.Errorf("sent %v", form)
				}
				form.Del("client_assertion")
				form.Del("client_assertion_type")
			}
			want := map[string]url.Values{
				"basic": {}, "none": {"client_id": {test.who.ID}}, "key": {"client_id": {test.who.ID}},
				"post": {"client_id": {test.who.ID}, "client_secret": {test.who.Secret}},
			}[test.want]
			if !reflect.DeepEqual(form, want) {
				t.Errorf("sent %v, want %v", form, want)
			}
			wantHeader := ""
			if test.want == "basic" {
				wantHeader = "Basic " + base64.StdEncoding.EncodeToString([]byte("a+b%3Ac:d%26e%25f"))
			}
			if header != wantHeader {
				t.Errorf("Authorization: %s, want %s", header, wantHeader)
			}
		})
	}
}

// A signer is a key with the algorithms that fit it.
type signer struct {
	key     crypto.Signer
	fitting []string
}

// signers returns one of each kind.
func signers(t *testing.T) []signer {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	all := []signer{{rsaKey, []string{"RS256", "PS256", "RS384"}}, {edKey, []string{"EdDSA"}}}
	for name, curve := range map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()} {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, signer{key, []string{name}})
	}
	return all
}

func TestAssertionsAreSignedAsTheKeyAllows(t *testing.T) {
	every := []string{"RS256", "PS256", "RS384", "ES256", "ES384", "ES512", "EdDSA"}
	for _, s := range signers(t) {
		key, fitting := s.key, s.fitting
		for _, alg := range append([]string{"", "HS256", "none"}, every...) {
			t.Run(strings.Join(fitting, "+")+" as "+alg, func(t *testing.T) {
				var assertion string
				_, c, as := authorizationServer(t, func(rw http.ResponseWriter, r *http.Request) {
					assertion = r.PostFormValue("client_assertion")
					says(200, "application/json", `{"access_token":"A"}`)(rw, r)
				})
				as.TokenAuthMethods = []string{"private_key_jwt"}
				_, err := c.Token(t.Context(), as, &oidc.Credentials{ID: "me", Key: key, Algorithm: alg, KeyID: "k1"}, nil)
				if fits := alg == "" || strings.Contains(strings.Join(fitting, " "), alg); !fits {
					wantError(t, err, "does not fit")
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if alg == "" {
					alg = fitting[0]
				}
				checkAssertion(t, assertion, alg, key.Public())
			})
		}
	}
}

func TestAlgorithmIsOneThatTheServerTakes(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		offered []string
		want    string
	}{{[]string{"ES256", "PS256"}, "PS256"}, {[]string{"PS256", "RS256"}, "RS256"}, {[]string{"ES256"}, ""}} {
		var assertion string
		_, c, as := authorizationServer(t, func(rw http.ResponseWriter, r *http.Request) {
			assertion = r.PostFormValue("client_assertion")
			says(200, "application/json", `{"access_token":"A"}`)(rw, r)
		})
		as.TokenAuthAlgorithms = test.offered
		_, err := c.Token(t.Context(), as, &oidc.Credentials{ID: "me", Key: key, KeyID: "k1"}, nil)
		if test.want == "" {
			wantError(t, err, "ES256")
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		checkAssertion(t, assertion, test.want, key.Public())
	}
}

func checkAssertion(t *testing.T, assertion, alg string, key crypto.PublicKey) {
	t.Helper()
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		t.Fatalf("%q is no JWT", assertion)
	}
	var header map[string]any
	var claims struct {
		Iss, Sub, Aud, Jti string
		Iat, Exp           int64
	}
	decode(t, parts[0], &header)
	decode(t, parts[1], &claims)
	if want := map[string]any{"alg": alg, "typ": "JWT", "kid": "k1"}; !reflect.DeepEqual(header, want) {
		t.Errorf("header %v, want %v", header, want)
	}
	if claims.Iss != "me" || claims.Sub != "me" || claims.Aud != issuer || len(claims.Jti) < 16 || claims.Exp-claims.Iat != 300 || time.Since(time.Unix(claims.Iat, 0)).Abs() > time.Minute {
		t.Errorf("claims %+v", claims)
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		t.Fatal(err)
	}
	if err := jwt.GetSigningMethod(alg).Verify(parts[0]+"."+parts[1], signature, key); err != nil {
		t.Errorf("the signature of %s: %v", alg, err)
	}
}

func decode(t *testing.T, part string, to any) {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, to); err != nil {
		t.Fatal(err)
	}
}

func TestKeysAreReadFromPEM(t *testing.T) {
	block := func(kind string, der []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	for _, s := range signers(t) {
		der, err := x509.MarshalPKCS8PrivateKey(s.key)
		texts := [][]byte{block("PRIVATE KEY", der, err)}
		switch k := s.key.(type) {
		case *rsa.PrivateKey:
			texts = append(texts, block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(k), nil))
		case *ecdsa.PrivateKey:
			der, err := x509.MarshalECPrivateKey(k)
			texts = append(texts, append(block("EC PARAMETERS", []byte{1}, nil), block("EC PRIVATE KEY", der, err)...))
		}
		for _, text := range texts {
			got, err := oidc.ParseKey(text)
			if err != nil || !reflect.DeepEqual(got.Public(), s.key.Public()) {
				t.Errorf("%T: %v", s.key, err)
			}
		}
	}
	x25519 := "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VuBCIEIHcHbQpzGKV9PBbBclGyZkXfTC+H68CZKrF3+6UduSwq\n-----END PRIVATE KEY-----\n"
	for want, text := range map[string]string{
		"no private key":  "hello",
		"is encrypted":    string(block("ENCRYPTED PRIVATE KEY", []byte("hunter2"), nil)),
		"encrypted":       "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\naHVudGVyMg==\n-----END RSA PRIVATE KEY-----\n",
		"cannot be read":  string(block("PRIVATE KEY", []byte("hunter2"), nil)),
		"private key in ": string(block("CERTIFICATE", []byte("hunter2"), nil)),
		"private key":     x25519,
	} {
		_, err := oidc.ParseKey([]byte(text))
		wantError(t, err, want)
	}
}
