package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"

	"github.com/dragoman-mcp/dragoman/config"
)

// caller tells who makes a request for a single server: what of it is passed on
// to the server makes a difference, and where it comes from if the server's
// sessions are shared by the sessions of one client.
func (s *single) caller(r *http.Request) string {
	return s.up.Caller(identity(s.up.Config(), r), r.Header)
}

// caller tells who makes a request for several servers at once, in a way that
// does for all of them.
func (g *Gateway) caller(r *http.Request) string {
	who, sum, passes := "", sha256.New(), false
	ups := g.manager.Upstreams()
	for _, up := range ups {
		if id := identity(up.Config(), r); id != "" {
			who = id
		}
		if key := up.Caller("", r.Header); key != "" {
			passes = true
			sum.Write([]byte(key + "\n"))
		}
	}
	if !passes {
		return who
	}
	who += "#" + hex.EncodeToString(sum.Sum(nil)[:16])
	for _, up := range ups {
		up.Remember(who, r.Header)
	}
	return who
}

// identity returns who the client is, if a server wants to know: its address, as
// long as there is nothing better.
func identity(s *config.Server, r *http.Request) string {
	if s.Isolation == "client" {
		return RemoteHost(r)
	}
	return ""
}

// RemoteHost tells clients apart by their address.
func RemoteHost(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr // a Unix socket
	}
	return host
}
