package serve

import (
	"log/slog"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/cli/flags"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
)

// protect prepares what the rules of a listener ask for.
func (e *listener) protect(log *slog.Logger) (err error) {
	if e.cert, err = flags.Certificate(&e.rules, log); err != nil {
		return err
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
	if !e.exposed() {
		return nil
	}
	return flags.CheckExposure(&e.rules, e.http, a)
}

// warn says what was accepted.
func (e *listener) warn(a *config.Auth, v *term.Console) {
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
func certificateNames(c *httpserver.Certificate) []string {
	names := slices.Clone(c.Leaf().DNSNames)
	return slices.DeleteFunc(names, func(name string) bool { return strings.Contains(name, "*") })
}
