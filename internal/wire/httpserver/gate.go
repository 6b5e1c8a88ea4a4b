package httpserver

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A Gate checks Host and Origin before anything else. It refuses web pages
// that reach a local server through a name of their own (DNS rebinding) or across
// sites. The zero value, and nil, accept loopback only.
type Gate struct {
	// Hosts are the host names, without a port, that are accepted in Host
	// besides loopback ones. With a port they are accepted on that port alone.
	// "*" accepts any, and so gives up the protection from DNS rebinding.
	Hosts []string

	// Origins are accepted in Origin: "scheme://host[:port]", or a bare host
	// for any scheme and port. Loopback origins on a loopback Host, and the
	// origin that the request itself goes to, need not be listed. "*" accepts
	// any; "none" takes back that loopback origins are accepted.
	Origins []string
}

// noOrigin stands in a list of origins for pages of this machine that are not accepted.
const noOrigin = "none"

// Check returns nil if the request is accepted, or a *[Refusal] with status
// 403 that says which header is to blame and how to allow its value.
func (g *Gate) Check(r *http.Request) error {
	if g == nil {
		g = &Gate{}
	}
	host, refusal := g.checkHost(r)
	if refusal == nil {
		refusal = g.checkOrigin(r, host)
	}
	if refusal != nil {
		return refusal
	}
	return nil
}

// Refuses checks a request, and answers it with 403 if it is not accepted.
func (g *Gate) Refuses(w http.ResponseWriter, r *http.Request) error {
	err := g.Check(r)
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		varyByOrigin(w.Header())
		refusal.Write(w)
	}
	return err
}

// checkHost returns the host that the request is for.
func (g *Gate) checkHost(r *http.Request) (authority, *Refusal) {
	// net/http moves the header to r.Host. What is left is a second value,
	// which HTTP/2 allows beside :authority.
	if also := r.Header["Host"]; len(also) > 1 || len(also) == 1 && also[0] != r.Host {
		return authority{}, forbid("the Host header is there more than once")
	}
	anyHost := slices.Contains(g.Hosts, "*")
	if r.Host == "" && anyHost {
		return authority{}, nil
	}
	host, ok := parseAuthority(r.Host)
	if !ok {
		return authority{}, forbid("the Host header is missing or not a host name with an optional port")
	}
	if host.isLoopback() || anyHost || slices.ContainsFunc(g.Hosts, host.matches) {
		return host, nil
	}
	return authority{}, forbid("Host %q is not allowed; if it is a name of this server, add it to the allowed hosts", clip(r.Host))
}

// checkOrigin checks the Origin of a request whose host is allowed.
func (g *Gate) checkOrigin(r *http.Request, host authority) *Refusal {
	values := r.Header["Origin"]
	if len(values) == 0 {
		return nil // not a browser, or a page of the same origin
	}
	if len(values) > 1 {
		return forbid("the Origin header is there more than once")
	}
	anyOrigin := slices.Contains(g.Origins, "*")
	if values[0] == "null" {
		if anyOrigin {
			return nil
		}
		return forbid("Origin null is not allowed; serve the page from an origin that can be named, and add that to the allowed origins")
	}
	o, ok := parseOrigin(values[0])
	if !ok {
		return forbid("the Origin header is not of the form scheme://host[:port]")
	}
	switch {
	case anyOrigin,
		o.isHTTP() && o.isLoopback() && host.isLoopback() && !slices.Contains(g.Origins, noOrigin),
		o.isHTTP() && o.same(host) && (o.scheme == "https" || Scheme(r) == "http"),
		slices.ContainsFunc(g.Origins, func(entry string) bool { return entry != noOrigin && o.matches(entry) }):
		return nil
	}
	return forbid("Origin %q is not allowed; if its pages may use this server, add it to the allowed origins", clip(values[0]))
}

func forbid(format string, args ...any) *Refusal {
	return Refuse(http.StatusForbidden, format, args...)
}

// clip bounds what is repeated of a header in an error.
func clip(s string) string { return redact.Cut(s, 200) }

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

// isHostName reports whether s is made of the characters of names and IPv4
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

// isLoopback reports whether the host is this machine. Other spellings of loopback
// addresses than the usual one, and names that begin with one, are names that
// anybody can own.
func (a authority) isLoopback() bool {
	if a.host == "localhost" || a.host == "127.0.0.1" { // as nearly all spell it
		return true
	}
	addr, err := netip.ParseAddr(a.host)
	return err == nil && addr.IsLoopback()
}

