package config

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config/syntax"
)

// checkListen checks the addresses.
func (l *loader) checkListen() {
	const forms = "write HOST:PORT, http+unix:PATH, tcp:HOST:PORT, unix:PATH or stdio"
	taken := map[string]bool{}
	for i, e := range l.file.Listen {
		path := fmt.Sprintf("listen[%d]", i)
		kind, exposed, wrong := readAddress(e.Address)
		switch {
		case e.Address == "":
			l.note(false, path+" has no address", forms, "listen", i)
			continue
		case wrong != "":
			l.note(false, fmt.Sprintf("%s: %q %s", path, syntax.Clip(e.Address), wrong), forms, "listen", i, "address")
			continue
		case taken[e.Address] && !strings.HasSuffix(e.Address, ":0"):
			l.note(false, fmt.Sprintf("%s: %s is listened on already", path, e.Address), "", "listen", i, "address")
		}
		taken[e.Address] = true
		l.checkTLS(i, &e, path, kind)
		l.checkProxies(i, &e, path, kind)
		l.checkInsecure(i, &e, path, exposed)
		if kind == "tcp" && l.file.Auth.Wanted() && e.Auth != "none" {
			l.note(false, path+": nobody can prove there who they are", "write HOST:PORT, or give it auth: none", "listen", i, "address")
		}
	}
}

func (l *loader) checkTLS(i int, e *Listen, path, kind string) {
	switch {
	case kind != "http" && e.TLS != TLS{}:
		l.note(false, path+": tls is for addresses that speak HTTP over a network", "write HOST:PORT", "listen", i, "address")
	case (e.TLS.Cert == "") != (e.TLS.Key == ""), e.TLS != TLS{} && e.TLS.Cert == "":
		l.note(false, path+".tls needs both cert and key", "", "listen", i, "tls")
	case e.TLS.ClientAuth != "" && e.TLS.ClientCA == "":
		l.note(false, path+".tls: clientAuth needs clientCA, whose certificates are asked for", "", "listen", i, "tls", "clientAuth")
	}
}

func (l *loader) checkProxies(i int, e *Listen, path, kind string) {
	if len(e.Proxies) > 0 && kind != "http" && kind != "http+unix" {
		l.note(false, path+": proxies are for addresses that speak HTTP", "write HOST:PORT or http+unix:PATH", "listen", i, "address")
		return
	}
	for j, proxy := range e.Proxies {
		_, ok := ParseProxy(proxy)
		switch {
		case (proxy == "unix") != (kind == "http+unix"):
			l.note(false, fmt.Sprintf("%s.proxies: %q does not go with %s", path, syntax.Clip(proxy), e.Address), "write unix for a Unix socket, and addresses for HOST:PORT", "listen", i, "proxies", j)
		case proxy != "unix" && !ok:
			l.note(false, fmt.Sprintf("%s.proxies: %q is no address", path, syntax.Clip(proxy)), ProxyForms, "listen", i, "proxies", j)
		}
	}
}

// ProxyForms says how the address of a proxy is written.
const ProxyForms = "write it as 10.1.2.3, or as a range 10.1.2.0/24 whose other bits are zero"

// ParseProxy reads an address, or a range of them.
func ParseProxy(text string) (netip.Prefix, bool) {
	if addr, err := netip.ParseAddr(text); err == nil {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), addr.Zone() == ""
	}
	prefix, err := netip.ParsePrefix(text)
	return prefix, err == nil && prefix == prefix.Masked() && !prefix.Addr().Is4In6()
}

// checkInsecure warns of what will be refused, unless the command line says otherwise.
func (l *loader) checkInsecure(i int, e *Listen, path string, exposed bool) {
	for j, what := range e.Insecure {
		if what != NoAuth && what != NoTLS {
			l.note(false, fmt.Sprintf("%s.insecure: %q is unknown here", path, syntax.Clip(what)), "use "+NoAuth+" or "+NoTLS, "listen", i, "insecure", j)
		}
	}
	if lacks := e.Lacks(&l.file.Auth); exposed && len(lacks) > 0 {
		l.note(true, fmt.Sprintf("%s: other machines can reach %s, and there is %s: it will not be served", path, e.Address, Missing(lacks)),
			"listen on 127.0.0.1, give auth and tls, or say that you accept it: insecure: ["+strings.Join(lacks, ", ")+"]", "listen", i, "address")
	}
}

// Lacks returns what an address that other machines can reach has not, and is not said to
// do without: NoAuth, NoTLS.
func (e *Listen) Lacks(a *Auth) (list []string) {
	if !e.Authenticated(a) && !slices.Contains(e.Insecure, NoAuth) {
		list = append(list, NoAuth)
	}
	if e.TLS.Cert == "" && len(e.Proxies) == 0 && !slices.Contains(e.Insecure, NoTLS) {
		list = append(list, NoTLS)
	}
	return list
}

// Authenticated reports whether clients prove who they are before they may do anything.
func (e *Listen) Authenticated(a *Auth) bool {
	return a.Wanted() && e.Auth != "none" || e.TLS.ClientCA != "" && e.TLS.ClientAuth != "optional"
}

// Missing says in words what Lacks returns.
func Missing(lacks []string) string {
	words := map[string]string{NoAuth: "authentication", NoTLS: "TLS"}
	said := make([]string, len(lacks))
	for i, what := range lacks {
		said[i] = "no " + words[what]
	}
	return strings.Join(said, " and ")
}

// readAddress looks at an address: what it carries (http, http+unix, tcp, unix or stdio),
// whether other machines can reach it, and what is wrong with it.
func readAddress(address string) (kind string, exposed bool, wrong string) {
	kind = "http"
	scheme, rest, _ := strings.Cut(address, ":")
	switch {
	case address == "stdio":
		return "stdio", false, ""
	case scheme == "unix", scheme == "http+unix":
		if strings.TrimPrefix(rest, "//") == "" {
			wrong = "has no path"
		}
		return scheme, false, wrong
	case scheme == "tcp":
		address, kind = strings.TrimPrefix(rest, "//"), "tcp"
	case strings.HasPrefix(rest, "//"):
		return kind, false, "is a URL and no address"
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return kind, false, "is no address"
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return kind, false, "has no port from 0 to 65535"
	}
	return kind, !isLocal(host), ""
}
