// Package certtest has certificates for tests.
package certtest

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
	"os"
	"path/filepath"
	"testing"
	"time"
)

// An Authority signs certificates that are good for an hour.
type Authority struct {
	File string // with its certificate
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New returns an authority.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{File: filepath.Join(t.TempDir(), "ca.pem")}
	der, key := a.issue(t, "authority", nil)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.key = key
	write(t, a.File, "CERTIFICATE", der)
	return a
}

// issue returns a certificate and its key. The first is the authority's.
func (a *Authority) issue(t testing.TB, name string, hosts []string) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore:   time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), // the clock of synctest begins a year later
		NotAfter:    time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: hosts, BasicConstraintsValid: true, IsCA: a.cert == nil,
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
	return der, key
}

// Pair returns a certificate for a name, for 127.0.0.1, and for other hosts.
func (a *Authority) Pair(t testing.TB, name string, hosts ...string) tls.Certificate {
	t.Helper()
	der, key := a.issue(t, name, hosts)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Write writes a certificate as that of Pair, and its key.
func (a *Authority) Write(t testing.TB, cert, key, name string, hosts ...string) {
	t.Helper()
	pair := a.Pair(t, name, hosts...)
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write(t, cert, "CERTIFICATE", pair.Certificate[0])
	write(t, key, "PRIVATE KEY", der)
}

// Pool returns the authority as the only one that is trusted.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func write(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
