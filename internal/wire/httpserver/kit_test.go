package httpserver_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/certtest"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
)

// hello answers with what it knows of the connection.
func hello(w http.ResponseWriter, r *http.Request) {
	who := "nobody"
	if r.TLS == nil {
		who = "no TLS"
	} else if len(r.TLS.VerifiedChains) > 0 {
		who = r.TLS.PeerCertificates[0].Subject.CommonName
	}
	fmt.Fprintf(w, "%s %s", r.Proto, who)
}

// A said keeps what is logged.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) count(part string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.text.String(), part)
}

func (s *said) logger() *slog.Logger { return slog.New(slog.NewTextHandler(s, nil)) }

// A site is a server at an address with a certificate.
type site struct {
	*certtest.Authority
	files httpserver.Files
	cert  *httpserver.Certificate
	log   *said
}

func newSite(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{
		Authority: certtest.New(t), log: &said{},
		files: httpserver.Files{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")},
	}
	s.Write(t, s.files.Cert, s.files.Key, "first")
	return s
}

func (s *site) load(t *testing.T) {
	t.Helper()
	var err error
	if s.cert, err = httpserver.Load(&s.files, s.log.logger()); err != nil {
		t.Fatal(err)
	}
}

// serve serves on a listener until the test ends, and returns the server.
func (s *site) serve(t *testing.T, l net.Listener, h http.Handler) *httpserver.Server {
	t.Helper()
	if s.cert == nil {
		s.load(t)
	}
	return serve(t, l, httpserver.New(h, &httpserver.Options{Certificate: s.cert, Logger: s.log.logger()}))
}

func serve(t *testing.T, l net.Listener, web *httpserver.Server) *httpserver.Server {
	t.Helper()
	var running sync.WaitGroup
	running.Go(func() { // ends with Close
		if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve returns %v", err)
		}
	})
	t.Cleanup(func() {
		_ = web.Close()
		running.Wait()
	})
	return web
}

// listen serves on a socket, and returns the address.
func (s *site) listen(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.serve(t, l, h)
	return l.Addr().String()
}

// client returns a client that speaks those protocols, with a certificate if there is one.
func (s *site) client(t *testing.T, two bool, mine ...tls.Certificate) *http.Client {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.Pool(), Certificates: mine}, Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(!two)
	tr.Protocols.SetHTTP2(two)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// get returns what is answered to POST and to GET, which is the same, and the name in the
// server's certificate.
func get(c *http.Client, url string) (text, server string, err error) {
	posted, _, err := ask(c, http.MethodPost, url)
	if err != nil {
		return "", "", err
	}
	text, server, err = ask(c, http.MethodGet, url)
	if err == nil && text != posted {
		err = fmt.Errorf("answered with %q to GET and %q to POST", text, posted)
	}
	return text, server, err
}

func ask(c *http.Client, method, url string) (text, server string, err error) {
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		return "", "", err
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", "", err
	}
	return string(body), resp.TLS.PeerCertificates[0].Subject.CommonName, nil
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
