package oidc

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// maxURL is how many bytes a URL may have.
const maxURL = 8 << 10

// ParseURL returns an error unless text is an https URL, or an http URL of a loopback host:
// with a host, without user info and fragment, and of characters that URLs have. The error
// does not quote it.
func ParseURL(text string) (*url.URL, error) {
	switch {
	case text == "":
		return nil, errors.New("is no URL")
	case len(text) > maxURL:
		return nil, fmt.Errorf("has more than %d bytes", maxURL)
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
	if u.Scheme == "http" && !Loopback(u.Hostname()) {
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

// Localhost reports whether host is a name that always means this machine.
func Localhost(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// Loopback reports whether host is spelled as this machine.
func Loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback() && !addr.Is4In6() || Localhost(host)
}

const (
	wellKnownServer = "/.well-known/oauth-authorization-server"
	wellKnownOpenID = "/.well-known/openid-configuration"
)

// metadataPlaces returns where an issuer may have its metadata, in the order in which to look:
// as RFC 8414 has it, and as OpenID Connect does, or the other way round.
func metadataPlaces(u *url.URL, openID bool) []string {
	at := u.Scheme + "://" + u.Host
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	if openID {
		return []string{at + path + wellKnownOpenID, at + wellKnownServer + path, at + wellKnownOpenID + path}
	}
	return []string{at + wellKnownServer + path, at + wellKnownOpenID + path, at + path + wellKnownOpenID}
}
