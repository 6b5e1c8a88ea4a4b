package httpserver_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
)

// request makes a request for host with these headers, in pairs.
func request(method, host string, header ...string) *http.Request {
	r := httptest.NewRequest(method, "/mcp", nil)
	r.Host = host
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// checkRefused tells what is wrong with a refusal by the gate.
func checkRefused(t *testing.T, err error, mentions string) {
	t.Helper()
	var refusal *httpserver.Refusal
	if !errors.As(err, &refusal) {
		t.Fatalf("the error is %v, want a *Refusal", err)
	}
	if refusal.Status != http.StatusForbidden {
		t.Errorf("status is %d, want 403", refusal.Status)
	}
	if !strings.Contains(refusal.Message, mentions) {
		t.Errorf("the text %q does not mention %q", refusal.Message, mentions)
	}
}

// Every Origin meets every Host, on a server without configuration.
func TestS11_B03_ForeignOriginsAndReboundHostsAreRefused(t *testing.T) {
	const absent = ""
	goodHosts := []string{"127.0.0.1:8080", "localhost:8080", "LOCALHOST", "[::1]:8080", "[::1]", "127.5.6.7:1"}
	badHosts := []string{"evil.example", "evil.example:8080", "127.0.0.1.nip.io", "localhost.evil.com:8080", "0.0.0.0:8080",
		"192.168.1.2:8080", "[::]:8080", "[fe80::1]:8080", "127.1", "0x7f000001", "2130706433", "app.localhost", "localhost."}
	goodOrigins := []string{absent, "http://localhost", "http://localhost:3000", "https://127.0.0.1:9", "http://[::1]:3000", "HTTP://LocalHost:80"}
	badOrigins := []string{"http://evil.example", "https://evil.example:8080", "null", "http://localhost.evil.com", "http://127.0.0.1.nip.io:8080",
		"http://0.0.0.0:8080", "http://192.168.1.2", "file://", "chrome-extension://abcdefgh", "tauri://localhost"}

	var gate httpserver.Gate
	check := func(host, origin string) error {
		r := request("POST", host)
		if origin != absent {
			r.Header.Set("Origin", origin)
		}
		return gate.Check(r)
	}
	for _, host := range goodHosts {
		for _, origin := range goodOrigins {
			if err := check(host, origin); err != nil {
				t.Errorf("Host %q, Origin %q: %v", host, origin, err)
			}
		}
		for _, origin := range badOrigins {
			t.Run(fmt.Sprintf("%s from %s", host, origin), func(t *testing.T) {
				checkRefused(t, check(host, origin), "Origin")
			})
		}
	}
	for _, host := range badHosts {
		for _, origin := range append(badOrigins, goodOrigins...) {
			t.Run(fmt.Sprintf("%s from %s", host, origin), func(t *testing.T) {
				checkRefused(t, check(host, origin), "Host")
			})
		}
	}
}

func TestS11_B03_GateKnowsWhatIsAllowed(t *testing.T) {
	named := httpserver.Gate{Hosts: []string{"mcp.example.com", "192.168.1.2", "fe80::1", "other.example:8443"}}
	pages := httpserver.Gate{
		Hosts:   []string{"mcp.example.com"},
		Origins: []string{"https://app.example.com", "http://dev.example.com:3000/", "bare.example.com", "port.example.com:81", "vscode-webview://panel"},
	}
	open := httpserver.Gate{Hosts: []string{"*"}, Origins: []string{"*"}}
	anyHost := httpserver.Gate{Hosts: []string{"*"}}
	noPages := httpserver.Gate{Origins: []string{"none", "https://app.example.com"}}
	for _, test := range []struct {
		name   string
		gate   httpserver.Gate
		host   string
		origin string
		ok     bool
	}{
		{"listed host", named, "mcp.example.com", "", true},
		{"listed host, any port", named, "mcp.example.com:8080", "", true},
		{"listed host in other case", named, "MCP.Example.COM", "", true},
		{"name below a listed host", named, "x.mcp.example.com", "", false},
		{"name that ends like a listed host", named, "evilmcp.example.com", "", false},
		{"listed IPv4", named, "192.168.1.2:80", "", true},
		{"listed IPv6", named, "[fe80::1]:80", "", true},
		{"listed IPv6 in other spelling", named, "[FE80:0::1]:80", "", true},
		{"host listed with its port", named, "other.example:8443", "", true},
		{"host listed with another port", named, "other.example:8444", "", false},
		{"loopback beside listed hosts", named, "localhost:1", "http://localhost:2", true},

		{"same origin", named, "mcp.example.com:8080", "http://mcp.example.com:8080", true},
		{"same origin, port left out here", named, "mcp.example.com", "https://mcp.example.com:443", true},
		{"same origin, port left out there", named, "mcp.example.com:80", "http://mcp.example.com", true},
		{"same host, other port", named, "mcp.example.com:8080", "http://mcp.example.com", false},
		{"same host, not of the web", named, "mcp.example.com", "ftp://mcp.example.com", false},
		{"loopback page on another host", named, "mcp.example.com", "http://localhost:3000", false},

		{"listed origin", pages, "mcp.example.com", "https://app.example.com", true},
		{"listed origin with its implied port", pages, "mcp.example.com", "https://app.example.com:443", true},
		{"listed origin, other scheme", pages, "mcp.example.com", "http://app.example.com", false},
		{"listed origin, other port", pages, "mcp.example.com", "https://app.example.com:444", false},
		{"origin listed with a port", pages, "mcp.example.com", "http://dev.example.com:3000", true},
		{"origin listed with another port", pages, "mcp.example.com", "http://dev.example.com", false},
		{"origin listed as a host", pages, "mcp.example.com", "http://bare.example.com:99", true},
		{"origin listed as a host and port", pages, "mcp.example.com", "http://port.example.com:81", true},
		{"origin listed as a host and other port", pages, "mcp.example.com", "http://port.example.com", false},
		{"origin of another scheme", pages, "mcp.example.com", "vscode-webview://panel", true},
		{"name below a listed origin", pages, "mcp.example.com", "https://x.app.example.com", false},
		{"null is not listed", pages, "mcp.example.com", "null", false},
		{"listed origin on a foreign host", pages, "evil.example", "https://app.example.com", false},

		{"anything goes", open, "evil.example", "http://evil.example:1", true},
		{"anything goes, null too", open, "evil.example", "null", true},
		{"anything goes, no host", open, "", "", true},
		{"anything goes that can be read", open, "evil.example", "http://evil example", false},
		{"no pages of this machine", noPages, "127.0.0.1:80", "http://127.0.0.1:81", false},
		{"no pages of this machine, by another name", noPages, "127.0.0.1:80", "http://localhost:80", false},
		{"no pages of this machine but ours", noPages, "127.0.0.1:80", "http://127.0.0.1:80", true},
		{"no pages of this machine but those listed", noPages, "127.0.0.1:80", "https://app.example.com", true},
		{"no pages is no host", noPages, "127.0.0.1:80", "https://none", false},
		{"any host, foreign page", anyHost, "mcp.example.com", "http://evil.example", false},
		{"any host, no host, some page", anyHost, "", "http://evil.example", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := request("POST", test.host)
			if test.origin != "" {
				r.Header.Set("Origin", test.origin)
			}
			if err := test.gate.Check(r); (err == nil) != test.ok {
				t.Errorf("Host %q, Origin %q: %v", test.host, test.origin, err)
			}
		})
	}
}

