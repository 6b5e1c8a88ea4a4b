package httpx

import (
	"net/http"
	"slices"
	"strings"
)

// A Gate checks Host and Origin before anything else is looked at. It keeps out
// web pages that reach a local server through a name of their own (DNS
// rebinding) or across sites. The zero value, and nil, let in loopback alone.
type Gate struct {
	// Hosts are the host names, without a port, that are accepted in Host
	// besides loopback ones. With a port they are accepted on that port alone.
	// "*" accepts any, and so gives up the protection from DNS rebinding.
	Hosts []string

	// Origins are accepted in Origin: "scheme://host[:port]", or a bare host
	// for any scheme and port. Loopback origins on a loopback Host, and the
	// origin that the request itself goes to, need not be listed. "*" accepts
	// any.
	Origins []string
}

// Check returns nil if the request may be looked at, or a *[Refusal] with status
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

// checkHost returns the host that the request is for.
func (g *Gate) checkHost(r *http.Request) (authority, *Refusal) {
	// net/http moves the header to r.Host. What is left is a second opinion,
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
	if host.loopback() || anyHost || slices.ContainsFunc(g.Hosts, host.listedAs) {
		return host, nil
	}
	return authority{}, forbid("Host %q is not allowed; if it is a name of this server, add it to the allowed hosts", clip(r.Host))
}

// checkOrigin looks at the Origin of a request whose host is allowed.
func (g *Gate) checkOrigin(r *http.Request, host authority) *Refusal {
	values := r.Header["Origin"]
	if len(values) == 0 {
		return nil // not a browser, or one that asks its own site
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
		o.web() && o.loopback() && host.loopback(),
		o.web() && o.same(host) && (r.TLS == nil || o.scheme == "https"),
		slices.ContainsFunc(g.Origins, o.listedAs):
		return nil
	}
	return forbid("Origin %q is not allowed; if its pages may use this server, add it to the allowed origins", clip(values[0]))
}

func forbid(format string, args ...any) *Refusal {
	return Refuse(http.StatusForbidden, format, args...)
}

// clip bounds what is repeated of a header in an error.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
