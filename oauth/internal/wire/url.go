package wire

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// CheckURL returns an error unless text is an https URL, or an http URL of a loopback host:
// with a host, without user info and fragment, and of characters that URLs have.
// The error quotes no more than the beginning.
func CheckURL(text string) (*url.URL, error) {
	u, err := parseURL(text)
	if err != nil {
		return nil, fmt.Errorf("%q %w", short(text), err)
	}
	return u, nil
}

func parseURL(text string) (*url.URL, error) {
	switch {
	case text == "":
		return nil, errors.New("is no URL")
	case len(text) > maxString:
		return nil, fmt.Errorf("has more than %d bytes", maxString)
	}
	for i := range len(text) {
		if b := text[i]; b <= ' ' || b >= 0x7f || strings.IndexByte("\"<>\\^`{|}", b) >= 0 {
			return nil, errors.New("has characters that no URL has")
		}
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("is no URL")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("must be an https URL")
	case u.Opaque != "" || u.Host == "":
		return nil, errors.New("names no host")
	case u.User != nil:
		return nil, errors.New("must not hold a user name")
	case strings.Contains(text, "#"):
		return nil, errors.New("must not have a fragment")
	}
	if err := checkHost(u); err != nil {
		return nil, err
	}
	if u.Scheme == "http" && !loopbackHost(u.Hostname()) {
		return nil, errors.New("must be an https URL (http is for this machine only)")
	}
	return u, nil
}

// checkHost refuses what resolvers read in ways of their own: addresses in odd spellings, zones.
func checkHost(u *url.URL) error {
	host, port := u.Hostname(), u.Port()
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0) || strings.HasSuffix(u.Host, ":") {
		return errors.New("has a port that is none")
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return errors.New("has an address with a zone")
		}
		return nil
	}
	name := strings.TrimSuffix(host, ".")
	last := name[strings.LastIndexByte(name, '.')+1:]
	switch {
	case len(name) > 253 || strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" || last == "" || name[0] == '.' || strings.Contains(name, ".."):
		return errors.New("has a host name that is none")
	case last[0] >= '0' && last[0] <= '9' && numeric(last):
		return errors.New("has an address in an odd spelling for a host")
	}
	return nil
}

// numeric reports whether the last label of a name makes resolvers take it for an address.
func numeric(label string) bool {
	if hex, ok := strings.CutPrefix(strings.ToLower(label), "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// localhost reports whether host is a name that always means this machine.
func localhost(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// loopbackHost reports whether host is spelled as this machine.
func loopbackHost(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback() && !addr.Is4In6() || localhost(host)
}

// hostPort returns the host and the port of u, in one spelling.
func hostPort(u *url.URL) (host, port string) {
	port = u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return strings.ToLower(u.Hostname()), port
}

func sameOrigin(a, b *url.URL) bool {
	aHost, aPort := hostPort(a)
	bHost, bPort := hostPort(b)
	return a.Scheme == b.Scheme && aHost == bHost && aPort == bPort
}

// origin returns the origin of u as a URL without a path.
func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

// covers reports whether the resource that a server publishes is the server that was asked: on
// the same origin, with a path that the server's begins with.
func covers(resource string, server *url.URL) bool {
	r, err := url.Parse(resource)
	if err != nil || r.Opaque != "" || r.User != nil || strings.Contains(resource, "#") || !sameOrigin(r, server) {
		return false
	}
	if r.RawQuery != "" && r.RawQuery != server.RawQuery {
		return false
	}
	path := strings.TrimSuffix(r.EscapedPath(), "/") + "/"
	return strings.HasPrefix(strings.TrimSuffix(server.EscapedPath(), "/")+"/", path)
}
