package credential

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/util/fileutil"
)

// TLS returns how connections to a server are secured: with the authorities in the file ca
// beside the system's, and with the client certificate in the files cert and key, which
// are read again when they have changed. Without a key it is in cert. It returns nil if no
// file is named.
func TLS(ca, cert, key string, log *slog.Logger) (*tls.Config, error) {
	if ca == "" && cert == "" {
		if key != "" {
			return nil, errors.New("there is a key and no certificate; name the file with the certificate")
		}
		return nil, nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("the file of certificate authorities cannot be read: %w", err)
		}
		conf.RootCAs, err = x509.SystemCertPool()
		if err != nil {
			conf.RootCAs = x509.NewCertPool() // the system has none
		}
		if !conf.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate in PEM; name the file with those of the authorities", ca)
		}
	}
	if cert != "" {
		if key == "" {
			key = cert
		}
		mine, err := fileutil.NewReloaded(func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cert, key)
			return &pair, err
		}, func(err error) {
			if log != nil {
				log.Warn("the client certificate has changed and cannot be used, the one from before is", "error", err)
			}
		}, cert, key)
		if err != nil {
			return nil, fmt.Errorf("the client certificate cannot be used: %w", err)
		}
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return mine.Get(), nil }
	}
	return conf, nil
}

// Proxy returns through which proxy requests go: the one with this URL, or with "none" none.
// It returns nil for "", which leaves that to the environment.
func Proxy(text string) (func(*http.Request) (*url.URL, error), error) {
	switch text {
	case "":
		return nil, nil
	case "none":
		return func(*http.Request) (*url.URL, error) { return nil, nil }, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme) {
		return nil, errors.New("the proxy's URL cannot be used; write http://HOST:PORT (or https, socks5), or none") // it may hold a password
	}
	return http.ProxyURL(u), nil
}
