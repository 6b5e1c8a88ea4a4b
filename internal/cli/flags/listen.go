package flags

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/spf13/pflag"
)

// An address is where to listen, and for what.
type address struct {
	Network, Where string
	HTTP           bool
}

// ParseAddress reads HOST:PORT, http+unix:PATH, tcp:HOST:PORT or unix:PATH.
func ParseAddress(text string) (address, error) {
	a := address{Network: "tcp", Where: text}
	switch scheme, rest, _ := strings.Cut(text, ":"); {
	case scheme == "unix", scheme == "http+unix":
		a = address{"unix", strings.TrimPrefix(rest, "//"), scheme != "unix"}
		if a.Where == "" {
			return a, fmt.Errorf("--listen %s has no path", text)
		}
	case scheme == "tcp":
		a.Where = strings.TrimPrefix(rest, "//")
	case strings.HasPrefix(rest, "//"):
		return a, fmt.Errorf("--listen %s is a URL; write HOST:PORT, http+unix:PATH, tcp:HOST:PORT or unix:PATH", text)
	default:
		a.HTTP = true
	}
	if number, err := strconv.Atoi(a.Where); err == nil && (number < 0 || number > 65535) {
		return a, fmt.Errorf("--listen %s: ports go up to 65535", text)
	}
	if a.Network == "tcp" {
		if _, _, err := net.SplitHostPort(a.Where); err != nil {
			return a, fmt.Errorf("--listen %s has no port; write %s", text, strings.TrimSuffix(text, a.Where)+net.JoinHostPort(strings.TrimSuffix(strings.TrimPrefix(a.Where, "["), "]"), defaultPort))
		}
	}
	return a, nil
}

// TokenFileUsage is what the flag of that name means.
const TokenFileUsage = "`file` of tokens that let clients in, from dragoman token new or with a token in each line; it is read again when it changes" // #nosec G101 -- the help of a flag

// UseTokenFile has clients let in by the tokens of a file that the command line names.
func UseTokenFile(to *config.File, file string) {
	if file == "" {
		return
	}
	if path, err := filepath.Abs(file); err == nil {
		file = path
	}
	to.Auth.TokenFile = file
	to.Files = append(to.Files, file)
}

// ListenFlags are what the command line says of all addresses that are listened on.
type ListenFlags struct {
	TLS           config.TLS
	proxies       []string
	noAuth, noTLS bool
}

// Add adds the flags to those of a command.
func (l *ListenFlags) Add(f *pflag.FlagSet) {
	f.StringVar(&l.TLS.Cert, "tls-cert", "", "`file` with our certificate chain in PEM: HOST:PORT speaks HTTPS then; it is read again when it changes")
	f.StringVar(&l.TLS.Key, "tls-key", "", "`file` with the private key of --tls-cert in PEM")
	f.StringVar(&l.TLS.ClientCA, "tls-client-ca", "", "`file` with authorities in PEM, one of which must have signed the certificate of each client")
	f.StringArrayVar(&l.proxies, "trust-proxy", nil, "`address` or range of a proxy before us whose X-Forwarded-For, -Host and -Proto are believed (repeatable)")
	f.BoolVar(&l.noAuth, "insecure-no-auth", false, "listen beyond this machine without authentication: everybody who can reach it can use the servers")
	f.BoolVar(&l.noTLS, "insecure-no-tls", false, "listen beyond this machine without TLS: others on the way can read and change everything")
}

// ListensOn returns addresses of which nothing else is said. A port alone is one of this
// machine.
func ListensOn(addresses []string) (list []config.Listen) {
	for _, a := range addresses {
		if _, err := strconv.ParseUint(a, 10, 16); err == nil {
			a = net.JoinHostPort(DefaultHost, a)
		}
		list = append(list, config.Listen{Address: a})
	}
	return list
}

// Apply adds what the flags say to addresses.
func (l *ListenFlags) Apply(list []config.Listen) ([]config.Listen, error) {
	switch {
	case (l.TLS.Cert == "") != (l.TLS.Key == ""):
		return nil, errors.New("--tls-cert and --tls-key belong together; give both")
	case l.TLS.ClientCA != "" && l.TLS.Cert == "":
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
		a, err := ParseAddress(e.Address)
		if err != nil {
			return nil, err
		}
		if l.noAuth {
			e.Insecure = append(slices.Clone(e.Insecure), config.NoAuth)
		}
		if l.noTLS {
			e.Insecure = append(slices.Clone(e.Insecure), config.NoTLS)
		}
		if !a.HTTP || a.Network != "tcp" {
			continue
		}
		used = true
		e.Proxies = slices.Concat(e.Proxies, l.proxies)
		if l.TLS.Cert != "" {
			if (e.TLS != config.TLS{}) {
				return nil, fmt.Errorf("the file has a certificate for %s, and --tls-cert another; choose one", e.Address)
			}
			e.TLS = l.TLS
		}
	}
	if !used && (l.TLS.Cert != "" || len(l.proxies) > 0) {
		return nil, errors.New("--tls-cert and --trust-proxy are for addresses HOST:PORT, and none is listened on; add one with --listen")
	}
	return list, nil
}
