package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
)

// An issuing is an issuer in a network in memory.
type issuing struct {
	*authtest.Server
	network oidc.Network
}

func newIssuing(t testing.TB, opts authtest.Options) *issuing {
	t.Helper()
	net := memnet.Listen()
	opts.Listener = net
	return &issuing{authtest.New(t, &opts), oidc.Network{Dial: net.DialContext, Proxy: http.ProxyURL(nil)}}
}

// jwt returns a verifier of the issuer's tokens, which ends with the test.
func (s *issuing) jwt(t testing.TB, o JWTOptions) *JWT {
	t.Helper()
	o.Issuer, o.Keys.Network = s.Issuer, s.network
	j, err := NewJWT(&o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.Close)
	return j
}

type members = map[string]any

// part returns a part of a token.
func part(t testing.TB, v any) string {
	t.Helper()
	text, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		text = string(b)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

// resign returns a token of these parts, correctly signed, whatever is in them.
func resign(t testing.TB, k *authtest.Key, header, claims any) string {
	t.Helper()
	signed := part(t, header) + "." + part(t, claims)
	signature, err := jwt.GetSigningMethod(k.Algorithm).Sign(signed, k.Private)
	if err != nil {
		t.Fatal(err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// kindOf says in a word what a verifier says of a token.
func kindOf(err error) string {
	_, refused := errors.AsType[*oidc.InvalidError](err)
	_, unavailable := errors.AsType[*oidc.UnavailableError](err)
	switch {
	case err == nil:
		return "accepted"
	case errors.Is(err, errForeign):
		return "foreign"
	case refused:
		return "invalid"
	case unavailable:
		return "unavailable"
	}
	return "other: " + err.Error()
}

func TestS27_HostileTokensAreRefused(t *testing.T) {
	s := newIssuing(t, authtest.Options{})
	j := s.jwt(t, JWTOptions{})
	key, other := s.Key(), authtest.NewKey("ES256")
	header := members{"alg": "ES256", "kid": key.ID, "typ": "at+jwt"}
	claims := s.Claims(nil)
	with := func(to members, name string, v any) members {
		to = maps.Clone(to)
		if to[name] = v; v == nil {
			delete(to, name)
		}
		return to
	}
	claim := func(name string, v any) string { return resign(t, key, header, with(claims, name, v)) }
	head := func(name string, v any) string { return resign(t, key, with(header, name, v), claims) }
	good := resign(t, key, header, claims)
	parts := strings.Split(good, ".")
	hs256 := func(secret []byte) string {
		signed := part(t, with(header, "alg", "HS256")) + "." + part(t, claims)
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(signed))
		return signed + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	}
	der, err := x509.MarshalPKIXPublicKey(key.Private.Public())
	if err != nil {
		t.Fatal(err)
	}
	signature, _ := base64.RawURLEncoding.DecodeString(parts[2])
	withSignature := func(b []byte) string {
		return parts[0] + "." + parts[1] + "." + base64.RawURLEncoding.EncodeToString(b)
	}
	text, _ := json.Marshal(claims)
	twice := func(more string) string {
		return resign(t, key, header, strings.TrimSuffix(string(text), "}")+","+more+"}")
	}
	now := time.Now()
	zeros := make([]byte, 32)
	otherwise := *key
	otherwise.ID, otherwise.Private = key.ID, other.Private

	table := map[string]struct{ want, token string }{
		"nothing":              {"foreign", ""},
		"garbage":              {"foreign", "garbage"},
		"dots":                 {"foreign", ".."},
		"two parts":            {"foreign", parts[0] + "." + parts[1]},
		"four parts":           {"foreign", good + ".AA"},
		"five parts":           {"foreign", good + ".AA.AA"},
		"no signature":         {"invalid", parts[0] + "." + parts[1] + "."},
		"cut":                  {"invalid", withSignature(signature[:40])},
		"space before":         {"foreign", " " + good},
		"space after":          {"foreign", good + " "},
		"newline in it":        {"foreign", parts[0] + "\n." + parts[1] + "." + parts[2]},
		"newline at the end":   {"foreign", good + "\n"},
		"padded":               {"foreign", parts[0] + "." + parts[1] + "." + parts[2] + "=="},
		"standard base64":      {"foreign", parts[0] + "." + parts[1] + "." + strings.Repeat("+/", 43)},
		"too long":             {"foreign", claim("x", strings.Repeat("x", maxToken))},
		"non-canonical base64": {"foreign", nonCanonical(good)},
		"header a list":        {"foreign", resign(t, key, "[]", claims)},
		"header twice alg":     {"foreign", resign(t, key, `{"alg":"none","alg":"ES256","kid":"`+key.ID+`"}`, claims)},
		"claims a text":        {"foreign", resign(t, key, header, `"x"`)},
		"claims not UTF-8":     {"foreign", resign(t, key, header, "{\"iss\":\""+s.Issuer+"\",\"sub\":\"\xff\"}")},
		"claims too deep":      {"foreign", claim("x", json.RawMessage(strings.Repeat("[", 40)+strings.Repeat("]", 40)))},
		"two documents":        {"foreign", resign(t, key, header, string(text)+string(text))},
		"iss twice":            {"foreign", twice(`"iss":"` + s.Issuer + `"`)},
		"exp twice":            {"foreign", twice(`"exp":99999999999`)},
		"sub twice":            {"foreign", twice(`"sub":"admin"`)},
		"sub twice, escaped":   {"foreign", twice(`"s\u0075b":"admin"`)},
		"iss of another":       {"foreign", claim("iss", "https://evil.example.com")},
		"iss with a slash":     {"foreign", claim("iss", s.Issuer+"/")},
		"iss in upper case":    {"foreign", claim("iss", strings.ToUpper(s.Issuer))},
		"iss a list":           {"foreign", claim("iss", []string{s.Issuer})},
		"no iss":               {"foreign", claim("iss", nil)},
		"Iss":                  {"foreign", resign(t, key, header, with(with(claims, "iss", nil), "Iss", s.Issuer))},

		"alg missing":                 {"invalid", head("alg", nil)},
		"alg none":                    {"invalid", part(t, with(header, "alg", "none")) + "." + parts[1] + "."},
		"alg none, signed":            {"invalid", head("alg", "none")},
		"alg None":                    {"invalid", part(t, with(header, "alg", "None")) + "." + parts[1] + "."},
		"alg NONE":                    {"invalid", part(t, with(header, "alg", "NONE")) + "." + parts[1] + "."},
		"alg nOnE":                    {"invalid", part(t, with(header, "alg", "nOnE")) + "." + parts[1] + "."},
		"alg empty":                   {"invalid", head("alg", "")},
		"alg a number":                {"foreign", head("alg", 256)},
		"alg es256":                   {"invalid", head("alg", "es256")},
		"alg with a space":            {"invalid", head("alg", "ES256 ")},
		"alg of another kind of key":  {"invalid", head("alg", "RS256")},
		"alg of another curve":        {"invalid", head("alg", "ES384")},
		"HS256 with the key's DER":    {"invalid", hs256(der)},
		"HS256 with the key's PEM":    {"invalid", hs256(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))},
		"HS256 with nothing":          {"invalid", hs256(nil)},
		"another's signature":         {"invalid", otherwise.Sign(nil, claims)},
		"another's key":               {"invalid", other.Sign(nil, claims)},
		"another's key without a kid": {"invalid", other.Sign(members{"kid": nil}, claims)},
		"embedded jwk":                {"invalid", other.Sign(members{"jwk": other.JWK()}, claims)},
		"embedded jwk, our kid":       {"invalid", otherwise.Sign(members{"jwk": other.JWK()}, claims)},
		"jku":                         {"invalid", other.Sign(members{"jku": "https://evil.example.com/keys"}, claims)},
		"x5u":                         {"invalid", other.Sign(members{"x5u": "https://evil.example.com/x"}, claims)},
		"x5c":                         {"invalid", other.Sign(members{"x5c": []string{"MII="}}, claims)},
		"kid a path":                  {"invalid", head("kid", "../../../../dev/null")},
		"kid SQL":                     {"invalid", head("kid", "x' UNION SELECT 'AA'; --")},
		"kid a URL":                   {"invalid", head("kid", "http://169.254.169.254/")},
		"kid with a NUL":              {"invalid", head("kid", key.ID+"\x00")},
		"kid huge":                    {"invalid", head("kid", strings.Repeat("k", 4000))},
		"kid a list":                  {"foreign", head("kid", []string{key.ID})},
		"crit":                        {"invalid", head("crit", []string{"exp"})},
		"crit empty":                  {"invalid", head("crit", []string{})},
		"crit null":                   {"invalid", resign(t, key, `{"alg":"ES256","crit":null}`, claims)},
		"b64":                         {"invalid", head("b64", false)},
		"typ of an ID token":          {"invalid", head("typ", "id+jwt")},
		"typ dpop":                    {"invalid", head("typ", "dpop+jwt")},
		"typ logout":                  {"invalid", head("typ", "logout+jwt")},
		"typ a number":                {"foreign", head("typ", 1)},
		"r and s zero":                {"invalid", withSignature(make([]byte, 64))},
		"r zero":                      {"invalid", withSignature(append(zeros, signature[32:]...))},
		"s zero":                      {"invalid", withSignature(append(signature[:32:32], make([]byte, 32)...))},
		"signature too long":          {"invalid", withSignature(append(signature[:64:64], 0))},
		"signature in DER":            {"invalid", withSignature(append([]byte{0x30, 68}, make([]byte, 68)...))},
		"signature of other parts":    {"invalid", part(t, header) + "." + part(t, with(claims, "sub", "admin")) + "." + parts[2]},

		"expired":                 {"invalid", claim("exp", now.Add(-2*time.Minute).Unix())},
		"no exp":                  {"invalid", claim("exp", nil)},
		"exp null":                {"invalid", twiceless(t, key, header, claims, "exp", "null")},
		"exp zero":                {"invalid", claim("exp", 0)},
		"exp negative":            {"invalid", claim("exp", -1)},
		"exp a text":              {"invalid", claim("exp", fmt.Sprint(now.Add(time.Hour).Unix()))},
		"exp huge":                {"invalid", twiceless(t, key, header, claims, "exp", "1e400")},
		"exp beyond all years":    {"invalid", twiceless(t, key, header, claims, "exp", "9223372036854775807")},
		"exp with many digits":    {"invalid", twiceless(t, key, header, claims, "exp", strings.Repeat("9", 2000))},
		"exp in the year 10000":   {"invalid", claim("exp", int64(253402300799+1))},
		"exp a list":              {"invalid", claim("exp", []int64{now.Add(time.Hour).Unix()})},
		"nbf in the future":       {"invalid", claim("nbf", now.Add(2*time.Minute).Unix())},
		"nbf a text":              {"invalid", claim("nbf", "0")},
		"iat in the future":       {"invalid", claim("iat", now.Add(2*time.Minute).Unix())},
		"iat negative":            {"invalid", claim("iat", -1)},
		"iat after exp":           {"invalid", resign(t, key, header, with(with(claims, "exp", now.Add(-50*time.Second).Unix()), "iat", now.Unix()))},
		"no aud":                  {"invalid", claim("aud", nil)},
		"aud empty":               {"invalid", claim("aud", []string{})},
		"aud an object":           {"invalid", claim("aud", members{"a": 1})},
		"aud of many":             {"invalid", claim("aud", make([]string, oidc.MaxValues+1))},
		"no sub":                  {"invalid", claim("sub", nil)},
		"sub empty":               {"invalid", claim("sub", "")},
		"sub a number":            {"invalid", claim("sub", 7)},
		"sub with a newline":      {"invalid", claim("sub", "a\nb")},
		"sub with a NUL":          {"invalid", claim("sub", "a\x00")},
		"sub huge":                {"invalid", claim("sub", strings.Repeat("a", oidc.MaxValue+1))},
		"scope an object":         {"invalid", claim("scope", members{})},
		"groups of many":          {"invalid", claim("groups", make([]int, oidc.MaxValues+1))},
		"groups of objects":       {"invalid", claim("groups", []any{members{}})},
		"bound by DPoP":           {"invalid", claim("cnf", members{"jkt": "x"})},
		"bound by something else": {"invalid", claim("cnf", members{"kid": "x"})},
		"bound twice":             {"invalid", claim("cnf", members{"x5t#S256": base64.RawURLEncoding.EncodeToString(zeros), "jwk": "x"})},
		"bound to nothing":        {"invalid", claim("cnf", members{})},
		"bound to half":           {"invalid", claim("cnf", members{"x5t#S256": "AA"})},
		"cnf a text":              {"invalid", claim("cnf", "x")},
		"ID token by its claims":  {"invalid", claim("at_hash", "x")},
		"ID token of Keycloak":    {"invalid", claim("typ", "ID")},
		"refresh token":           {"invalid", claim("typ", "Refresh")},
		"ID token of Cognito":     {"invalid", claim("token_use", "id")},
		"sign-out":                {"invalid", claim("events", members{})},
	}
	for name, row := range table {
		t.Run(name, func(t *testing.T) {
			if id, err := j.verify(t.Context(), row.token); kindOf(err) != row.want || id != nil {
				t.Errorf("verify says %s (%v), want %s", kindOf(err), err, row.want)
			}
		})
	}
	if _, err := j.verify(t.Context(), good); err != nil {
		t.Errorf("the token that all of them were made of is refused: %v", err)
	}
	if _, err := j.verify(t.Context(), table["bound by DPoP"].token); err == nil || !strings.Contains(err.Error(), "DPoP") {
		t.Errorf("who sends a token that is bound by DPoP is told %v", err)
	}
	if n := s.Count("keys"); n != 1 {
		t.Errorf("the keys were fetched %d times, want once: nothing here took ten seconds", n)
	}
}

// nonCanonical returns a token whose signature is spelled with bits that do not count.
func nonCanonical(token string) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(letters, token[len(token)-1])
	return token[:len(token)-1] + letters[last|1:last|1+1]
}

// twiceless returns a token with a claim as JSON text, which json.Marshal could not write.
func twiceless(t testing.TB, k *authtest.Key, header, claims members, name, value string) string {
	t.Helper()
	claims = maps.Clone(claims)
	delete(claims, name)
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return resign(t, k, header, strings.TrimSuffix(string(text), "}")+`,"`+name+`":`+value+"}")
}

func TestTokensOfAllAlgorithmsAreAccepted(t *testing.T) {
	for _, alg := range []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"} {
		t.Run(alg, func(t *testing.T) {
			t.Parallel()
			s := newIssuing(t, authtest.Options{Algorithm: alg})
			if _, err := s.jwt(t, JWTOptions{}).verify(t.Context(), s.Mint(nil)); err != nil {
				t.Errorf("verify: %v", err)
			}
			if _, err := s.jwt(t, JWTOptions{Algorithms: []string{"Ed25519"}}).verify(t.Context(), s.Mint(nil)); kindOf(err) != "invalid" {
				t.Errorf("one that is not configured: %v, want a refusal", err)
			}
		})
	}
}

