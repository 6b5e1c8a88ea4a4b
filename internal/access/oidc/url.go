package oidc

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
)

// CheckURL returns an error unless text is an https URL, or an http URL of a loopback host:
// with a host, without user info and fragment, and of characters that URLs have.
// The error quotes no more than the beginning.
func CheckURL(text string) (*url.URL, error) {
	u, err := ParseURL(text)
	if err != nil {
		return nil, fmt.Errorf("%q %w", short(text), err)
	}
	return u, nil
}

// hostPort returns the host and the port of u, in one spelling.
func hostPort(u *url.URL) (host, port string) {
	return strings.ToLower(u.Hostname()), httpframe.EffectivePort(u.Scheme, u.Port())
}

// origin returns the origin of u as a URL without a path.
func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

// covers reports whether the resource that a server publishes is the server that was asked: on
// the same origin, with a path that the server's begins with.
func covers(resource string, server *url.URL) bool {
	r, err := url.Parse(resource)
	if err != nil || r.Opaque != "" || r.User != nil || strings.Contains(resource, "#") || !httpclient.SameOrigin(r, server) {
		return false
	}
	if r.RawQuery != "" && r.RawQuery != server.RawQuery {
		return false
	}
	path := strings.TrimSuffix(r.EscapedPath(), "/") + "/"
	return strings.HasPrefix(strings.TrimSuffix(server.EscapedPath(), "/")+"/", path)
}
