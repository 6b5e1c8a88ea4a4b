package oidc_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
)

// The addresses of each kind, as names resolve to them.
var addresses = map[string][]string{
	"public":   {"8.8.4.4", "1.1.1.1", "192.0.1.1", "100.63.255.255", "172.32.0.1", "2606:4700::1", "::ffff:8.8.4.4", "64:ff9b::8.8.4.4", "2002:808:404::1", "2001:0:808:808:0:0:f7f7:fbfb", "::8.8.4.4"},
	"private":  {"10.0.0.9", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.127.255.255", "fc00::1", "fdff::1", "::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "2002:a00:1::1", "2001:0:808:808::f5ff:fffe", "::192.168.0.1", "2a00::5efe:a00:1"},
	"loopback": {"127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:808:808::80ff:fffe", "2001:0:7f00:1::f7f7:fbfb", "::127.0.0.1", "::ffff:0:127.0.0.1", "2a00::200:5efe:7f00:1"},
	"reserved": {"0.0.0.0", "0.1.2.3", "169.254.169.254", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.9", "192.88.99.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "fe80::1", "febf::1", "fec0::1", "ff02::1", "2001:db8::1", "3fff::1", "2001:2::1", "100::1", "64:ff9b:1::1", "4000::1", "5f00::1", "::ffff:169.254.169.254", "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::",
		"100.100.100.200", "168.63.129.16", "fd00:ec2::254"},
}

func TestS29_AddressesAreJudgedByWhereTheServerIs(t *testing.T) {
	const as = "https://as.example.com"
	for server, allowed := range map[string][]string{
		"public":   {"public"},
		"private":  {"public", "private"},
		"loopback": {"public", "private", "loopback"},
		"reserved": {"public"},
	} {
		for kind, list := range addresses {
			for _, addr := range list {
				t.Run(server+" server, "+kind+" "+addr, func(t *testing.T) {
					w := newWorld(t)
					w.names["mcp.example.com"] = []string{addresses[server][0]}
					w.names["as.example.com"] = []string{addr}
					w.hosts["as.example.com"] = docs(map[string]string{asMeta: serverDoc(as)})
					_, err := w.client(t, "https://mcp.example.com/mcp", nil).Metadata(t.Context(), as)
					dials := w.dials()
					if strings.Contains(strings.Join(allowed, " "), kind) {
						if err != nil || len(dials) != 1 {
							t.Errorf("refused: %v, dialed %q", err, dials)
						}
						return
					}
					if !errors.Is(err, oidc.ErrAddress) || len(dials) != 0 {
						t.Errorf("%v, dialed %q", err, dials)
					}
				})
			}
		}
	}
}

func TestS29_WithoutAServerOnlyPublicAddressesAreAllowed(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://proxy.inside:3128") // which would resolve the names itself
	for kind, list := range addresses {
		for _, addr := range list {
			w := newWorld(t)
			w.names["app.example.com"] = []string{addr}
			w.hosts["app.example.com"] = docs(map[string]string{"/client.json": "{}"})
			c := oidc.New(&oidc.Options{Network: oidc.Network{TLS: &tls.Config{RootCAs: w.roots}, Resolve: w.Resolve, Dial: w.Dial}})
			oidc.SetTimes(c, time.Hour)
			status, text, err := c.Ask(t.Context(), http.MethodGet, "https://app.example.com/client.json", nil, nil)
			switch dials := w.dials(); {
			case kind == "public" && (status != http.StatusOK || string(text) != "{}" || len(dials) != 1):
				t.Errorf("%s: %d, %v, dialed %q", addr, status, err, dials)
			case kind != "public" && (!errors.Is(err, oidc.ErrAddress) || len(dials) > 0):
				t.Errorf("%s: %v, dialed %q", addr, err, dials)
			}
			c.Close()
		}
	}
}

func TestServerThatIsAnAddressIsJudgedByIt(t *testing.T) {
	for server, ok := range map[string]bool{"https://10.0.0.7/mcp": true, "https://[fd00::1]/mcp": true, "http://127.0.0.1:3000/mcp": true, "https://8.8.4.4/mcp": false, "https://169.254.1.1/mcp": false, "https://[fe80::1]/mcp": false} {
		w := newWorld(t)
		w.names["as.example.com"] = []string{"10.0.0.2"}
		w.hosts["as.example.com"] = docs(map[string]string{asMeta: serverDoc("https://as.example.com")})
		if _, err := w.client(t, server, nil).Metadata(t.Context(), "https://as.example.com"); (err == nil) != ok || !ok && !errors.Is(err, oidc.ErrAddress) {
			t.Errorf("%s: %v", server, err)
		}
	}
}