func TestHarmlessDifferencesAreAccepted(t *testing.T) {
	s := newIssuing(t, authtest.Options{OpenID: true})
	j := s.jwt(t, JWTOptions{})
	now := time.Now()
	for name, token := range map[string]string{
		"typ JWT":                 s.Key().Sign(members{"typ": "JWT"}, s.Claims(nil)),
		"typ absent":              s.Key().Sign(members{"typ": nil}, s.Claims(nil)),
		"typ in full":             s.Key().Sign(members{"typ": "application/at+JWT"}, s.Claims(nil)),
		"kid absent":              s.Key().Sign(members{"kid": nil}, s.Claims(nil)),
		"jku that is not used":    s.Key().Sign(members{"jku": "https://evil.example.com"}, s.Claims(nil)),
		"aud a list":              s.Mint(members{"aud": []string{"a", "b"}}),
		"exp within the leeway":   s.Mint(members{"exp": now.Add(-30 * time.Second).Unix(), "iat": nil}),
		"nbf within the leeway":   s.Mint(members{"nbf": now.Add(30 * time.Second).Unix()}),
		"exp with a fraction":     s.Mint(members{"exp": float64(now.Add(time.Hour).UnixMilli()) / 1000}),
		"Keycloak's typ":          s.Mint(members{"typ": "Bearer"}),
		"sub of another alphabet": s.Mint(members{"sub": "Åsa Öberg"}),
	} {
		if _, err := j.verify(t.Context(), token); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIdentityIsWhatTheClaimsSay(t *testing.T) {
	s := newIssuing(t, authtest.Options{})
	sum := sha256.Sum256([]byte("certificate"))
	exp := time.Now().Add(time.Hour).Truncate(time.Second)
	token := s.Mint(members{
		"sub": "ada", "aud": []string{"https://gw.example.com", "other"}, "exp": exp.Unix(),
		"scope": "read  write", "scp": []string{"admin"}, "azp": "app", "level": 7, "staff": true,
		"email": "ada@example.com", "email_verified": false, "ignored": "x",
		"https://example.com/team": []string{"red"},
		"realm_access":             members{"roles": []string{"one", "two"}}, "roles": "three",
		"cnf": members{"x5t#S256": base64.RawURLEncoding.EncodeToString(sum[:])},
	})
	j := s.jwt(t, JWTOptions{ClaimOptions: ClaimOptions{
		Groups: []string{"realm_access.roles", "roles", "absent"},
		Claims: []string{"level", "staff", "https://example.com/team", "groups", "absent.too"}, Leeway: -1,
	}})
	got, err := j.verify(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	want := &identity{
		principal: "user:ada@" + s.Issuer, proof: "jwt", scopes: []string{"read", "write", "admin"},
		audience: []string{"https://gw.example.com", "other"}, thumbprint: hex.EncodeToString(sum[:]), expires: exp,
		claims: map[string][]string{
			"groups": {"one", "two", "three"}, "sub": {"ada"}, "client_id": {"client"}, "azp": {"app"}, "level": {"7"},
			"staff": {"true"}, "https://example.com/team": {"red"},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("identity is\n%+v, want\n%+v", got, want)
	}
}

func TestEmailCountsOnlyIfVerified(t *testing.T) {
	s := newIssuing(t, authtest.Options{})
	j := s.jwt(t, JWTOptions{ClaimOptions: ClaimOptions{Principal: "email"}})
	for _, verified := range []any{nil, false, "true", 1} {
		_, err := j.verify(t.Context(), s.Mint(members{"email": "a@example.com", "email_verified": verified}))
		if kindOf(err) != "invalid" {
			t.Errorf("email_verified %v: %v, want a refusal", verified, err)
		}
	}
	id, err := j.verify(t.Context(), s.Mint(members{"email": "a@example.com", "email_verified": true}))
	if err != nil || id.principal != "user:a@example.com@"+s.Issuer || !reflect.DeepEqual(id.claims["email"], []string{"a@example.com"}) {
		t.Errorf("identity is %+v, %v", id, err)
	}
}

func TestTokensWithoutAnAudienceAreForUsOnlyIfConfigured(t *testing.T) {
	s := newIssuing(t, authtest.Options{})
	j := s.jwt(t, JWTOptions{ClaimOptions: ClaimOptions{NoAudience: true}})
	id, err := j.verify(t.Context(), s.Mint(members{"aud": nil}))
	if err != nil || id.audience != nil {
		t.Errorf("a token without aud: %+v, %v", id, err)
	}
	id, err = j.verify(t.Context(), s.Mint(members{"aud": "other"}))
	if err != nil || len(id.audience) != 1 {
		t.Errorf("a token with aud: %+v, %v, want that it is still looked at", id, err)
	}
}

// caller asks a policy about a request with a token, and returns the status.
func caller(t *testing.T, p *Policy, token string, cert *x509.Certificate) int {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "https://gw.example.com/mcp", http.NoBody)
	r.Header.Set("Authorization", "Bearer "+token)
	r.TLS = &tls.ConnectionState{}
	if cert != nil {
		r.TLS.PeerCertificates = []*x509.Certificate{cert}
	}
	_, err := p.Caller(r)
	if err == nil {
		return http.StatusOK
	}
	refusal, ok := errors.AsType[*httpserver.Refusal](err)
	if !ok {
		t.Fatalf("Caller: %v, want a refusal", err)
	}
	if refusal.Status == http.StatusUnauthorized && !strings.HasPrefix(refusal.Challenge, "Bearer ") {
		t.Errorf("the challenge is %q", refusal.Challenge)
	}
	return refusal.Status
}

func TestS27_TokenForASiblingOrForAnotherCertificateIsRefused(t *testing.T) {
	s := newIssuing(t, authtest.Options{})
	const us = "https://gw.example.com"
	p := New(&Options{Verifiers: []Verifier{s.jwt(t, JWTOptions{})}, URL: us}, often, nil)
	cert, stranger := &x509.Certificate{Raw: []byte("ours")}, &x509.Certificate{Raw: []byte("another")}
	sum := sha256.Sum256(cert.Raw)
	bound := s.Mint(members{"aud": us, "cnf": members{"x5t#S256": base64.RawURLEncoding.EncodeToString(sum[:])}})
	for name, row := range map[string]struct {
		token string
		cert  *x509.Certificate
		want  int
	}{
		"for us":                       {s.Mint(members{"aud": us}), nil, 200},
		"for us and others":            {s.Mint(members{"aud": []string{"x", us + "/mcp"}}), nil, 200},
		"for a sibling":                {s.Mint(members{"aud": "https://gw2.example.com"}), nil, 401},
		"for one that begins as we do": {s.Mint(members{"aud": us + ".evil.example.com"}), nil, 401},
		"for another path":             {s.Mint(members{"aud": us + "/servers/x"}), nil, 401},
		"for a client":                 {s.Mint(members{"aud": "client"}), nil, 401},
		"bound, with the certificate":  {bound, cert, 200},
		"bound, with another":          {bound, stranger, 401},
		"bound, with none":             {bound, nil, 401},
		"garbage":                      {"garbage", nil, 401},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // the second time it is remembered
				if got := caller(t, p, row.token, row.cert); got != row.want {
					t.Errorf("status %d, want %d", got, row.want)
				}
			}
		})
	}
}

