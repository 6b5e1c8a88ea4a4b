package upstream

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// A guarded server is the built-in one, for those who send the right header.
type guarded struct {
	*httptest.Server

	mu     sync.Mutex
	accept string // the Authorization header; "" lets all in
	status int    // of a refusal
	ask    string // its challenge
	body   string // what it says, as JSON
}

func guard(t *testing.T, accept string, secured bool) *guarded {
	t.Helper()
	inner := builtin.New(nil)
	endpoint := &streamable.Server{Sessions: inner, Requests: inner.Requests()}
	g := &guarded{accept: accept, status: http.StatusUnauthorized}
	g.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		accept, status, ask, body := g.accept, g.status, g.ask, g.body
		g.mu.Unlock()
		if accept == "" || r.Header.Get("Authorization") == accept {
			endpoint.ServeHTTP(w, r)
			return
		}
		if ask != "" {
			w.Header().Set("WWW-Authenticate", ask)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	if secured {
		g.StartTLS()
	} else {
		g.Start()
	}
	t.Cleanup(func() {
		_ = endpoint.Close()
		inner.Close()
		g.Close()
	})
	return g
}

func (g *guarded) wants(accept string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.accept = accept
}

// manageURL manages one server with a URL.
func manageURL(t *testing.T, c *config.Server, opts *SignInOptions) *Upstream {
	t.Helper()
	m := New(&Options{SignIn: opts})
	t.Cleanup(func() { _ = m.Shutdown(context.Background()) })
	c.Name = "s"
	m.Apply([]*config.Server{c})
	return m.Upstream("s")
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestATokenIsRotatedWithoutARestart(t *testing.T) {
	g, name := guard(t, "Bearer token-one", false), writeFile(t, "token-one")
	up := manageURL(t, &config.Server{URL: g.URL, Auth: config.ServerAuth{TokenFile: name}}, nil)
	awaits(t, up, Ready)
	echo(t, up.Service().Requests())
	g.wants("Bearer token-two")
	if err := os.WriteFile(name, []byte("token-two"), 0o600); err != nil {
		t.Fatal(err)
	}
	echo(t, up.Service().Requests())
	if st := up.Status(); st.Restarts != 0 || st.State != Ready {
		t.Errorf("%+v", st)
	}
}

func TestAServerWithoutItsTokenIsAwayUntilItIsThere(t *testing.T) {
	g, name := guard(t, "Bearer token-one", false), filepath.Join(t.TempDir(), "token")
	up := manageURL(t, &config.Server{URL: g.URL, Auth: config.ServerAuth{TokenFile: name}}, nil)
	awaits(t, up, BackingOff)
	resp, err := call(t.Context(), up.Service().Requests(), "echo", `{"text":"x"}`)
	if code := outcome(resp, err); code != protocol.CodeUnavailable || !strings.Contains(resp.String(), "token file") {
		t.Errorf("%d %v %v", code, resp, err)
	}
	if st := up.Status(); !strings.Contains(st.LastError, name) {
		t.Errorf("the last error is %q", st.LastError)
	}
	if err := os.WriteFile(name, []byte("token-one"), 0o600); err != nil {
		t.Fatal(err)
	}
	awaits(t, up, Ready)
	echo(t, up.Service().Requests())
}

func TestWhoIsRefusedIsToldWhatAndWhatToDo(t *testing.T) {
	file := writeFile(t, "sekret-token")
	program := []string{"echo", "sekret-token"}
	for name, test := range map[string]struct {
		server config.Server
		status int
		ask    string
		signIn bool
		want   []string
	}{
		"a header":     {server: config.Server{Headers: map[string]string{"authorization": "Bearer sekret-token"}}, ask: "Bearer", signIn: true, want: []string{"refuses the Authorization header that is configured", "correct it"}},
		"a token file": {server: config.Server{Auth: config.ServerAuth{TokenFile: file}}, ask: "Bearer", signIn: true, want: []string{"refuses the token in " + file, "put one there"}},
		"a command":    {server: config.Server{Auth: config.ServerAuth{Command: program}}, ask: "Bearer", signIn: true, want: []string{"refuses what the command for tokens prints", "run it by hand"}},
		"another kind": {ask: `Basic realm="x"`, signIn: true, want: []string{"of the scheme Basic", "configure one"}},
		"no sign-in":   {server: config.Server{Auth: config.ServerAuth{SignIn: "none"}}, ask: "Bearer", signIn: true, want: []string{"signing in is off", "configure an Authorization header"}},
		"forbidden":    {server: config.Server{Auth: config.ServerAuth{TokenFile: file}}, status: http.StatusForbidden, signIn: true, want: []string{"does not allow this with the token in " + file, "ask its owner"}},
		"nobody":       {status: http.StatusForbidden, signIn: true, want: []string{"does not allow this", "ask its owner"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := guard(t, "nobody", false)
			g.ask, g.body = test.ask, `{"error":"it was sekret-token"}`
			if test.status != 0 {
				g.status = test.status
			}
			var opts *SignInOptions
			if test.signIn {
				store := oauth.NewMemory()
				opts = &SignInOptions{Store: func() *oauth.Store { return store }, Prompt: noPrompt}
			}
			test.server.URL = g.URL
			up := manageURL(t, &test.server, opts)
			awaits(t, up, BackingOff)
			resp, err := call(t.Context(), up.Service().Requests(), "echo", `{"text":"x"}`)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{up.Status().LastError, resp.RPCError().Message} {
				for _, want := range test.want {
					if !strings.Contains(text, want) {
						t.Errorf("%q does not say %q", text, want)
					}
				}
				if ours := len(test.server.Headers) > 0 || hasCredential(&test.server); ours && strings.Contains(text, "sekret") {
					t.Errorf("a secret is told: %s", text)
				}
			}
		})
	}
}

func TestARefusalOfARunningServerIsExplainedToTheCaller(t *testing.T) {
	g := guard(t, "Bearer sekret-token", false)
	up := manageURL(t, &config.Server{URL: g.URL, Headers: map[string]string{"Authorization": "Bearer sekret-token"}}, nil)
	awaits(t, up, Ready)
	g.wants("Bearer another")
	resp, err := call(t.Context(), up.Service().Requests(), "echo", `{"text":"x"}`)
	if err == nil {
		err = resp.RPCError()
	}
	if !strings.Contains(err.Error(), "refuses the Authorization header that is configured") {
		t.Errorf("the answer is %v", err)
	}
}

// A relay is a proxy that counts what goes through it.
type relay struct {
	*httptest.Server
	tunnels, requests atomic.Int32
}

func newRelay(t *testing.T) *relay {
	t.Helper()
	p := &relay{}
	base := &http.Transport{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			p.requests.Add(1)
			r.RequestURI = ""
			resp, err := base.RoundTrip(r)
			if err != nil {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			defer resp.Body.Close()
			for name, values := range resp.Header {
				w.Header()[name] = values
			}
			w.WriteHeader(resp.StatusCode)
			_, _ = io.Copy(flushing{w}, resp.Body)
			return
		}
		p.tunnels.Add(1)
		far, err := net.Dial("tcp", r.Host)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		near, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			_ = far.Close()
			return
		}
		_, _ = io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { // ends when either side does
			_, _ = io.Copy(far, near)
			_ = far.Close()
		}()
		_, _ = io.Copy(near, far)
		_ = near.Close()
	}))
	t.Cleanup(func() {
		p.Close()
		base.CloseIdleConnections()
	})
	return p
}