func TestServerWithAnyPublicAddressIsPublic(t *testing.T) {
	w := newWorld(t)
	w.names["mcp.example.com"] = []string{"10.0.0.1", "8.8.4.4", "127.0.0.1"}
	w.names["as.example.com"] = []string{"10.0.0.2"}
	_, err := w.client(t, "https://mcp.example.com/mcp", nil).Metadata(t.Context(), "https://as.example.com")
	if dials := w.dials(); !errors.Is(err, oidc.ErrAddress) || len(dials) != 0 {
		t.Errorf("%v, dialed %q", err, dials)
	}
}

func TestS29_OnlyAddressesThatWereJudgedAreDialed(t *testing.T) {
	const as = "https://as.example.com"
	for _, test := range []struct {
		name  string
		addrs []string
		dials []string
	}{
		{"some are inside", []string{"10.0.0.1", "8.8.4.4", "169.254.169.254"}, []string{"8.8.4.4:443"}},
		{"public first, then private", []string{"8.8.4.4", "then", "127.0.0.1"}, []string{"8.8.4.4:443"}},
		{"private first, then public", []string{"127.0.0.1", "then", "8.8.4.4"}, nil},
		{"a mapped address is dialed as what it is", []string{"::ffff:8.8.4.4"}, []string{"8.8.4.4:443"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.public("mcp.example.com")
			w.names["as.example.com"] = test.addrs
			w.hosts["as.example.com"] = func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Connection", "close") // each request has a connection of its own
				docs(map[string]string{openID: serverDoc(as)})(rw, r)
			}
			_, err := w.client(t, "https://mcp.example.com/mcp", nil).Metadata(t.Context(), as)
			dials := w.dials()
			if !reflect.DeepEqual(dials[:min(len(dials), len(test.dials))], test.dials) && len(test.dials)+len(dials) > 0 {
				t.Errorf("dialed %q, want %q", dials, test.dials)
			}
			if rebound := test.addrs[min(1, len(test.addrs)-1)] == "then"; rebound && (!errors.Is(err, oidc.ErrAddress) || len(dials) != len(test.dials)) {
				t.Errorf("%v, dialed %q: the second answer was not judged", err, dials)
			} else if !rebound && err != nil {
				t.Error(err)
			}
		})
	}
}

