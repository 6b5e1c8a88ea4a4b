package credential_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/credential"
)

// An authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // with its certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{file: filepath.Join(t.TempDir(), "ca.pem")}
	text, key := a.issue(t, "authority")
	block, _ := pem.Decode(text)
	var err error
	if a.cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		t.Fatal(err)
	}
	a.key = key
	write(t, a.file, string(text))
	return a
}

// issue returns a certificate for a name, in PEM, and its key. The first is the authority's.
func (a *authority) issue(t *testing.T, name string) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: a.cert == nil,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer, c.KeyUsage = c, key, x509.KeyUsageCertSign
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key
}

// client writes a certificate for a name, and its key.
func (a *authority) client(t *testing.T, name, cert, key string) {
	t.Helper()
	text, k := a.issue(t, name)
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	write(t, cert, string(text))
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
}

// mutual starts a server that lets in whom the authority has signed, and returns its URL. It
// answers with the name of the client.
func (a *authority) mutual(t *testing.T) string {
	t.Helper()
	text, key := a.issue(t, "server")
	block, _ := pem.Decode(text)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Client", r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	s.TLS = &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{block.Bytes}, PrivateKey: key}},
		ClientCAs:    pool, ClientAuth: tls.RequireAndVerifyClientCert,
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
	a := newAuthority(t)
	at, dir := a.mutual(t), t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	a.client(t, "alice", cert, key)
	conf, err := credential.TLS(a.file, cert, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if who, err := visit(conf, at); who != "alice" {
		t.Fatalf("%q %v", who, err)
	}
	a.client(t, "bob-the-second", cert, key)
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
	a.client(t, "carol", cert, key)
	if who, err := visit(conf, at); who != "carol" {
		t.Errorf("after the files are good again: %q %v", who, err)
	}
}

func TestAServerOfAPrivateAuthorityIsTrustedIfThatIsNamed(t *testing.T) {
	a, dir := newAuthority(t), t.TempDir()
	at, both := a.mutual(t), filepath.Join(dir, "both.pem")
	a.client(t, "alice", both, filepath.Join(dir, "key.pem"))
	key, err := os.ReadFile(filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	cert, err := os.ReadFile(both)
	if err != nil {
		t.Fatal(err)
	}
	write(t, both, string(cert)+string(key))
	conf, err := credential.TLS(a.file, both, "", nil) // certificate and key in one file
	if err != nil {
		t.Fatal(err)
	}
	if who, err := visit(conf, at); who != "alice" {
		t.Errorf("%q %v", who, err)
	}
	other, err := credential.TLS(newAuthority(t).file, both, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := visit(other, at); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("a server of another authority: %v", err)
	}
}

func TestFilesThatCannotBeUsedAreNamed(t *testing.T) {
	a, empty := newAuthority(t), file(t, "")
	for _, test := range []struct{ ca, cert, key, want string }{
		{ca: empty, want: empty + " has no certificate"},
		{ca: empty + "x", want: "cannot be read"},
		{cert: a.file, want: "client certificate cannot be used"},
		{cert: empty + "x", want: empty + "x"},
		{key: a.file, want: "no certificate"},
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
