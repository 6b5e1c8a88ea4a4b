package authserver

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
)

// maxRedirect is how long a redirect URI may be.
const maxRedirect = 1 << 10

// DefaultSchemes are those of redirect URIs that are accepted without a dot, of programs that
// many use.
var DefaultSchemes = []string{"cursor", "vscode", "vscode-insiders"}

// errTrailingDot refuses a second spelling of a host: resolvers read both as one host, and people
// and lists of hosts do not.
var errTrailingDot = errors.New("the host of a redirect URI must not end in a dot; register it without the dot")

// checkRedirect returns an error unless codes may be sent to a URI: by https, to this machine
// by http, or to the program that a private scheme belongs to. Those have a dot (RFC 8252,
// 7.1), or are listed.
func checkRedirect(uri string, schemes []string) error {
	if len(uri) > maxRedirect {
		return fmt.Errorf("a redirect URI has more than %d bytes", maxRedirect)
	}
	scheme, _, ok := strings.Cut(uri, ":")
	switch {
	case !ok || scheme != strings.ToLower(scheme):
		return errors.New("a redirect URI must begin with a scheme, in lower case")
	case scheme == "https" || scheme == "http":
		u, err := oidc.ParseURL(uri)
		switch {
		case err != nil:
			return fmt.Errorf("a redirect URI %w", err)
		case strings.HasSuffix(u.Hostname(), "."):
			return errTrailingDot
		}
		return nil
	}
	for i := range len(uri) {
		if b := uri[i]; b <= ' ' || b >= 0x7f || strings.IndexByte("\"<>\\^`{|}#", b) >= 0 {
			return errors.New("a redirect URI has characters that it must not have")
		}
	}
	u, err := url.Parse(uri)
	switch {
	case err != nil || u.Scheme != scheme || u.Opaque != "" || u.User != nil || u.Host == "" && u.Path == "":
		return errors.New("a redirect URI with a private scheme must be written SCHEME:/PATH or SCHEME://NAME/PATH")
	case strings.HasSuffix(u.Hostname(), "."):
		return errTrailingDot
	case strings.HasSuffix(scheme, ".") || strings.Contains(scheme, ".."):
		return fmt.Errorf("the scheme %q of a redirect URI is not a domain name in reverse order, such as com.example.app", scheme)
	case !strings.Contains(scheme, ".") && !slices.Contains(schemes, scheme):
		return fmt.Errorf("the scheme %q of a redirect URI is not accepted here: it has no dot, and auth.schemes does not list it", scheme)
	}
	return nil
}

// plainRedirect returns what two redirect URIs must have in common to be the same: all of it,
// but for the port of this machine, which programs choose when they run (RFC 8252, 7.3). The
// URI has been checked.
func plainRedirect(uri string) string {
	rest, ok := strings.CutPrefix(uri, "http://")
	if !ok {
		return uri
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	host, tail := rest[:end], rest[end:]
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	return "http://" + host + tail
}

// redirectName returns what a person can tell a redirect URI by.
func redirectName(uri string) string {
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return "an unknown place"
	case u.Scheme == "http":
		return "a program on this computer (" + u.Host + ")"
	case u.Scheme != "https":
		return "the program on this computer that opens " + u.Scheme + ": links"
	}
	return u.Host
}

// withQuery returns a URI with more parameters.
func withQuery(uri string, more url.Values) string {
	join := "?"
	if strings.Contains(uri, "?") {
		join = "&"
		if strings.HasSuffix(uri, "?") || strings.HasSuffix(uri, "&") {
			join = ""
		}
	}
	return uri + join + more.Encode()
}
