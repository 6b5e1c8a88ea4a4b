package httpserver_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
)

func proxies(list ...string) *httpserver.Proxies {
	p := &httpserver.Proxies{}
	for _, text := range list {
		if text == "unix" {
			p.Unix = true
			continue
		}
		p.From = append(p.From, netip.MustParsePrefix(text))
	}
	return p
}

// seen returns what is behind proxies of a request: its caller's address, host and scheme,
// the headers that tell of clients, and the status.
func seen(p *httpserver.Proxies, r *http.Request) (who, left string, status int) {
	w := httptest.NewRecorder()
	p.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		c, _ := httpserver.ByAddress(r) // never fails
		who = fmt.Sprint(c.Address, " ", r.Host, " ", httpserver.Scheme(r))
		for _, name := range []string{"Forwarded", "X-Real-Ip", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-User"} {
			if len(r.Header.Values(name)) > 0 {
				left += name + " "
			}
		}
	})).ServeHTTP(w, r)
	return who, strings.TrimSpace(left), w.Code
}

func forwardedRequest(from string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	r.RemoteAddr, r.Host = from, "inner:8808"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func TestForwardedHeadersAreBelievedFromProxiesAlone(t *testing.T) {
	all := []string{
		"X-Forwarded-For", "203.0.113.9", "X-Forwarded-Host", "mcp.example.com", "X-Forwarded-Proto", "https",
		"X-Forwarded-Port", "443", "X-Forwarded-User", "root", "Forwarded", "for=198.51.100.1;host=evil.example", "X-Real-Ip", "198.51.100.2",
	}
	for _, test := range []struct {
		list            []string
		from, who, left string
	}{
		{[]string{"10.0.0.0/8"}, "10.1.2.3:50000", "203.0.113.9 mcp.example.com https", "X-Forwarded-Port X-Forwarded-User"},
		{[]string{"10.0.0.0/8"}, "[::ffff:10.1.2.3]:50000", "203.0.113.9 mcp.example.com https", "X-Forwarded-Port X-Forwarded-User"},
		{[]string{"192.0.2.1/32", "fd00::/8"}, "[fd00::1]:50000", "203.0.113.9 mcp.example.com https", "X-Forwarded-Port X-Forwarded-User"},
		{[]string{"fe80::/10"}, "[fe80::1%eth0]:50000", "203.0.113.9 mcp.example.com https", "X-Forwarded-Port X-Forwarded-User"},
		{[]string{"unix"}, "@", "203.0.113.9 mcp.example.com https", "X-Forwarded-Port X-Forwarded-User"},
		{[]string{"unix"}, "10.1.2.3:50000", "10.1.2.3 inner:8808 http", ""},
		{[]string{"10.0.0.0/8"}, "@", "@ inner:8808 http", ""},
		{[]string{"10.0.0.0/8"}, "11.1.2.3:50000", "11.1.2.3 inner:8808 http", ""},
		{nil, "127.0.0.1:50000", "127.0.0.1 inner:8808 http", ""},
	} {
		who, left, status := seen(proxies(test.list...), forwardedRequest(test.from, all...))
		if who != test.who || left != test.left || status != http.StatusOK {
			t.Errorf("%v, from %s: %q, left %q, status %d; want %q and %q", test.list, test.from, who, left, status, test.who, test.left)
		}
	}
	if who, left, _ := seen(nil, forwardedRequest("127.0.0.1:1", all...)); who != "127.0.0.1 inner:8808 http" || left != "" {
		t.Errorf("without any: %q %q", who, left)
	}
}

func TestTheClientIsTheLastAddressThatIsNoProxys(t *testing.T) {
	p := proxies("10.0.0.0/8", "2001:db8::/32")
	for _, test := range []struct {
		lists []string
		want  string // or empty if it is refused
	}{
		{[]string{"203.0.113.9"}, "203.0.113.9"},
		{[]string{"6.6.6.6, 203.0.113.9"}, "203.0.113.9"}, // the first is the client's own
		{[]string{"6.6.6.6,203.0.113.9, 10.0.0.7,\t10.0.0.8"}, "203.0.113.9"},
		{[]string{"6.6.6.6", "203.0.113.9", "10.0.0.7"}, "203.0.113.9"},
		{[]string{"10.0.0.66, 203.0.113.9, 10.0.0.7"}, "203.0.113.9"}, // who claims to be a proxy
		{[]string{"<script>, 203.0.113.9"}, "203.0.113.9"},            // what is not looked at may be anything
		{[]string{"203.0.113.9:4711"}, "203.0.113.9"},
		{[]string{"[2001:db9::1]:4711"}, "2001:db9::1"},
		{[]string{"[2001:db9::1]"}, "2001:db9::1"},
		{[]string{"::ffff:203.0.113.9, 2001:db8::7"}, "203.0.113.9"},
		{[]string{"10.0.0.66, 10.0.0.7"}, "10.0.0.66"}, // a client among the proxies
		{nil, "10.1.2.3"},
		{[]string{""}, ""},
		{[]string{"203.0.113.9,"}, ""},
		{[]string{"203.0.113.9", ""}, ""},
		{[]string{"unknown"}, ""},
		{[]string{"203.0.113.9, garbage, 10.0.0.7"}, ""},
		{[]string{"203.0.113.999"}, ""},
		{[]string{"203.0.113.9 10.0.0.7"}, ""},
		{[]string{"203.0.113.9:99999"}, ""},
		{[]string{"[203.0.113.9"}, ""},
		{[]string{"203.0.113.9]"}, ""},
		{[]string{"[203.0.113.9]"}, ""}, // brackets are of IPv6
		{[]string{"[203.0.113.9]:4711"}, ""},
		{[]string{"[2001:db9::1"}, ""},
		{[]string{"2001:db9::1]"}, ""},
		{[]string{"[2001:db9::1]4711"}, ""},
		{[]string{"[2001:db9::1]:"}, ""},
		{[]string{"[[2001:db9::1]]"}, ""},
		{[]string{"[]"}, ""},
		{[]string{"["}, ""},
		{[]string{"203.0.113.9:"}, ""},
		{[]string{"203.0.113.09"}, ""},
		{[]string{"0xcb.0.113.9"}, ""},
		{[]string{"203.0.113.9/32"}, ""},
		{[]string{"for=203.0.113.9"}, ""},
		{[]string{`"203.0.113.9"`}, ""},
		{[]string{"203.0.113.9;10.0.0.7"}, ""},
		{[]string{"203.0.113.9, [10.0.0.7"}, ""},
	} {
		r := forwardedRequest("10.1.2.3:50000")
		r.Header["X-Forwarded-For"] = test.lists
		if test.lists == nil {
			r.Header.Del("X-Forwarded-For")
		}
		who, _, status := seen(p, r)
		address, _, _ := strings.Cut(who, " ")
		if address != test.want || (status == http.StatusOK) != (test.want != "") {
			t.Errorf("%q: %q, status %d; want %q", test.lists, address, status, test.want)
		}
	}
}

func TestHostAndSchemeAreThoseThatTheNearestProxyTells(t *testing.T) {
	p := proxies("10.0.0.0/8")
	for _, test := range []struct {
		name, value, want string // the host or the scheme; empty if it is refused
	}{
		{"X-Forwarded-Host", "a.example", "a.example http"},
		{"X-Forwarded-Host", "evil.example, a.example:8443", "a.example:8443 http"},
		{"X-Forwarded-Host", "", ""},
		{"X-Forwarded-Host", "a.example/path", ""},
		{"X-Forwarded-Host", "user@a.example", ""},
		{"X-Forwarded-Host", "a.example, ", ""},
		{"X-Forwarded-Proto", "HTTPS", "inner:8808 https"},
		{"X-Forwarded-Proto", "https, http", "inner:8808 http"},
		{"X-Forwarded-Proto", "wss", "inner:8808 https"},
		{"X-Forwarded-Proto", "ws", "inner:8808 http"},
		{"X-Forwarded-Proto", "javascript", ""},
		{"X-Forwarded-Proto", "", ""},
	} {
		who, _, status := seen(p, forwardedRequest("10.1.2.3:50000", test.name, test.value))
		if strings.TrimPrefix(who, "10.1.2.3 ") != test.want || (status == http.StatusBadRequest) != (test.want == "") {
			t.Errorf("%s: %q: %q, status %d; want %q", test.name, test.value, who, status, test.want)
		}
	}
	r := forwardedRequest("10.1.2.3:50000", "X-Forwarded-Proto", "http")
	r.TLS = &tls.ConnectionState{}
	if who, _, _ := seen(p, r); who != "10.1.2.3 inner:8808 http" {
		t.Errorf("a proxy that speaks TLS to us, of a client that does not: %q", who)
	}
}

// The gate looks at the host of the client, which only a proxy can tell.
func TestS11_HostIsCheckedAsTheProxyTellsIt(t *testing.T) {
	gate := &httpserver.Gate{Hosts: []string{"mcp.example.com", "inner"}}
	p := proxies("10.0.0.0/8")
	for _, test := range []struct {
		from, host, origin string
		want               int
	}{
		{"10.1.2.3:1", "mcp.example.com", "https://mcp.example.com", 200},
		{"10.1.2.3:1", "mcp.example.com", "http://mcp.example.com", 403}, // the client speaks TLS
		{"10.1.2.3:1", "evil.example", "https://evil.example", 403},
		{"10.1.2.3:1", "mcp.example.com", "https://evil.example", 403},
		{"203.0.113.9:1", "mcp.example.com", "https://mcp.example.com", 403}, // is taken for inner, whatever it says
		{"203.0.113.9:1", "mcp.example.com", "", 200},
	} {
		r := forwardedRequest(test.from, "X-Forwarded-Host", test.host, "X-Forwarded-Proto", "https")
		if test.origin != "" {
			r.Header.Set("Origin", test.origin)
		}
		w := httptest.NewRecorder()
		p.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if gate.Check(r) != nil {
				w.WriteHeader(http.StatusForbidden)
			}
		})).ServeHTTP(w, r)
		if w.Code != test.want {
			t.Errorf("%+v: %d", test, w.Code)
		}
	}
}

