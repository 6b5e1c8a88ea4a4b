package credential_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway/credential"
	"github.com/dragoman-mcp/dragoman/internal/testkit/certtest"
)

// mutual starts a server that lets in whom the authority has signed, and returns its URL. It
// answers with the name of the client.
func mutual(t *testing.T, a *certtest.Authority) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Client", r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	s.TLS = &tls.Config{
		Certificates: []tls.Certificate{a.Pair(t, "server")},
		ClientCAs:    a.Pool(), ClientAuth: tls.RequireAndVerifyClientCert,
	}
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

// visit makes a request over a connection of its own, and returns who we are there.
func visit(conf *tls.Config, at string) (string, error) {
	base := &http.Transport{TLSClientConfig: conf.Clone(), DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: base}).Get(at)
	if err != nil {
		return "", err
	}
	_ = resp.Body.Close()
	return resp.Header.Get("X-Client"), nil
}

func TestAClientCertificateThatChangesIsUsedWithoutARestart(t *testing.T) {
	a := certtest.New(t)
	at, dir := mutual(t, a), t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	a.Write(t, cert, key, "alice")
	conf, err := credential.TLS(a.File, cert, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if who, err := visit(conf, at); who != "alice" {
		t.Fatalf("%q %v", who, err)
	}
	a.Write(t, cert, key, "bob-the-second")
	if who, err := visit(conf, at); who != "bob-the-second" {
		t.Errorf("after a change: %q %v", who, err)
	}
	write(t, cert, "half of a certificate")
	if who, err := visit(conf, at); who != "bob-the-second" {
		t.Errorf("while the files cannot be used: %q %v", who, err)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if who, err := visit(conf, at); who != "bob-the-second" {
		t.Errorf("while a file is missing: %q %v", who, err)
	}
	a.Write(t, cert, key, "carol")
	if who, err := visit(conf, at); who != "carol" {
		t.Errorf("after the files are good again: %q %v", who, err)
	}
}

func TestAServerOfAPrivateAuthorityIsTrustedIfThatIsNamed(t *testing.T) {
	a, dir := certtest.New(t), t.TempDir()
	at, both := mutual(t, a), filepath.Join(dir, "both.pem")
	a.Write(t, both, filepath.Join(dir, "key.pem"), "alice")
	key, err := os.ReadFile(filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	cert, err := os.ReadFile(both)
	if err != nil {
		t.Fatal(err)
	}
	write(t, both, string(cert)+string(key))
	conf, err := credential.TLS(a.File, both, "", nil) // certificate and key in one file
	if err != nil {
		t.Fatal(err)
	}
	if who, err := visit(conf, at); who != "alice" {
		t.Errorf("%q %v", who, err)
	}
	other, err := credential.TLS(certtest.New(t).File, both, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := visit(other, at); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("a server of another authority: %v", err)
	}
}

func TestFilesThatCannotBeUsedAreNamed(t *testing.T) {
	a, empty := certtest.New(t), file(t, "")
	for _, test := range []struct{ ca, cert, key, want string }{
		{ca: empty, want: empty + " has no certificate"},
		{ca: empty + "x", want: "cannot be read"},
		{cert: a.File, want: "client certificate cannot be used"},
		{cert: empty + "x", want: empty + "x"},
		{key: a.File, want: "no certificate"},
	} {
		if _, err := credential.TLS(test.ca, test.cert, test.key, nil); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v", test, err)
		}
	}
	if conf, err := credential.TLS("", "", "", nil); conf != nil || err != nil {
		t.Errorf("without files: %v %v", conf, err)
	}
}

func TestAProxyIsAURLOrNone(t *testing.T) {
	req := httptest.NewRequest(http.MethodGet, "https://server.example/", nil)
	for text, want := range map[string]string{"none": "", "http://u:p@proxy:3128": "http://u:p@proxy:3128", "socks5://127.0.0.1:1080": "socks5://127.0.0.1:1080"} {
		choose, err := credential.Proxy(text)
		if err != nil {
			t.Fatal(err)
		}
		u, err := choose(req)
		if err != nil || u == nil && want != "" || u != nil && u.String() != want {
			t.Errorf("%s: %v %v", text, u, err)
		}
	}
	if choose, err := credential.Proxy(""); choose != nil || err != nil {
		t.Errorf("the environment is not asked: %v", err)
	}
	for _, text := range []string{"proxy:3128", "ftp://sekret@h", "http://", "http://u:sekret@h:%zz"} {
		if _, err := credential.Proxy(text); err == nil || strings.Contains(err.Error(), "sekret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