func TestEachIssuerHasItsOwnUsers(t *testing.T) {
	a := newIssuing(t, authtest.Options{})
	b, stop := authtest.Start(nil)
	defer stop()
	j, err := NewJWT(&JWTOptions{ClaimOptions: ClaimOptions{Issuer: b.Issuer}})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	p := New(&Options{Verifiers: []Verifier{a.jwt(t, JWTOptions{}), j}}, often, nil)
	one, err := p.verify(t.Context(), a.Mint(nil))
	if err != nil {
		t.Fatal(err)
	}
	two, err := p.verify(t.Context(), b.Mint(nil))
	if err != nil {
		t.Fatal(err)
	}
	if one.principal == two.principal {
		t.Errorf("users of two issuers are both %s", one.principal)
	}
	// b signs what a would have to.
	if _, err := p.verify(t.Context(), b.Mint(members{"iss": a.Issuer})); kindOf(err) != "invalid" {
		t.Errorf("a token that another issuer has signed: %v, want a refusal", err)
	}
}

func TestOptionsThatAreWrongAreErrors(t *testing.T) {
	for name, o := range map[string]JWTOptions{
		"no issuer":            {},
		"plain http":           {ClaimOptions: ClaimOptions{Issuer: "http://example.com"}},
		"a query":              {ClaimOptions: ClaimOptions{Issuer: "https://example.com?x"}},
		"an @":                 {ClaimOptions: ClaimOptions{Issuer: "https://example.com/a@b"}},
		"alg none":             {ClaimOptions: ClaimOptions{Issuer: "https://example.com"}, Algorithms: []string{"none"}},
		"HMAC":                 {ClaimOptions: ClaimOptions{Issuer: "https://example.com"}, Algorithms: []string{"HS256"}},
		"keys by plain http":   {ClaimOptions: ClaimOptions{Issuer: "https://example.com"}, Keys: oidc.KeySetOptions{URL: "http://example.com/keys"}},
		"keys from two places": {ClaimOptions: ClaimOptions{Issuer: "https://example.com"}, Keys: oidc.KeySetOptions{URL: "https://example.com/keys", File: "x"}},
		"keys from nowhere":    {ClaimOptions: ClaimOptions{Issuer: "https://example.com"}, Keys: oidc.KeySetOptions{File: "testdata/absent"}},
		"keys in a directory":  {ClaimOptions: ClaimOptions{Issuer: "https://example.com"}, Keys: oidc.KeySetOptions{File: "."}},
	} {
		if _, err := NewJWT(&o); err == nil || !strings.HasPrefix(err.Error(), "auth: ") {
			t.Errorf("%s: %v, want an error of this package", name, err)
		}
	}
}

func TestPrincipalsOfHTTPSIssuersHaveNoScheme(t *testing.T) {
	r, err := (&ClaimOptions{Issuer: "https://login.example.com/realm"}).reader("jwt")
	if err != nil {
		t.Fatal(err)
	}
	id, err := r.identity(oidc.Claims{"sub": "ada", "aud": "x", "exp": json.Number("99999999999")}, time.Now())
	if err != nil || id.principal != "user:ada@login.example.com/realm" {
		t.Errorf("identity is %+v, %v", id, err)
	}
}

func BenchmarkToken(b *testing.B) {
	for _, alg := range []string{"RS256", "ES256", "EdDSA"} {
		s := newIssuing(b, authtest.Options{Algorithm: alg})
		p := New(&Options{Verifiers: []Verifier{s.jwt(b, JWTOptions{})}}, often, nil)
		token := s.Mint(members{"groups": []string{"a", "b"}, "scope": "read write"})
		b.Run("verified/"+alg, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.verify(context.Background(), token); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("remembered/"+alg, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.token(request(""), token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