func TestNextAddressIsTriedWhenOneFails(t *testing.T) {
	w := newWorld(t)
	w.names["mcp.example.com"] = []string{"8.8.4.4", "8.8.8.8"}
	u, _ := url.Parse("https://mcp.example.com/mcp")
	o := &oidc.Options{}
	w.client(t, u.String(), o) // fills o
	dial := o.Dial
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == "8.8.4.4:443" {
			return nil, errors.New("connection refused")
		}
		return dial(ctx, network, address)
	}
	c := oidc.New(o)
	t.Cleanup(c.Close)
	if d, err := c.Discover(t.Context(), nil, nil); err != nil || !d.Fallback {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestTrustedHostsAreNotJudged(t *testing.T) {
	for _, test := range []struct {
		issuer string
		ok     bool
	}{
		{"https://login.example.com", true},
		{"https://LOGIN.example.com", true},
		{"https://sso.example.com:1443", true},
		{"https://sso.example.com", false},
		{"https://other.example.com", false},
		{"http://login.example.com", false},
	} {
		t.Run(test.issuer, func(t *testing.T) {
			w := newWorld(t)
			w.public("mcp.example.com")
			for _, name := range []string{"login.example.com", "LOGIN.example.com", "sso.example.com", "other.example.com"} {
				w.names[name] = []string{"10.0.0.1"}
				w.hosts[name] = docs(map[string]string{asMeta: serverDoc(test.issuer)})
			}
			w.hosts["sso.example.com:1443"] = w.hosts["sso.example.com"]
			c := w.client(t, "https://mcp.example.com/mcp", &oidc.Options{Trusted: []string{"Login.example.com", "sso.example.com:1443"}})
			if _, err := c.Metadata(t.Context(), test.issuer); (err == nil) != test.ok {
				t.Errorf("trusted %v: %v", test.ok, err)
			}
		})
	}
}

func TestServerMayBeAnywhereItself(t *testing.T) {
	for _, test := range []struct{ server, addr string }{
		{"https://mcp.example.com/mcp", "10.0.0.1"},
		{"https://mcp.example.com/mcp", "169.254.1.1"},
		{"http://mcp.example.com/mcp", "10.0.0.1"},
		{"wss://mcp.example.com/mcp", "8.8.4.4"},
		{"https://user:password@mcp.example.com/mcp", "8.8.4.4"},
	} {
		t.Run(test.server+" "+test.addr, func(t *testing.T) {
			w := newWorld(t)
			w.names["mcp.example.com"] = []string{test.addr}
			w.public("as.example.com")
			w.hosts["mcp.example.com"] = func(rw http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "" {
					t.Error("the user info of the URL was sent")
				}
				scheme := "http://"
				if r.TLS != nil {
					scheme = "https://"
				}
				docs(map[string]string{prm + "/mcp": resourceDoc(scheme+"mcp.example.com/mcp", "https://as.example.com")})(rw, r)
			}
			w.hosts["as.example.com"] = docs(map[string]string{asMeta: serverDoc("https://as.example.com")})
			if _, err := w.client(t, test.server, nil).Discover(t.Context(), nil, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestServerByPlainHTTPIsNoAuthorizationServer(t *testing.T) {
	w := newWorld(t)
	w.names["mcp.example.com"] = []string{"10.0.0.1"}
	_, err := w.client(t, "http://mcp.example.com/mcp", nil).Discover(t.Context(), nil, nil)
	wantError(t, err, "must be an https URL")
}

// Names of this machine are never looked up, and a public server cannot lead there.
func TestLocalhostIsThisMachine(t *testing.T) {
	w := newWorld(t)
	w.names["localhost"] = []string{"8.8.4.4"}
	w.hosts["localhost:3000"] = docs(map[string]string{prm + "/mcp": resourceDoc("http://localhost:3000/mcp", "http://app.localhost:4000")})
	w.hosts["app.localhost:4000"] = docs(map[string]string{asMeta: serverDoc("http://app.localhost:4000")})
	if _, err := w.client(t, "http://localhost:3000/mcp", nil).Discover(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	if dials, want := w.dials(), []string{"127.0.0.1:3000", "127.0.0.1:4000"}; !reflect.DeepEqual(dials, want) {
		t.Errorf("dialed %q, want %q", dials, want)
	}
}

// A name under the server's control says that the server is on this machine.
func TestNameThatResolvesToThisMachineOpensNoPlainHTTP(t *testing.T) {
	w := newWorld(t)
	w.names["mcp.evil.test"] = []string{"127.0.0.1"}
	_, err := w.client(t, "https://mcp.evil.test/mcp", nil).Metadata(t.Context(), "http://127.0.0.1:99")
	if dials := w.dials(); !errors.Is(err, oidc.ErrAddress) || len(dials) != 0 {
		t.Errorf("%v, dialed %q", err, dials)
	}
}

func TestProxyResolvesNamesAndIsNotJudged(t *testing.T) {
	proxy, _ := url.Parse("http://proxy.inside:3128")
	for _, test := range []struct {
		server, issuer string
		ok             bool
	}{
		{"http://localhost:3000/mcp", "http://localhost:4000", true},
		{"https://mcp.example.com/mcp", "https://localhost:4000", false},
		{"https://mcp.example.com/mcp", "https://10.0.0.1", false},
		{"https://mcp.example.com/mcp", "https://[::ffff:10.0.0.1]", false},
		{"https://mcp.example.com/mcp", "https://169.254.169.254", false},
		{"https://10.0.0.7/mcp", "https://169.254.169.254", false},
		{"https://mcp.example.com/mcp", "http://127.0.0.1:80", false},
	} {
		t.Run(test.server+" "+test.issuer, func(t *testing.T) {
			w := newWorld(t)
			w.names["mcp.example.com"] = []string{"10.0.0.1"} // but nobody asks
			issuer, _ := url.Parse(test.issuer)
			w.hosts[issuer.Host] = docs(map[string]string{asMeta: serverDoc(test.issuer)})
			c := w.client(t, test.server, &oidc.Options{Network: oidc.Network{Proxy: http.ProxyURL(proxy)}})
			_, err := c.Metadata(t.Context(), test.issuer)
			if (err == nil) != test.ok {
				t.Errorf("allowed %v: %v", test.ok, err)
			}
			if dials := w.dials(); test.ok && !reflect.DeepEqual(dials, []string{"proxy.inside:3128"}) || !test.ok && len(dials) > 0 {
				t.Errorf("dialed %q", dials)
			}
			if len(w.lookup) > 0 {
				t.Errorf("looked up %v", w.lookup)
			}
		})
	}
}

func TestProxyThatCannotBeReadIsNotQuoted(t *testing.T) {
	w := newWorld(t)
	c := w.client(t, "https://mcp.example.com/mcp", &oidc.Options{Network: oidc.Network{Proxy: func(*http.Request) (*url.URL, error) { return nil, errors.New("http://user:hunter2@proxy is bad") }}})
	_, err := c.Discover(t.Context(), nil, nil)
	wantError(t, err, "proxy")
	if strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}
