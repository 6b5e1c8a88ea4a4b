package program

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// guarded is the built-in server at a URL, for those who send that header.
func guarded(t *testing.T, accept string) *httptest.Server {
	t.Helper()
	inner := builtin.New(nil)
	endpoint := &streamable.Server{Sessions: inner, Requests: inner.Requests()}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if accept != "" && r.Header.Get("Authorization") != accept {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		endpoint.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		_ = endpoint.Close()
		inner.Close()
		s.Close()
	})
	return s
}

func tokenIn(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "token file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestConnectSendsTheTokenOfAFileOrACommand(t *testing.T) {
	t.Parallel()
	s := guarded(t, "Bearer sekret-token")
	s.Start()
	name := tokenIn(t, "sekret-token")
	useServer(t, startMain(t, "connect", s.URL, "--server-token-file", name))
	useServer(t, startMain(t, "connect", s.URL, "--server-token-command", fmt.Sprintf("cat '%s'", name)))
}

func TestWhoIsNotLetInReadsWhyAndWhatToDo(t *testing.T) {
	t.Parallel()
	s := guarded(t, "nobody")
	s.Start()
	name := tokenIn(t, "sekret-token")
	for want, args := range map[string][]string{
		"refuses the Authorization header that is configured": {"-H", "Authorization: Bearer sekret-token"},
		"refuses the token in " + name:                        {"--server-token-file", name},
	} {
		p := startMain(t, append([]string{"run", "--listen", "127.0.0.1:0", s.URL}, args...)...)
		p.await(want)
		p = startMain(t, append([]string{"connect", s.URL}, args...)...)
		if got := p.say(peertest.Hello(t).String()); !strings.Contains(got, want) || strings.Contains(got, "sekret") {
			t.Errorf("connect answers %s", got)
		}
	}
}

func TestConnectTrustsTheAuthorityThatIsNamedAndUsesTheProxy(t *testing.T) {
	t.Parallel()
	s := guarded(t, "")
	s.StartTLS()
	ca := tokenIn(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	useServer(t, startMain(t, "connect", s.URL, "--ca-file", ca))
	var asked atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			asked.Add(1)
		}
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer proxy.Close()
	p := startMain(t, "connect", s.URL, "--ca-file", ca, "--proxy", proxy.URL)
	if got := p.say(peertest.Hello(t).String()); !strings.Contains(got, "Bad Gateway") || asked.Load() == 0 {
		t.Errorf("the proxy is asked %d times, and connect answers %s", asked.Load(), got)
	}
}

// clientCertificate returns a certificate that has signed itself, and in PEM that with its key.
func clientCertificate(t *testing.T) (*x509.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "client"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return cert, string(append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...))
}

func TestConnectShowsItsCertificateToAServerThatWantsOne(t *testing.T) {
	t.Parallel()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			cert, text := clientCertificate(t)
			_, other := clientCertificate(t)
			s := guarded(t, "")
			s.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool(), MaxVersion: version}
			s.TLS.ClientCAs.AddCert(cert)
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			s.StartTLS()
			ca := tokenIn(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
			connect := []string{"connect", s.URL, "--ca-file", ca}
			useServer(t, startMain(t, append(connect, "--cert-file", tokenIn(t, text))...))
			for want, args := range map[string][]string{
				"require a client certificate (":                    nil,
				"the server does not accept our client certificate": {"--cert-file", tokenIn(t, other)},
			} {
				if got := startMain(t, append(connect, args...)...).say(peertest.Hello(t).String()); !strings.Contains(strings.Replace(got, "requires", "require", 1), want) || !strings.Contains(got, "name one that it accepts by --cert-file") {
					t.Errorf("%q is answered %s, want %s", args, got, want)
				}
			}
		})
	}
}

func TestWhatDoesNotGoTogetherIsRefused(t *testing.T) {
	t.Parallel()
	name := tokenIn(t, "sekret-token")
	for want, args := range map[string][]string{
		"choose one":                   {"connect", "https://h", "--server-token-file", name, "--server-token-command", "x"},
		"-H has an Authorization":      {"connect", "https://h", "--server-token-file", name, "-H", "Authorization: x"},
		"reached by a URL":             {"connect", "--server-token-file", name, "--", "cat"},
		"for HTTP and WebSocket":       {"connect", "tcp:127.0.0.1:1", "--proxy", "none"},
		"--server-token-command: $":    {"connect", "https://h", "--server-token-command", "echo $TOKEN"},
		"there is a key":               {"login", "https://h", "--key-file", name},
		"the proxy's URL cannot":       {"connect", "https://h", "--proxy", "ftp://u:sekret@h"},
		"has no certificate in PEM":    {"connect", "https://h", "--ca-file", name},
		"client certificate cannot be": {"connect", "https://h", "--cert-file", name},
	} {
		if _, errs, status := runMain(t, "", args...); status == 0 || !strings.Contains(errs, want) || strings.Contains(errs, "sekret") {
			t.Errorf("%q: status %d, %s, want %s", args, status, errs, want)
		}
	}
}
