package flags

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
)

// ErrNoServer means that a configuration has nothing to serve.
var ErrNoServer = errors.New("there is no server to serve; add one: dragoman add NAME -- COMMAND, or dragoman add NAME URL")

// CheckServed returns what keeps a configuration from being served, as far as that can be told without
// listening or starting anything.
func CheckServed(file *config.File) error {
	if len(file.Servers) == 0 {
		return ErrNoServer
	}
	log := slog.New(slog.DiscardHandler)
	for i := range file.Listen {
		l := &file.Listen[i]
		a, err := ParseAddress(l.Address)
		if err != nil {
			continue // it is no address, as stdio
		}
		if _, err := Certificate(l, log); err != nil {
			return err
		}
		if !a.exposed() {
			continue
		}
		if err := CheckExposure(l, a.HTTP, &file.Auth); err != nil {
			return err
		}
	}
	return gateway.CheckAccess(file)
}

// exposed reports whether other machines can reach an address, as far as its text tells.
func (a *address) exposed() bool {
	host, _, err := net.SplitHostPort(a.Where)
	ip := net.ParseIP(host)
	return a.Network == "tcp" && err == nil && (host == "" || ip != nil && !ip.IsLoopback())
}

// Certificate returns the certificate of an address; nil if it has none.
func Certificate(l *config.Listen, log *slog.Logger) (*httpserver.Certificate, error) {
	t := l.TLS
	if t.Cert == "" {
		return nil, nil
	}
	files := httpserver.Files{Cert: t.Cert, Key: t.Key, ClientCA: t.ClientCA, Optional: t.ClientAuth == "optional"}
	if t.MinVersion == "1.3" {
		files.MinVersion = tls.VersionTLS13
	}
	cert, err := httpserver.Load(&files, log)
	if err != nil {
		return nil, fmt.Errorf("listen %s: %w", l.Address, err)
	}
	return cert, nil
}

// CheckExposure refuses an address that other machines can reach if it lacks what protects its
// clients, and the operator has not accepted that.
func CheckExposure(l *config.Listen, http bool, a *config.Auth) error {
	lacks := l.Lacks(a)
	if len(lacks) == 0 {
		return nil
	}
	gives := map[string]string{
		config.NoAuth: "give it authentication: --token-file, or auth",
		config.NoTLS:  "give it TLS: --tls-cert and --tls-key, or tls",
	}
	secure := gives[lacks[0]]
	if len(lacks) > 1 {
		secure = "give it both: --token-file, --tls-cert and --tls-key, or auth and tls"
	}
	secure += " in a file for dragoman serve (docs/gateway.md, On a network)"
	if !http {
		secure = "listen on HOST:PORT, which can have authentication and TLS"
	}
	risks := map[string]string{
		config.NoAuth: "--insecure-no-auth: everybody who can reach this machine can use what is served",
		config.NoTLS:  "--insecure-no-tls: others on the way can read and change everything, tokens too",
	}
	var accept []string
	for _, what := range lacks {
		accept = append(accept, risks[what])
	}
	return fmt.Errorf("other machines can reach %s, and there is %s; choose one:\n"+
		"  - listen on this machine alone, at 127.0.0.1 or a Unix socket\n"+
		"  - %s\n"+
		"  - accept the risk by %s", l.Address, config.Missing(lacks), secure, strings.Join(accept, "; and "))
}
