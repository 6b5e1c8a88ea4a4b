package httpserver

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Headers by which a proxy tells of its client. Only the first three are read: many
// proxies pass on what a client says in the others.
const (
	forwardedFor   = "X-Forwarded-For"
	forwardedHost  = "X-Forwarded-Host"
	forwardedProto = "X-Forwarded-Proto"

	forwardedPrefix = "X-Forwarded-"
	forwarded       = "Forwarded"
	realIP          = "X-Real-Ip"
)

// Proxies are those that stand before a listener. What they say of a client is believed,
// what others say is not passed on to anybody. The zero value, and nil, are none.
type Proxies struct {
	From []netip.Prefix
	Unix bool // whoever comes over a Unix socket is one

	// Mistakes, if not nil, logs requests whose proxy tells of them in a way that cannot be read.
	Mistakes *Mistakes
}

// Handler has next see clients in the place of their proxies: by the request's RemoteAddr,
// Host and [Scheme]. The headers that tell of them are gone there; so is every other
// X-Forwarded- header unless a proxy has sent it.
func (p *Proxies) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		forwarded, refusal := p.client(r)
		if refusal != nil {
			refusal.Log(p.Mistakes, r)
			refusal.Write(w)
			return
		}
		next.ServeHTTP(w, forwarded)
	})
}

// client returns the request as the client has made it.
func (p *Proxies) client(r *http.Request) (*http.Request, *Refusal) {
	h := r.Header
	if !p.has(r.RemoteAddr) {
		for name := range h {
			if name == forwarded || name == realIP || strings.HasPrefix(name, forwardedPrefix) {
				delete(h, name)
			}
		}
		return r, nil
	}
	said := *r
	if values := h[forwardedFor]; len(values) > 0 {
		addr, ok := p.origin(values)
		if !ok {
			return nil, misforwarded(forwardedFor, strings.Join(values, ", "), "a list of IP addresses, each with or without a port")
		}
		said.RemoteAddr = net.JoinHostPort(addr.String(), "0")
	}
	if host, ok := nearest(h[forwardedHost]); ok {
		if _, good := parseAuthority(host); !good {
			return nil, misforwarded(forwardedHost, host, "a host name with an optional port")
		}
		if also := h["Host"]; len(also) == 1 && also[0] == r.Host { // as HTTP/2 has it, beside the one that is replaced
			delete(h, "Host")
		}
		said.Host = host
	}
	result := &said
	if proto, ok := nearest(h[forwardedProto]); ok {
		scheme, good := map[string]string{"http": "http", "https": "https", "ws": "http", "wss": "https"}[strings.ToLower(proto)]
		if !good {
			return nil, misforwarded(forwardedProto, proto, "http or https")
		}
		result = said.WithContext(context.WithValue(r.Context(), schemeKey{}, scheme))
	}
	for _, name := range []string{forwardedFor, forwardedHost, forwardedProto, forwarded, realIP} {
		delete(h, name)
	}
	return result, nil
}

// misforwarded refuses an invalid header of a proxy. To ignore it would take the client for
// another one.
func misforwarded(name, value, want string) *Refusal {
	return Refuse(http.StatusBadRequest, "invalid %s from the proxy: %q; want %s: check the configuration of the proxy", name, clip(value), want)
}

// has reports whether a request comes from a proxy.
func (p *Proxies) has(remote string) bool {
	if p == nil || len(p.From) == 0 && !p.Unix {
		return false
	}
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return p.Unix
	}
	return p.contains(at.Addr())
}

func (p *Proxies) contains(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(p.From, func(of netip.Prefix) bool { return of.Contains(a) })
}

// origin returns where a request comes from, by the lists that proxies have added to: the
// last address that is not a proxy's. What is before that, anybody may have written. It is
// false if the list cannot be read so far.
func (p *Proxies) origin(lists []string) (addr netip.Addr, ok bool) {
	for _, list := range slices.Backward(lists) {
		for list, more := list, true; more; {
			var last string
			if i := strings.LastIndexByte(list, ','); i >= 0 {
				list, last = list[:i], list[i+1:]
			} else {
				last, more = list, false
			}
			if addr, ok = parseNode(strings.Trim(last, " \t")); !ok || !p.contains(addr) {
				return addr, ok
			}
		}
	}
	return addr, ok // all are proxies: the first of them has made the request
}

// parseNode reads an address. Some proxies add the port, and write brackets around an address of
// IPv6 without one, too.
func parseNode(s string) (netip.Addr, bool) {
	if at, err := netip.ParseAddrPort(s); err == nil {
		return at.Addr().Unmap().WithZone(""), true
	}
	inside, opened := strings.CutPrefix(s, "[")
	inside, closed := strings.CutSuffix(inside, "]")
	a, err := netip.ParseAddr(inside)
	return a.Unmap().WithZone(""), err == nil && opened == closed && (!opened || a.Is6())
}

// nearest returns the last element of a list: the one that the proxy has added that
// speaks to us.
func nearest(lists []string) (value string, ok bool) {
	if len(lists) == 0 {
		return "", false
	}
	last := lists[len(lists)-1]
	return strings.Trim(last[strings.LastIndexByte(last, ',')+1:], " \t"), true
}

type schemeKey struct{}

// Scheme returns how the client reaches us, or the proxy before us: "https" or "http".
func Scheme(r *http.Request) string {
	if scheme, ok := r.Context().Value(schemeKey{}).(string); ok {
		return scheme
	}
	if r.TLS != nil {
		return "https"
	}
	return "http"
}