// HTTP/2 has the host in two places, which are alike before a proxy's word replaces one.
func TestForwardedHostReplacesBothOfHTTP2(t *testing.T) {
	gate := &httpserver.Gate{Hosts: []string{"mcp.example.com"}}
	for host, good := range map[string]bool{"inner:8808": true, "evil.example": false} {
		r := forwardedRequest("10.1.2.3:50000", "X-Forwarded-Host", "mcp.example.com")
		r.Header["Host"] = []string{host}
		proxies("10.0.0.0/8").Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if err := gate.Check(r); (err == nil) != good {
				t.Errorf("beside %s: %v", host, err)
			}
		})).ServeHTTP(httptest.NewRecorder(), r)
	}
}

func FuzzForwardedFor(f *testing.F) {
	for _, s := range []string{"1.2.3.4", "1.2.3.4, 10.0.0.1", "10.0.0.1", ",", "[::1]:80,10.0.0.2", "a, 10.0.0.3", "10.0.0.1,10.0.0.2,"} {
		f.Add(s)
	}
	p := proxies("10.0.0.0/8")
	inside := netip.MustParsePrefix("10.0.0.0/8")
	f.Fuzz(func(t *testing.T, list string) {
		who, left, status := seen(p, forwardedRequest("10.1.2.3:50000", "X-Forwarded-For", list))
		// The oracle goes from the front: the client is the one behind which there are
		// proxies alone, or the first if all are.
		var want netip.Addr
		good := true
		for i, text := range slices.All(strings.Split(list, ",")) {
			addr, ok := readNode(strings.Trim(text, " \t"))
			if !ok {
				good = false
			} else if i == 0 || !inside.Contains(addr) {
				want, good = addr, true
			} else if !good {
				continue
			}
		}
		address, _, _ := strings.Cut(who, " ")
		if left != "" || (status == http.StatusOK) != good || good && address != want.String() {
			t.Errorf("%q: %q, status %d, want %v %v", list, address, status, want, good)
		}
	})
}

// readNode reads an address with or without a port.
func readNode(s string) (netip.Addr, bool) {
	if at, err := netip.ParseAddrPort(s); err == nil {
		return at.Addr().Unmap().WithZone(""), true
	}
	if a, err := netip.ParseAddr(s); err == nil {
		return a.Unmap().WithZone(""), true
	}
	at, err := netip.ParseAddrPort(s + ":1")
	return at.Addr().Unmap().WithZone(""), err == nil && strings.HasPrefix(s, "[")
}