// matches reports whether an entry of a list names the authority: its host, with
// any port or with this one.
func (a authority) matches(entry string) bool {
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

// isHTTP reports whether the origin's pages come over HTTP.
func (o origin) isHTTP() bool { return o.scheme == "http" || o.scheme == "https" }

// same reports whether the origin is the server that host names. Both may leave
// out the port that the scheme implies.
func (o origin) same(host authority) bool {
	return o.host == host.host && httpframe.EffectivePort(o.scheme, o.port) == httpframe.EffectivePort(o.scheme, host.port)
}

// matches reports whether an entry of a list names the origin.
func (o origin) matches(entry string) bool {
	if !strings.Contains(entry, "://") {
		named := authority{o.host, httpframe.EffectivePort(o.scheme, o.port)}
		return named.matches(entry)
	}
	e, ok := parseOrigin(strings.TrimSuffix(entry, "/"))
	return ok && e.scheme == o.scheme && o.same(e.authority)
}

// Headers that pages may send beside those that any page may, and read.
var (
	corsRequestHeaders = strings.Join([]string{
		"Content-Type", "Accept", "Authorization", protocol.HeaderSession, protocol.HeaderVersion,
		protocol.HeaderMethod, protocol.HeaderName, protocol.HeaderLastEventID, httpframe.HeaderRequestID,
	}, ", ")
	corsResponseHeaders = strings.Join([]string{
		protocol.HeaderSession, protocol.HeaderVersion, "WWW-Authenticate", "Retry-After", httpframe.HeaderRequestID,
	}, ", ")
)

// preflightAge is how many seconds a browser may remember what a preflight allowed.
const preflightAge = "600"

// AllowOrigin tells the browser that a page of an origin that [Gate.Check] has accepted
// may read the answer. If the request is a preflight, AllowOrigin answers it and returns
// true; there is nothing left to do then. headers are what pages may send besides. Cookies
// and other credentials that a browser adds by itself are never allowed: nothing here
// looks at them. A request without an origin costs no header.
//
// It may be called twice for a request, by who stands in front of a Endpoint and by that.
func AllowOrigin(w http.ResponseWriter, r *http.Request, headers ...string) bool {
	h := w.Header()
	if len(r.Header["Origin"]) == 0 {
		if r.Method == http.MethodGet {
			varyByOrigin(h) // a cache may keep the answer, which a page could not read
		}
		return false
	}
	varyByOrigin(h)
	h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	h.Set("Access-Control-Expose-Headers", corsResponseHeaders)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Add("Vary", "Access-Control-Request-Headers")
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	h.Set("Access-Control-Allow-Headers", strings.Join(append([]string{corsRequestHeaders}, headers...), ", ")+requestedParamHeaders(r))
	h.Set("Access-Control-Max-Age", preflightAge)
	w.WriteHeader(http.StatusNoContent)
	return true
}

// varyByOrigin says that an answer depends on the origin, so that no cache gives the one
// for a page to another.
func varyByOrigin(h http.Header) {
	if !slices.Contains(h["Vary"], "Origin") {
		h.Add("Vary", "Origin")
	}
}

// requestedParamHeaders returns the headers for tool arguments that a preflight asks
// for: their names depend on the tool, so no list can hold them.
func requestedParamHeaders(r *http.Request) string {
	var b strings.Builder
	for _, line := range r.Header.Values("Access-Control-Request-Headers") {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.TrimSpace(name)
			n := len(protocol.HeaderParamPrefix)
			if len(name) > n && strings.EqualFold(name[:n], protocol.HeaderParamPrefix) && httpframe.IsToken(name) {
				b.WriteString(", ")
				b.WriteString(name)
			}
		}
	}
	return b.String()
}

// A CallerFunc returns who makes a request, or why it is refused.
type CallerFunc = func(*http.Request) (*dragoman.Caller, error)

// ByAddress is the CallerFunc of servers without authentication: it distinguishes
// callers by their address.
func ByAddress(r *http.Request) (*dragoman.Caller, error) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr // a Unix socket
	}
	return &dragoman.Caller{Address: host, Header: r.Header}, nil
}

// CallerOf returns who makes a request, or why it is refused.
func CallerOf(r *http.Request, who CallerFunc) (*dragoman.Caller, *Refusal) {
	c, err := who(r)
	if err == nil {
		return c, nil
	}
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return nil, refusal
	}
	return nil, Refuse(http.StatusForbidden, "%v", err)
}
