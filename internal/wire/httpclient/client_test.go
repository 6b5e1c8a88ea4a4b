package httpclient_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
)

// TestPlainConnectionIsGivenUpBeforeTheServerClosesIt has a server like those of Node, and a
// request that would meet the end of the connection.
func TestPlainConnectionIsGivenUpBeforeTheServerClosesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		var conns atomic.Int32
		server := &http.Server{
			Handler:     http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
			IdleTimeout: 5 * time.Second,
			ConnState: func(_ net.Conn, s http.ConnState) {
				if s == http.StateNew {
					conns.Add(1)
				}
			},
		}
		go func() { _ = server.Serve(l) }() // ends with Close
		defer server.Close()
		c, err := httpclient.NewClient("test", &httpclient.ClientOptions{URL: "http://localhost/mcp"})
		if err != nil {
			t.Fatal(err)
		}
		c.HTTP.Transport.(*http.Transport).DialContext = l.DialContext
		c.Acquire()
		defer c.Release()
		began := time.Now()
		for _, at := range []struct {
			after time.Duration
			conns int32
		}{{0, 1}, {3 * time.Second, 1}, {8*time.Second - time.Nanosecond, 2}} {
			time.Sleep(time.Until(began.Add(at.after)))
			resp, err := c.Do(t.Context(), "POST", c.URL, []byte("{}"), nil)
			if err != nil {
				t.Fatalf("after %v: %v", at.after, err)
			}
			_ = resp.Body.Close()
			if n := conns.Load(); n != at.conns {
				t.Errorf("after %v there have been %d connections, want %d", at.after, n, at.conns)
			}
		}
	})
}

func TestS28_RedirectIsFollowedOnItsOriginByTheSameMethodAlone(t *testing.T) {
	seen := make(chan string, 10)
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen <- "other" }))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/there" {
			seen <- r.Method + " " + r.Header.Get("X-Key")
			return
		}
		status := http.StatusTemporaryRedirect
		if r.URL.Path == "/found" {
			status = http.StatusFound
		}
		to := "/there"
		switch r.URL.Path {
		case "/away":
			to = strings.Replace(other.URL, "//", "//user:secret@", 1) + "/mcp/secret-that-is-one-part/x?token=secret"
		case "/round":
			to = "/round"
		}
		http.Redirect(w, r, to, status)
	}))
	defer server.Close()
	c, err := httpclient.NewClient("test", &httpclient.ClientOptions{URL: server.URL, Header: http.Header{"x-key": {"k"}}})
	if err != nil {
		t.Fatal(err)
	}
	c.Acquire()
	defer c.Release()
	for _, test := range []struct {
		method, path string
		status       int
		seen         string
	}{
		{"POST", "/kept", 200, "POST k"},
		{"GET", "/found", 200, "GET k"},
		{"POST", "/found", 302, ""},
		{"POST", "/away", 307, ""},
		{"GET", "/away", 307, ""},
		{"GET", "/round", 307, ""},
	} {
		resp, err := c.Do(t.Context(), test.method, c.URL.JoinPath(test.path), []byte("{}"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if e := httpclient.ReadStatus(resp); e.Status != test.status || test.status != 200 && !strings.Contains(e.Text, "redirects to http://") || strings.Contains(e.Text, "secret") || test.path == "/away" && !strings.Contains(e.Text, other.URL+"/mcp/…/x, which is not followed") {
			t.Errorf("%s %s: %v, want %d", test.method, test.path, e, test.status)
		}
		_ = resp.Body.Close()
		got := ""
		select {
		case got = <-seen:
		default:
		}
		if got != test.seen {
			t.Errorf("%s %s: the place that it redirects to saw %q, want %q", test.method, test.path, got, test.seen)
		}
	}
}

func TestSameOriginKnowsDefaultPorts(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"http://A.example/x", "http://a.example:80/y", true},
		{"https://a.example", "https://a.example:443", true},
		{"wss://a.example/x", "wss://a.example/y", true},
		{"http://a.example", "https://a.example", false},
		{"http://a.example", "http://a.example:8080", false},
		{"http://a.example", "http://b.example", false},
	} {
		a, _ := url.Parse(test.a)
		b, _ := url.Parse(test.b)
		if got := httpclient.SameOrigin(a, b); got != test.want {
			t.Errorf("%s and %s: %t", test.a, test.b, got)
		}
	}
}

func TestURLsThatNameNoServerAreRefusedWithoutTheirSecrets(t *testing.T) {
	for at, want := range map[string]string{
		"": "scheme", "ftp://hunter2@x": `it must be http, https or unix`, "http://": "no host", "http://%zz:hunter2@": "cannot be read", "unix://here": "absolute path",
	} {
		_, err := httpclient.NewClient("test", &httpclient.ClientOptions{URL: at, UnixPath: "/mcp"})
		if err == nil || !strings.HasPrefix(err.Error(), "test: ") || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", at, err)
		}
	}
}

func TestErrorsRepeatNoSecretOfABody(t *testing.T) {
	for contentType, body := range map[string]string{
		"text/plain":       "cannot open postgres://ada:canary-1@db/x: https://h/?client-secret=canary-2",
		"application/json": `{"error":"cannot open postgres://ada:canary-1@db/x"}`,
		"application/JSON": `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"cannot open https://h/?api_key=canary"}}`,
	} {
		resp := &http.Response{StatusCode: http.StatusInternalServerError, Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(strings.NewReader(body))}
		if e := httpclient.ReadStatus(resp); strings.Contains(e.Text, "canary") || !strings.Contains(e.Text, "cannot open") {
			t.Errorf("%s is repeated as %q", body, e.Text)
		}
	}
}