func TestS11_B03_HeadersThatCannotBeReadInOneWayAreRefused(t *testing.T) {
	gate := &httpserver.Gate{Hosts: []string{"*"}, Origins: []string{"*"}}
	for _, origin := range []string{
		"", " ", "http://", "localhost", "//localhost", "http:/localhost", "http://user@localhost", "http://user:pw@localhost:1",
		"http://localhost/", "http://localhost/path", "http://localhost?x", "http://localhost#x", "http://localhost:", "http://localhost:0",
		"http://localhost:99999", "http://localhost:http", "http://local host", " http://localhost", "http://localhost, http://evil.example",
		"http://[::1", "http://[::1]x", "http://[::1%25lo]", "http://[127.0.0.1]", "http://::1", "http://localhost\\@evil.example",
		"http://loc\u0430lhost", "1http://localhost", "ht tp://localhost", "http://*", "NULL",
	} {
		r := request("POST", "localhost", "Origin", origin)
		t.Run("Origin "+origin, func(t *testing.T) { checkRefused(t, gate.Check(r), "Origin") })
	}
	for _, host := range []string{
		" ", "user@localhost", "localhost:", "localhost:x", "local host", "localhost/", "localhost, localhost", "http://localhost", "::1", "[::1]1", "localhost:1:2",
	} {
		r := request("POST", host)
		t.Run("Host "+host, func(t *testing.T) { checkRefused(t, gate.Check(r), "Host") })
	}
	t.Run("no Host", func(t *testing.T) { checkRefused(t, (*httpserver.Gate)(nil).Check(request("POST", "")), "Host") })
	t.Run("two Origins", func(t *testing.T) {
		r := request("POST", "localhost", "Origin", "http://localhost", "Origin", "http://localhost")
		checkRefused(t, gate.Check(r), "Origin")
	})
	t.Run("two Hosts", func(t *testing.T) {
		checkRefused(t, gate.Check(request("POST", "localhost", "Host", "evil.example")), "Host")
	})
}

func TestPageOverPlainHTTPIsNotTheSameOriginAsAServerWithTLS(t *testing.T) {
	gate := &httpserver.Gate{Hosts: []string{"mcp.example.com"}}
	r := request("POST", "mcp.example.com", "Origin", "http://mcp.example.com")
	r.TLS = &tls.ConnectionState{}
	checkRefused(t, gate.Check(r), "Origin")
	r.Header.Set("Origin", "https://mcp.example.com")
	if err := gate.Check(r); err != nil {
		t.Errorf("same origin with TLS: %v", err)
	}
}