type flushing struct{ http.ResponseWriter }

func (f flushing) Write(b []byte) (int, error) {
	n, err := f.ResponseWriter.Write(b)
	_ = http.NewResponseController(f.ResponseWriter).Flush()
	return n, err
}

func TestAServerOfAPrivateAuthorityIsReachedThroughItsProxy(t *testing.T) {
	g, p := guard(t, "", true), newRelay(t)
	ca := writeFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.Certificate().Raw})))
	up := manageURL(t, &config.Server{URL: g.URL, TLS: config.ServerTLS{CA: ca}, Proxy: p.URL}, nil)
	awaits(t, up, Ready)
	echo(t, up.Service().Requests())
	if p.tunnels.Load() == 0 {
		t.Error("it was reached without the proxy")
	}
	up = manageURL(t, &config.Server{URL: g.URL, Proxy: "none"}, nil)
	awaits(t, up, BackingOff)
	if text := up.Status().LastError; !strings.Contains(text, "signed by an unknown authority") || !strings.Contains(text, "--ca-file") {
		t.Errorf("without its authority: %s", text)
	}
}

func TestAServerAndItsAuthorizationServerAreReachedThroughOneProxy(t *testing.T) {
	s, p := protect(t, config.ServerAuth{SignIn: "none"}, SignInOptions{}), newRelay(t)
	store := oauth.NewMemory()
	up := manageURL(t, &config.Server{URL: s.URL, Proxy: p.URL}, &SignInOptions{Store: func() *oauth.Store { return store }, Prompt: noPrompt})
	awaits(t, up, SignIn)
	eventually(t, "there is a page", func() bool { return up.Status().SignIn != "" })
	before := p.requests.Load() // the server, and those of the discovery
	if before < 3 {
		t.Errorf("%d requests went through the proxy", before)
	}
	visit(t, up.Status().SignIn)
	awaits(t, up, Ready)
	echo(t, up.Service().Requests())
	if s.Count("code") != 1 || p.requests.Load() <= before {
		t.Errorf("%d codes, %d requests through the proxy", s.Count("code"), p.requests.Load())
	}
}

func TestAuthorizationServersAreReachedWithTheSameCertificatesAndProxy(t *testing.T) {
	g := guard(t, "", true)
	ca := writeFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.Certificate().Raw})))
	conf, err := SignInConfig(&config.Server{URL: g.URL, TLS: config.ServerTLS{CA: ca}, Proxy: "http://proxy:3128"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Certificate().Verify(x509.VerifyOptions{Roots: conf.TLS.RootCAs, DNSName: "127.0.0.1"}); err != nil {
		t.Errorf("the authority is not trusted: %v", err)
	}
	if u, err := conf.Proxy(httptest.NewRequest(http.MethodGet, g.URL, nil)); err != nil || u == nil || u.Host != "proxy:3128" {
		t.Errorf("the proxy is %v (%v)", u, err)
	}
}

func TestAConfigurationWhoseFilesCannotBeUsedIsToldOf(t *testing.T) {
	for _, c := range []*config.Server{
		{URL: "https://h", TLS: config.ServerTLS{CA: writeFile(t, "nothing")}},
		{URL: "https://h", TLS: config.ServerTLS{Key: "k"}},
		{URL: "https://h", Proxy: "ftp://h"},
	} {
		if up := manageURL(t, c, nil); up.State() != Stopped || up.Status().LastError == "" {
			t.Errorf("%+v is taken", c)
		}
	}
}
