package serve

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/cmd/dragoman/internal/say"
	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/edge"
)

// protect prepares what the rules of a listener ask for.
func (e *listener) protect(log *slog.Logger) (err error) {
	if t := e.rules.TLS; t.Cert != "" {
		files := edge.Files{Cert: t.Cert, Key: t.Key, ClientCA: t.ClientCA, Optional: t.ClientAuth == "optional"}
		if t.MinVersion == "1.3" {
			files.MinVersion = tls.VersionTLS13
		}
		if e.cert, err = edge.Load(&files, log); err != nil {
			return fmt.Errorf("listen %s: %w", e.rules.Address, err)
		}
	}
	for _, text := range e.rules.Proxies {
		if text == "unix" {
			e.proxies.Unix = true
			continue
		}
		from, _ := config.ParseProxy(text) // it was checked
		e.proxies.From = append(e.proxies.From, from)
	}
	return nil
}

// checkExposure refuses a listener that other machines can reach if it lacks what
// protects its clients, and nobody has said that this is meant.
func (e *listener) checkExposure(a *config.Auth) error {
	lacks := e.rules.Lacks(a)
	if !e.exposed() || len(lacks) == 0 {
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
	if !e.http {
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
		"  - accept the risk by %s", e.rules.Address, config.Missing(lacks), secure, strings.Join(accept, "; and "))
}

// warn says what was accepted.
func (e *listener) warn(a *config.Auth, v *say.Console) {
	if !e.exposed() {
		return
	}
	if !e.rules.Authenticated(a) {
		v.Warnf("everybody who can reach %s can use what is served: there is no authentication", e.rules.Address)
	}
	if e.cert == nil && len(e.rules.Proxies) == 0 {
		v.Warnf("others on the way to %s can read and change everything: there is no TLS", e.rules.Address)
	}
}

// hosts returns the names by which clients may call us at a listener.
func (e *listener) hosts() []string {
	names := slices.Clone(e.rules.Hosts)
	if e.exposed() {
		names = append(names, ownNames()...)
	}
	if e.cert != nil {
		names = append(names, certificateNames(e.cert)...)
	}
	return names
}

// certificateNames returns the hosts that a certificate names, without patterns.
func certificateNames(c *edge.Certificate) []string {
	names := slices.Clone(c.Leaf().DNSNames)
	return slices.DeleteFunc(names, func(name string) bool { return strings.Contains(name, "*") })
}