func TestRefusalSaysHowToAllowTheValueButNotAllOfALongOne(t *testing.T) {
	var gate httpserver.Gate
	err := gate.Check(request("POST", "localhost", "Origin", "https://app.example.com"))
	checkRefused(t, err, `"https://app.example.com"`)
	checkRefused(t, err, "allowed origins")
	err = gate.Check(request("POST", "mcp.example.com"))
	checkRefused(t, err, `"mcp.example.com"`)
	checkRefused(t, err, "allowed hosts")
	err = gate.Check(request("POST", strings.Repeat("x", 10_000)))
	if n := len(err.Error()); n > 500 {
		t.Errorf("the text is %d bytes long", n)
	}
}

func TestAcceptedOriginsMayReadTheAnswer(t *testing.T) {
	endpoint := httpserver.NewBase(&httpserver.BaseOptions{Origins: []string{"https://app.example.com"}})
	const preflight = "Access-Control-Request-Method"
	for _, test := range []struct {
		name    string
		request *http.Request
		allowed string // the origin that is told to the browser
		done    bool
	}{
		{"no page", request("POST", "localhost"), "", false},
		{"a page", request("POST", "localhost", "Origin", "https://app.example.com"), "https://app.example.com", false},
		{"a local page", request("GET", "localhost", "Origin", "http://127.0.0.1:3000"), "http://127.0.0.1:3000", false},
		{"a foreign page", request("POST", "localhost", "Origin", "http://evil.example"), "", false},
		{"a page on a foreign host", request("POST", "evil.example", "Origin", "https://app.example.com"), "", false},
		{"preflight", request("OPTIONS", "localhost", "Origin", "https://app.example.com", preflight, "POST"), "https://app.example.com", true},
		{"preflight of a foreign page", request("OPTIONS", "localhost", "Origin", "http://evil.example", preflight, "POST"), "", false},
		{"OPTIONS that is no preflight", request("OPTIONS", "localhost", "Origin", "https://app.example.com"), "https://app.example.com", false},
		{"OPTIONS without a page", request("OPTIONS", "localhost", preflight, "POST"), "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			served := false
			endpoint.Serve(w, test.request, func(*httpserver.Exchange) error { served = true; return nil })
			if done := !served && w.Code != http.StatusForbidden; done != test.done {
				t.Errorf("answered: %t, want %t", done, test.done)
			}
			h := w.Header()
			if got := h.Get("Access-Control-Allow-Origin"); got != test.allowed {
				t.Errorf("allowed origin is %q, want %q", got, test.allowed)
			}
			if got := h.Get("Vary"); got != "Origin" && test.allowed != "" {
				t.Errorf("Vary is %q", got)
			}
			for name := range h {
				if test.allowed == "" && strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("a page that may not read gets %v", h)
				}
			}
			if test.done && w.Code != http.StatusNoContent {
				t.Errorf("status is %d", w.Code)
			}
		})
	}
}

func TestPreflightAllowsTheHeadersOfMCP(t *testing.T) {
	w := httptest.NewRecorder()
	r := request("OPTIONS", "localhost", "Origin", "http://localhost:3000", "Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "content-type, mcp-param-region,x-evil, mcp-param-, mcp-param-a b")
	endpoint := httpserver.NewBase(&httpserver.BaseOptions{})
	endpoint.Serve(w, r, func(*httpserver.Exchange) error { t.Error("a preflight is served"); return nil })
	for header, want := range map[string]string{
		"Access-Control-Allow-Headers":  "Content-Type, Accept, Authorization, Mcp-Session-Id, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Last-Event-ID, X-Request-Id, mcp-param-region",
		"Access-Control-Expose-Headers": "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After, X-Request-Id",
		"Access-Control-Allow-Methods":  "GET, POST, DELETE",
	} {
		if got := w.Header().Get(header); got != want {
			t.Errorf("%s is %q, want %q", header, got, want)
		}
	}
}

// Whatever the headers hold, what comes in without configuration is loopback
// for net/url and net too.
func FuzzGate(f *testing.F) {
	for _, s := range []string{"localhost:8080", "http://localhost:3000", "[::1]", "http://127.0.0.1.nip.io", "null", "a@b", "::", "http://[::ffff:127.0.0.1]:1"} {
		f.Add("localhost", s)
		f.Add(s, "http://localhost")
	}
	f.Fuzz(func(t *testing.T, host, origin string) {
		var gate httpserver.Gate
		if gate.Check(request("POST", host, "Origin", origin)) != nil {
			return
		}
		for _, s := range []string{"http://" + host, origin} {
			u, err := url.Parse(s)
			if err != nil || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" ||
				!strings.EqualFold(u.Hostname(), "localhost") && !net.ParseIP(u.Hostname()).IsLoopback() {
				t.Errorf("Host %q with Origin %q came in", host, origin)
			}
		}
	})
}
