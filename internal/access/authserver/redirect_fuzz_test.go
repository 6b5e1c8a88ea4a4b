package authserver_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/access/authserver"
)

// same is what the comparison of redirect URIs must say, made in another way: all parts that
// net/url finds are equal, but for the port of a loopback host by http, and so are the texts
// behind the host.
func same(a, b string) bool {
	if a == b {
		return true
	}
	u, err := url.Parse(a)
	if err != nil {
		return false
	}
	v, err := url.Parse(b)
	if err != nil {
		return false
	}
	loopback := func(u *url.URL) bool {
		host := u.Hostname()
		return u.Scheme == "http" && (host == "::1" || strings.HasPrefix(host, "127.") || host == "localhost" || strings.HasSuffix(strings.TrimSuffix(host, "."), "localhost"))
	}
	rest := func(s string, u *url.URL) string { return strings.TrimPrefix(s, "http://"+u.Host) }
	return loopback(u) && loopback(v) && u.Hostname() == v.Hostname() && rest(a, u) == rest(b, v)
}

func FuzzRedirectURIsAreTheSameExceptForALocalPort(f *testing.F) {
	for _, pair := range [][2]string{
		{"http://127.0.0.1/cb", "http://127.0.0.1:3000/cb"}, {"http://localhost:1?x", "http://localhost:2?x"}, {"http://[::1]:5/cb", "http://[::1]/cb"},
		{"https://a.example.com/cb", "https://a.example.com:443/cb"}, {"http://127.0.0.1:1@evil.example.com/", "http://127.0.0.1/"}, {"com.example:/a", "com.example:/b"},
		{"http://localhost:1/a:2", "http://localhost/a:3"}, {"http://127.0.0.1", "http://127.0.0.1:80"}, {"http://[::1]", "http://[::1]:1"}, {"http://localhost./", "http://localhost/"},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, uri := range []string{a, b} {
			if authserver.CheckRedirect(uri, nil) != nil {
				return
			}
			u, err := url.Parse(uri)
			if err != nil || u.User != nil || strings.Contains(uri, "#") || u.Scheme != "https" && u.Scheme != "http" && !strings.Contains(u.Scheme, ".") {
				t.Fatalf("%q is accepted", uri)
			}
		}
		if got, want := authserver.PlainRedirect(a) == authserver.PlainRedirect(b), same(a, b); got != want {
			t.Errorf("%q and %q: the same is %v, want %v", a, b, got, want)
		}
	})
}
