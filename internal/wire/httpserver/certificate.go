package httpserver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/util/fileutil"
)

// Files are those of a certificate, in PEM.
type Files struct {
	Cert, Key string

	// ClientCA has the authorities that sign clients' certificates. If empty, clients
	// are not asked for one. Optional says that a client need not have one.
	ClientCA string
	Optional bool

	// MinVersion is the oldest version of TLS that is spoken. Zero means 1.2.
	MinVersion uint16
}

// A Certificate is who we are to clients, and whom of them we trust.
type Certificate struct {
	now *fileutil.Reloaded[*tls.Config] // with one certificate
}

// protocolHTTP2 is the name of HTTP/2 in the handshake.
const protocolHTTP2 = "h2"

// suites are those of TLS 1.2 that HTTP/2 may be spoken with. Those of TLS 1.3 are all good.
var suites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// Load reads a certificate. It is read again when its files have changed, for the
// connections that come then; while they cannot be used, the one from before is, and the
// log says so once. A session that began with the files before is not resumed.
func Load(f *Files, log *slog.Logger) (*Certificate, error) {
	names := []string{f.Cert, f.Key}
	if f.ClientCA != "" {
		names = append(names, f.ClientCA)
	}
	of := *f
	now, err := fileutil.NewReloaded(of.config, func(err error) {
		log.Error("the certificate has changed and cannot be used, the one from before is", "error", err)
	}, names...)
	if err != nil {
		return nil, fmt.Errorf("the certificate cannot be used: %w", err)
	}
	return &Certificate{now}, nil
}

// config reads the files.
func (f *Files) config() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		text := strings.TrimPrefix(fileutil.LoadError(err).Error(), "tls: ")
		return nil, fmt.Errorf("%s and %s: %s; give the certificate chain, the server's own first, and the private key that belongs to it, both in PEM", f.Cert, f.Key, text)
	}
	c := &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: max(f.MinVersion, tls.VersionTLS12), CipherSuites: suites,
		NextProtos: []string{protocolHTTP2, "http/1.1"},
	}
	if f.ClientCA == "" {
		return c, nil
	}
	text, err := os.ReadFile(f.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.ClientCA, fileutil.LoadError(err))
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if f.Optional {
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	if !c.ClientCAs.AppendCertsFromPEM(text) {
		return nil, errors.New(f.ClientCA + " has no certificate in PEM; name the file with those of the authorities that sign clients' certificates")
	}
	return c, nil
}

// server returns what a connection that comes now is secured with.
func (c *Certificate) server() *tls.Config { return c.now.Get() }

// Leaf returns the certificate itself as it is now.
func (c *Certificate) Leaf() *x509.Certificate { return c.now.Get().Certificates[0].Leaf }
