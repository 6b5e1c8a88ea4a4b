package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/edge"
	"github.com/spf13/pflag"
)

// listenFlags are what the command line says of all addresses that are listened on.
type listenFlags struct {
	tls           config.TLS
	proxies       []string
	noAuth, noTLS bool
}

func (l *listenFlags) add(f *pflag.FlagSet) {
	f.StringVar(&l.tls.Cert, "tls-cert", "", "`file` with our certificate chain in PEM: HOST:PORT speaks HTTPS then; it is read again when it changes")
	f.StringVar(&l.tls.Key, "tls-key", "", "`file` with the private key of --tls-cert in PEM")
	f.StringVar(&l.tls.ClientCA, "tls-client-ca", "", "`file` with authorities in PEM, one of which must have signed the certificate of each client")
	f.StringArrayVar(&l.proxies, "trust-proxy", nil, "`address` or range of a proxy before us whose X-Forwarded-For, -Host and -Proto are believed (repeatable)")
	f.BoolVar(&l.noAuth, "insecure-no-auth", false, "listen beyond this machine without authentication: everybody who can reach it can use the servers")
	f.BoolVar(&l.noTLS, "insecure-no-tls", false, "listen beyond this machine without TLS: others on the way can read and change everything")
}

// listensOn returns addresses of which nothing else is said. A port alone is one of this
// machine.
func listensOn(addresses []string) (list []config.Listen) {
	for _, a := range addresses {
		if _, err := strconv.ParseUint(a, 10, 16); err == nil {
			a = net.JoinHostPort(defaultHost, a)
		}
		list = append(list, config.Listen{Address: a})
	}
	return list
}

// apply adds what the flags say to addresses.
func (l *listenFlags) apply(list []config.Listen) ([]config.Listen, error) {
	switch {
	case (l.tls.Cert == "") != (l.tls.Key == ""):
		return nil, errors.New("--tls-cert and --tls-key belong together; give both")
	case l.tls.ClientCA != "" && l.tls.Cert == "":
		return nil, errors.New("--tls-client-ca needs --tls-cert and --tls-key: clients show their certificates over TLS alone")
	}
	for _, p := range l.proxies {
		if _, ok := config.ParseProxy(p); !ok {
			return nil, fmt.Errorf("--trust-proxy %s is no address; %s", p, config.ProxyForms)
		}
	}
	list = slices.Clone(list)
	used := false
	for i := range list {
		e := &list[i]
		a, err := parseAddress(e.Address)
		if err != nil {
			return nil, err
		}
		if l.noAuth {
			e.Insecure = append(slices.Clone(e.Insecure), config.NoAuth)
		}
		if l.noTLS {
			e.Insecure = append(slices.Clone(e.Insecure), config.NoTLS)
		}
		if !a.http || a.network != "tcp" {
			continue
		}
		used = true
		e.Proxies = slices.Concat(e.Proxies, l.proxies)
		if l.tls.Cert != "" {
			if (e.TLS != config.TLS{}) {
				return nil, fmt.Errorf("the file has a certificate for %s, and --tls-cert another; choose one", e.Address)
			}
			e.TLS = l.tls
		}
	}
	if !used && (l.tls.Cert != "" || len(l.proxies) > 0) {
		return nil, errors.New("--tls-cert and --trust-proxy are for addresses HOST:PORT, and none is listened on; add one with --listen")
	}
	return list, nil
}

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
func (e *listener) warn(a *config.Auth, v *console) {
	if !e.exposed() {
		return
	}
	if !e.rules.Authenticated(a) {
		v.warnf("everybody who can reach %s can use what is served: there is no authentication", e.rules.Address)
	}
	if e.cert == nil && len(e.rules.Proxies) == 0 {
		v.warnf("others on the way to %s can read and change everything: there is no TLS", e.rules.Address)
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
