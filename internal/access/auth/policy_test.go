package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
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

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
	"github.com/dragoman-mcp/dragoman/internal/util/limit"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
)

// A known is a verifier of tokens that a test lists.
type known struct {
	mu    sync.Mutex
	list  map[string]*identity
	err   error
	asked atomic.Int64
}

func (k *known) verify(_ context.Context, token string) (*identity, error) {
	k.asked.Add(1)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return nil, k.err
	}
	id, ok := k.list[token]
	if !ok {
		return nil, errForeign
	}
	return id, nil
}

func (k *known) set(token string, id *identity, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.list == nil {
		k.list = make(map[string]*identity)
	}
	k.err = err
	if id == nil {
		delete(k.list, token)
	} else {
		k.list[token] = id
	}
}

// often is as often as nobody fails.
var often = limit.Rate{Count: 1 << 20, Per: time.Second}

func request(token string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://gw.example.com/servers/a/mcp", http.NoBody)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

// status returns how a request with a token is answered, and who makes it.
func status(p *Policy, r *http.Request) (int, *dragoman.Caller) {
	c, err := p.Caller(r)
	if refusal, ok := errors.AsType[*httpserver.Refusal](err); ok {
		return refusal.Status, nil
	}
	return http.StatusOK, c
}

func TestStreamsEndWhenTheirTokenExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &known{}
		k.set("t", &identity{principal: "user:a", expires: time.Now().Add(time.Minute)}, nil)
		p := New(&Options{Verifiers: []Verifier{k}}, often, nil)
		_, c := status(p, request("t"))
		var ended time.Time
		began := time.Now()
		c.OnEnd(func() { ended = time.Now() })
		stop := c.OnEnd(func() { t.Error("told after stop") })
		stop()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if took := ended.Sub(began); took != time.Minute {
			t.Errorf("told after %v", took)
		}
		if got, _ := status(p, request("t")); got != http.StatusUnauthorized {
			t.Errorf("afterwards: %d", got)
		}
		late := make(chan struct{})
		c.OnEnd(func() { close(late) })
		<-late
	})
}

func TestStreamsEndSoonAfterTheirTokenIsRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &known{}
		id := &identity{principal: "user:a"}
		k.set("t", id, nil)
		p := New(&Options{Verifiers: []Verifier{k}}, often, nil)
		_, c := status(p, request("t"))
		var ended atomic.Bool
		stop := c.OnEnd(func() { ended.Store(true) })
		time.Sleep(10 * time.Minute)
		k.set("t", nil, &oidc.UnavailableError{Err: errors.New("away")})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if ended.Load() {
			t.Error("it ended while that could not be found out")
		}
		k.set("t", nil, nil)
		time.Sleep(recheck + time.Second)
		synctest.Wait()
		if !ended.Load() {
			t.Error("it continues")
		}
		stop()
	})
}

func TestNothingIsAskedWhileNobodyWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &known{}
		k.set("t", &identity{principal: "user:a"}, nil)
		p := New(&Options{Verifiers: []Verifier{k}}, often, nil)
		_, c := status(p, request("t"))
		for range 100 {
			status(p, request("t"))
		}
		c.OnEnd(func() {})()
		time.Sleep(time.Hour)
		if n := k.asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

func TestWhoeverIsNotLetInByANewPolicyIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &known{}
		k.set("t", &identity{principal: "user:a"}, nil)
		k.set("u", &identity{principal: "user:b"}, nil)
		p := New(&Options{Verifiers: []Verifier{k}}, often, nil)
		ended := map[string]bool{}
		for _, token := range []string{"t", "u"} {
			_, c := status(p, request(token))
			defer c.OnEnd(func() { ended[token] = true })()
		}
		other := &known{}
		other.set("u", &identity{principal: "user:b"}, nil)
		p.Set(&Options{Verifiers: []Verifier{other}})
		synctest.Wait()
		if !ended["t"] || ended["u"] {
			t.Errorf("ended: %v", ended)
		}
		if got, _ := status(p, request("t")); got != http.StatusUnauthorized {
			t.Errorf("the old one: %d", got)
		}
	})
}

func TestTokenThatSaysSomethingElseEndsItsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &known{}
		k.set("t", &identity{principal: "user:a", scopes: []string{"x", "y"}}, nil)
		p := New(&Options{Verifiers: []Verifier{k}}, often, nil)
		_, before := status(p, request("t"))
		var ended atomic.Bool
		before.OnEnd(func() { ended.Store(true) })
		k.set("t", &identity{principal: "user:a", scopes: []string{"x"}}, nil)
		time.Sleep(recheck + time.Second)
		_, after := status(p, request("t"))
		synctest.Wait()
		if !ended.Load() || len(after.Scopes) != 1 || after.View() == before.View() || after.Identity() != before.Identity() {
			t.Errorf("ended %v, scopes %v, views %q and %q", ended.Load(), after.Scopes, before.View(), after.View())
		}
	})
}

func TestExpiryThatIsPutOffEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &known{}
		p := New(&Options{Verifiers: []Verifier{k}}, often, nil)
		var ended atomic.Bool
		stop := func() {}
		for i := range 20 {
			k.set("t", &identity{principal: "user:a", expires: time.Now().Add(time.Minute)}, nil)
			_, c := status(p, request("t"))
			if i == 0 {
				stop = c.OnEnd(func() { ended.Store(true) })
			}
			time.Sleep(20 * time.Second)
		}
		synctest.Wait()
		if ended.Load() {
			t.Error("the stream has ended")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if !ended.Load() {
			t.Error("the stream continues when nothing is put off any more")
		}
		stop()
	})
}

func TestTokenAudienceMustNameTheGatewayOrTheRequestedResource(t *testing.T) {
	const url = "http://gw.example.com"
	for _, test := range []struct {
		url, audience string
		ok            bool
	}{
		{url, "http://gw.example.com", true},
		{url, "http://gw.example.com/", true},
		{url, "http://gw.example.com/servers/a/mcp", true},
		{url, "http://gw.example.com/servers/a/mcp/", true},
		{url, "http://gw.example.com/servers/b/mcp", false},
		{url, "http://gw.example.com/servers/a", false},
		{url, "http://gw.example.com.evil.example", false},
		{url, "http://gw.example.co", false},
		{url, "https://gw.example.com", false},
		{url, "http://other.example.com", false},
		{url, "", false},
		{url, "api://gateway", true},
		{url, "api://gateway2", false},
		{"http://other.example.com", "http://gw.example.com", false},
		// The Host of a request proves nothing: without a URL it is not an audience.
		{"", "http://gw.example.com", false},
		{"", "http://gw.example.com/servers/a/mcp", false},
		{"", "", false},
		{"", "/servers/a/mcp", false},
		{"", "api://gateway", true},
	} {
		k := &known{}
		k.set("t", &identity{principal: "user:a", audience: []string{test.audience}}, nil)
		p := New(&Options{Verifiers: []Verifier{k}, URL: test.url, Audiences: []string{"api://gateway"}}, often, nil)
		if got, _ := status(p, request("t")); (got == http.StatusOK) != test.ok {
			t.Errorf("URL %q, audience %q: %d", test.url, test.audience, got)
		}
	}
	k := &known{}
	k.set("t", &identity{principal: "user:a", audience: []string{}}, nil)
	if got, _ := status(New(&Options{Verifiers: []Verifier{k}, URL: url}, often, nil), request("t")); got != http.StatusUnauthorized {
		t.Errorf("no audience: %d", got)
	}
}

