package httpx

import (
	"net/netip"
	"strconv"
	"strings"
)

// An authority is a host and, if it was named, a port. The host is in lower
// case; an address is spelt in the one way that netip spells it.
type authority struct{ host, port string }

// parseAuthority reads "host", "host:port", "[v6]" or "[v6]:port" and nothing
// else: no user, no space, no path, no empty port.
func parseAuthority(s string) (authority, bool) {
	if rest, ok := strings.CutPrefix(s, "["); ok {
		inside, port, ok := strings.Cut(rest, "]")
		if !ok {
			return authority{}, false
		}
		addr, err := netip.ParseAddr(inside)
		if err != nil || !addr.Is6() || addr.Zone() != "" {
			return authority{}, false
		}
		a := authority{host: addr.String()}
		if port == "" {
			return a, true
		}
		a.port, ok = strings.CutPrefix(port, ":")
		return a, ok && isPort(a.port)
	}
	host, port, hasPort := strings.Cut(s, ":")
	if !isHostName(host) || hasPort && !isPort(port) {
		return authority{}, false
	}
	return authority{strings.ToLower(host), port}, true
}

// isHostName tells whether s is made of the characters of names and IPv4
// addresses.
func isHostName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '.', c == '_':
		default:
			return false
		}
	}
	return s != ""
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// loopback tells whether the host is this machine. Other spellings of loopback
// addresses than the usual one, and names that begin with one, are names that
// anybody can own.
func (a authority) loopback() bool {
	if a.host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(a.host)
	return err == nil && addr.IsLoopback()
}

// listedAs tells whether an entry of a list names the authority: its host, with
// any port or with this one.
func (a authority) listedAs(entry string) bool {
	e, ok := parseAuthority(entry)
	if !ok { // an IPv6 address without brackets, perhaps
		e, ok = parseAuthority("[" + entry + "]")
	}
	return ok && e.host == a.host && (e.port == "" || e.port == a.port)
}

// An origin is where a page comes from.
type origin struct {
	scheme string // in lower case
	authority
}

// parseOrigin reads "scheme://host[:port]" and nothing else.
func parseOrigin(s string) (origin, bool) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || !isScheme(scheme) {
		return origin{}, false
	}
	a, ok := parseAuthority(rest)
	return origin{strings.ToLower(scheme), a}, ok
}

func isScheme(s string) bool {
	for i := range len(s) {
		switch c := s[i] | 0x20; {
		case c >= 'a' && c <= 'z':
		case i > 0 && (s[i] >= '0' && s[i] <= '9' || s[i] == '+' || s[i] == '-' || s[i] == '.'):
		default:
			return false
		}
	}
	return s != ""
}

// web tells whether the origin's pages come over HTTP.
func (o origin) web() bool { return o.scheme == "http" || o.scheme == "https" }

// effectivePort returns port, or the one that the origin's scheme implies.
func (o origin) effectivePort(port string) string {
	switch {
	case port != "":
		return port
	case o.scheme == "http":
		return "80"
	case o.scheme == "https":
		return "443"
	}
	return ""
}

// same tells whether the origin is the server that host names. Both may leave
// out the port that the scheme implies.
func (o origin) same(host authority) bool {
	return o.host == host.host && o.effectivePort(o.port) == o.effectivePort(host.port)
}

// listedAs tells whether an entry of a list names the origin.
func (o origin) listedAs(entry string) bool {
	if !strings.Contains(entry, "://") {
		named := authority{o.host, o.effectivePort(o.port)}
		return named.listedAs(entry)
	}
	e, ok := parseOrigin(strings.TrimSuffix(entry, "/"))
	return ok && e.scheme == o.scheme && o.same(e.authority)
}
