package oidc_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
)

// A world is a network in memory: names with addresses, and what the hosts answer. It remembers
// who was asked what.
type world struct {
	names map[string][]string // the addresses of a name; one answer after the other if separated by "then"
	hosts map[string]http.HandlerFunc

	plain, secure *memnet.Listener
	roots         *x509.CertPool

	mu     sync.Mutex
	asked  []string // "METHOD host path?query"
	dialed []string // addresses
	bodies []string
	lookup map[string]int

	hurried bool // its clients keep to their limits of time; a busy machine may not
}

// newWorld returns a world that ends with the test. All handlers are found by the Host header.
func newWorld(t testing.TB) *world {
	w := &world{names: map[string][]string{}, hosts: map[string]http.HandlerFunc{}, plain: memnet.Listen(), secure: memnet.Listen(), lookup: map[string]int{}}
	cert, roots := certificate(t)
	w.roots = roots
	srv := &http.Server{Handler: http.HandlerFunc(w.serve), ErrorLog: log.New(io.Discard, "", 0)}
	var wg sync.WaitGroup
	for _, l := range []net.Listener{w.plain, tls.NewListener(w.secure, &tls.Config{Certificates: []tls.Certificate{cert}})} {
		wg.Go(func() { _ = srv.Serve(l) }) // ends with srv.Close
	}
	t.Cleanup(func() { srv.Close(); wg.Wait() })
	return w
}

func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	path := r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		path += "?" + r.URL.RawQuery
	}
	w.mu.Lock()
	w.asked = append(w.asked, r.Method+" "+r.Host+" "+path)
	w.bodies = append(w.bodies, string(body))
	w.mu.Unlock()
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	if h := w.hosts[r.Host]; h != nil {
		h(rw, r)
		return
	}
	http.NotFound(rw, r)
}

func (w *world) Resolve(_ context.Context, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var answers [][]netip.Addr
	answers = append(answers, nil)
	for _, s := range w.names[host] {
		if s == "then" {
			answers = append(answers, nil)
			continue
		}
		answers[len(answers)-1] = append(answers[len(answers)-1], netip.MustParseAddr(s))
	}
	n := min(w.lookup[host], len(answers)-1)
	w.lookup[host]++
	if len(answers[n]) == 0 {
		return nil, errors.New("no such host")
	}
	return answers[n], nil
}

func (w *world) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	w.dialed = append(w.dialed, address)
	w.mu.Unlock()
	if strings.HasSuffix(address, "443") {
		return w.secure.DialContext(ctx, network, address)
	}
	return w.plain.DialContext(ctx, network, address)
}

// client returns a client for an MCP server, without a proxy unless o says otherwise.
func (w *world) client(t testing.TB, server string, o *oidc.Options) *oidc.Client {
	if o == nil {
		o = &oidc.Options{}
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	o.Server, o.TLS, o.Resolve, o.Dial = u, &tls.Config{RootCAs: w.roots}, w.Resolve, w.Dial
	if o.Proxy == nil {
		o.Proxy = http.ProxyURL(nil)
	}
	c := oidc.New(o)
	if !w.hurried {
		oidc.SetTimes(c, time.Hour)
	}
	t.Cleanup(c.Close)
	return c
}

// requests returns what was asked so far, and forgets it.
func (w *world) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := w.asked
	w.asked = nil
	return asked
}

func (w *world) dials() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.dialed)
}

func (w *world) lastBody() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bodies[len(w.bodies)-1]
}

// docs answers paths with JSON texts, and others with 404.
func docs(texts map[string]string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		text, ok := texts[r.URL.Path]
		if !ok {
			http.NotFound(rw, r)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, text)
	}
}

var certificate = func() func(testing.TB) (tls.Certificate, *x509.CertPool) {
	var once sync.Once
	var cert tls.Certificate
	var roots *x509.CertPool
	return func(t testing.TB) (tls.Certificate, *x509.CertPool) {
		once.Do(func() {
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			template := &x509.Certificate{
				SerialNumber: big.NewInt(1), DNSNames: []string{"*.example.com", "*.evil.test"}, IPAddresses: []net.IP{net.ParseIP("10.0.0.7")},
				NotBefore: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC),
				IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
			}
			der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
			if err != nil {
				t.Fatal(err)
			}
			cert = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
			parsed, err := x509.ParseCertificate(der)
			if err != nil {
				t.Fatal(err)
			}
			roots = x509.NewCertPool()
			roots.AddCert(parsed)
		})
		return cert, roots
	}
}()

// wantError fails unless err says all of the words.
func wantError(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", words)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error is %q, want one with %q", err, word)
		}
	}
}