func TestFailuresAreToldApart(t *testing.T) {
	k := &known{}
	k.set("poor", &identity{principal: "user:a", scopes: []string{"x"}}, nil)
	o := &Options{Verifiers: []Verifier{k}, Scopes: []string{"mcp", "x"}, Issuers: []string{"https://login.example.com"}, URL: "https://gw.example.com/"}
	p := New(o, often, nil)
	const metadata = `resource_metadata="https://gw.example.com/.well-known/oauth-protected-resource/servers/a/mcp"`
	for _, test := range []struct {
		name   string
		change func(*http.Request)
		err    error
		status int
		want   string
	}{
		{"nothing", func(*http.Request) {}, nil, 401, `Bearer scope="mcp x", ` + metadata},
		{"unknown", func(r *http.Request) { r.Header.Set("Authorization", "Bearer zzz") }, nil, 401, `error="invalid_token"`},
		{"twice", func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer poor", "Bearer poor"} }, nil, 401, `error="invalid_token"`},
		{"scopes", func(r *http.Request) { r.Header.Set("Authorization", "bearer poor") }, nil, 403, `error="insufficient_scope", error_description="the token lacks a scope; this needs mcp x", scope="mcp x", ` + metadata},
		{"away", func(r *http.Request) { r.Header.Set("Authorization", "Bearer new") }, &oidc.UnavailableError{Err: errors.New("away")}, 503, ""},
	} {
		k.set("", nil, test.err)
		r := request("")
		test.change(r)
		_, err := p.Caller(r)
		refusal, ok := errors.AsType[*httpserver.Refusal](err)
		if !ok || refusal.Status != test.status || !strings.Contains(refusal.Challenge, test.want) {
			t.Errorf("%s: %+v", test.name, refusal)
		}
	}
}

func TestMetadataIsTheSameForEveryPath(t *testing.T) {
	p := New(&Options{Issuers: []string{"https://login.example.com"}, Scopes: []string{"mcp"}, URL: "https://gw.example.com"}, often, nil)
	for path, want := range map[string]string{
		"":               "https://gw.example.com",
		"/mcp":           "https://gw.example.com/mcp",
		"/servers/x/mcp": "https://gw.example.com/servers/x/mcp",
	} {
		w := httptest.NewRecorder()
		p.Metadata(w, httptest.NewRequest(http.MethodGet, MetadataPath+path, http.NoBody))
		want = fmt.Sprintf(`{"resource":%q,"authorization_servers":["https://login.example.com"],"scopes_supported":["mcp"],"bearer_methods_supported":["header"]}`, want)
		if w.Code != http.StatusOK || w.Body.String() != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for _, path := range []string{"x", "-y/mcp"} {
		w := httptest.NewRecorder()
		p.Metadata(w, httptest.NewRequest(http.MethodGet, MetadataPath+path, http.NoBody))
		if w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

func TestCertificatesProveWhoSendsThem(t *testing.T) {
	leaf := &x509.Certificate{Raw: []byte("der"), Subject: pkix.Name{CommonName: "alice", OrganizationalUnit: []string{"dev"}}, NotAfter: time.Now().Add(time.Hour)}
	r := request("")
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
	p := New(&Options{Certificates: true}, often, nil)
	if got, _ := status(p, r); got != http.StatusUnauthorized {
		t.Errorf("one that was not verified: %d", got)
	}
	r.TLS.VerifiedChains = [][]*x509.Certificate{{leaf}}
	got, c := status(p, r)
	if got != http.StatusOK || c.Principal != "cert:alice" || c.Claims["groups"][0] != "dev" {
		t.Errorf("%d, %+v", got, c)
	}
	if got, _ := status(New(&Options{}, often, nil), r); got != http.StatusUnauthorized {
		t.Errorf("where they do not count: %d", got)
	}
	// A token that is bound to a certificate is of use with that alone.
	k := &known{}
	k.set("t", &identity{principal: "user:a", thumbprint: thumbprint(r)}, nil)
	p = New(&Options{Verifiers: []Verifier{k}}, often, nil)
	bound := request("t")
	if got, _ := status(p, bound); got != http.StatusUnauthorized {
		t.Errorf("without the certificate: %d", got)
	}
	bound = request("t")
	bound.TLS = r.TLS
	if got, _ := status(p, bound); got != http.StatusOK {
		t.Errorf("with the certificate: %d", got)
	}
	bound = request("t")
	bound.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Raw: []byte("other")}}}
	if got, _ := status(p, bound); got != http.StatusUnauthorized {
		t.Errorf("with another certificate: %d", got)
	}
}

func TestExpiredCertificateIsRefusedOnAnOpenConnection(t *testing.T) {
	for _, expired := range []string{"leaf", "intermediate"} {
		t.Run(expired, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := time.Now().Add(time.Hour)
				leaf := &x509.Certificate{Subject: pkix.Name{CommonName: "alice"}, NotAfter: end.Add(time.Hour)}
				ca := &x509.Certificate{Subject: pkix.Name{CommonName: "ca"}, NotAfter: end.Add(time.Hour)}
				if expired == "leaf" {
					leaf.NotAfter = end
				} else {
					ca.NotAfter = end
				}
				conn := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf, ca}}}
				p := New(&Options{Certificates: true}, often, nil)
				r := request("")
				r.TLS = conn
				got, c := status(p, r)
				if got != http.StatusOK {
					t.Fatalf("before its end: %d", got)
				}
				var ended atomic.Bool
				c.OnEnd(func() { ended.Store(true) })
				time.Sleep(time.Hour)
				synctest.Wait()
				_, err := p.Caller(r)
				refusal, ok := errors.AsType[*httpserver.Refusal](err)
				if !ok || refusal.Status != http.StatusUnauthorized || !strings.Contains(refusal.Message, "certificate has expired") {
					t.Errorf("after its end: %v", err)
				}
				if !ended.Load() {
					t.Error("the stream was not ended")
				}
			})
		})
	}
}

func TestVerifiedTokensAreBounded(t *testing.T) {
	k := &known{}
	p := New(&Options{Verifiers: []Verifier{k}}, often, nil)
	for i := range maxProofs + 100 {
		token := fmt.Sprintf("t%d", i)
		k.set(token, &identity{principal: "user:" + token}, nil)
		if got, c := status(p, request(token)); got != http.StatusOK || c.Principal != "user:"+token {
			t.Fatalf("%s: %d %v", token, got, c)
		}
	}
	if n := len(p.proofs.list); n > maxProofs {
		t.Errorf("%d are kept", n)
	}
}

func TestTokensOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "tokens.json")
	secret, hash := NewSecret()
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	if err := AddToken(t.Context(), path, &Token{Name: "alice", Hash: hash, Scopes: []string{"x"}, Groups: []string{"dev"}, Expires: until}); err != nil {
		t.Fatal(err)
	}
	if err := AddToken(t.Context(), path, &Token{Name: "alice"}); err == nil || !strings.Contains(err.Error(), "revoke") {
		t.Errorf("a second one of the name: %v", err)
	}
	if err := AddToken(t.Context(), path, &Token{Name: "a b"}); err == nil {
		t.Error("a name with a blank is taken")
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if text, _ := os.ReadFile(path); strings.Contains(string(text), secret) {
		t.Error("the file has the token itself")
	}
	list, err := ReadTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	p := New(&Options{Verifiers: []Verifier{NewTokens(list)}}, often, nil)
	got, c := status(p, request(secret))
	if got != http.StatusOK || c.Principal != "token:alice" || c.Scopes[0] != "x" || c.Claims["groups"][0] != "dev" {
		t.Errorf("%d %+v", got, c)
	}
	if err := RemoveToken(t.Context(), path, "bob"); err == nil {
		t.Error("what is not there is revoked")
	}
	if err := RemoveToken(t.Context(), path, "alice"); err != nil {
		t.Fatal(err)
	}
	if list, err = ReadTokens(path); err != nil || len(list) != 0 {
		t.Errorf("%v %v", list, err)
	}
}

func TestManyProcessesChangeOneFileOfTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if err := AddToken(t.Context(), path, &Token{Name: fmt.Sprintf("t%d", i)}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if list, err := ReadTokens(path); err != nil || len(list) != 20 {
		t.Errorf("%d tokens, %v", len(list), err)
	}
}

func TestFilesThatAreNoTokensAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "no token in it",
		"{":                       "cannot be read",
		`{"tokens":[{"name":1}]}`: "cannot be read",
		`{"other":[]}`:            "cannot be read",
		`{"tokens":[{"name":"a","sha256":"00"}]}`:                                                                                        "no digest",
		`{"tokens":[{"name":"../a","sha256":"` + strings.Repeat("00", 32) + `"}]}`:                                                       "no name",
		`{"tokens":[{"name":"a","sha256":"` + strings.Repeat("00", 32) + `"},{"name":"a","sha256":"` + strings.Repeat("01", 32) + `"}]}`: "two tokens",
		"short":                             "can be guessed",
		"long enough but with blanks in it": "characters",
	} {
		path := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadTokens(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	path := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(path, []byte("# mine\n0123456789abcdef\n\nfedcba9876543210\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := ReadTokens(path)
	if err != nil || len(list) != 2 || list[1].Name != "2" {
		t.Errorf("%+v %v", list, err)
	}
	if err := AddToken(t.Context(), path, &Token{Name: "a"}); err == nil || !strings.Contains(err.Error(), "another file") {
		t.Errorf("a file of somebody else is changed: %v", err)
	}
}

func BenchmarkKnownToken(b *testing.B) {
	secret, hash := NewSecret()
	p := New(&Options{Verifiers: []Verifier{NewTokens([]Token{{Name: "a", Hash: hash}})}}, often, nil)
	r := request(secret)
	value := r.Header["Authorization"]
	for b.Loop() {
		r.Header["Authorization"] = value
		if _, err := p.Caller(r); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAddressThatFailsTooOftenHasToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &known{}
		k.set("good", &identity{principal: "user:a"}, nil)
		p := New(&Options{Verifiers: []Verifier{k}}, limit.Rate{}, nil)
		if got, _ := status(p, request("good")); got != http.StatusOK {
			t.Fatalf("who is let in: %d", got)
		}
		last := 0
		for i := range 20 {
			last, _ = status(p, request(fmt.Sprintf("bad%d", i)))
		}
		if asked := k.asked.Load(); last != http.StatusTooManyRequests || asked > 8 {
			t.Errorf("the last of twenty: %d, %d were verified", last, asked)
		}
		if got, _ := status(p, request("good")); got != http.StatusOK {
			t.Errorf("who has been let in, from the same address: %d", got)
		}
		other := request("bad")
		other.RemoteAddr = "192.0.2.7:1234"
		if got, _ := status(p, other); got != http.StatusUnauthorized {
			t.Errorf("another address: %d", got)
		}
		time.Sleep(2 * time.Second)
		if got, _ := status(p, request("bad")); got != http.StatusUnauthorized {
			t.Errorf("later: %d", got)
		}
	})
}
