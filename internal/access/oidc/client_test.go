package oidc_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
)

func TestS29_RedirectsStayOnTheOriginAndAreFew(t *testing.T) {
	const as = "https://as.example.com"
	for _, test := range []struct {
		name  string
		to    func(n int) string // the n-th redirect goes there; "" ends them
		ok    bool
		asked int
	}{
		{"three", func(n int) string { return map[bool]string{true: fmt.Sprintf("/r%d", n)}[n <= 3] }, true, 4},
		{"forever", func(n int) string { return fmt.Sprintf("%s/r%d", as, n) }, false, 4 + 4},
		{"to another host", func(int) string { return "https://mcp.example.com/x" }, false, 2},
		{"to another port", func(int) string { return "https://as.example.com:1443/x" }, false, 2},
		{"to plain http", func(int) string { return "http://as.example.com/x" }, false, 2},
		{"to this machine", func(int) string { return "http://127.0.0.1:99/x" }, false, 2},
		{"with a user", func(int) string { return "https://u@as.example.com/x" }, false, 2},
		{"to a file", func(int) string { return "file:///etc/passwd" }, false, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.public("as.example.com", "mcp.example.com")
			n := 0
			w.hosts["as.example.com"] = func(rw http.ResponseWriter, r *http.Request) {
				http.SetCookie(rw, &http.Cookie{Name: "a", Value: "b"})
				if len(r.Cookies()) > 0 {
					t.Error("a cookie came back")
				}
				n++
				if to := test.to(n); to != "" {
					http.Redirect(rw, r, to, http.StatusFound)
					return
				}
				docs(map[string]string{r.URL.Path: serverDoc(as)})(rw, r)
			}
			_, err := w.client(t, "https://mcp.example.com/mcp", nil).Metadata(t.Context(), as)
			if (err == nil) != test.ok {
				t.Errorf("ok %v: %v", test.ok, err)
			}
			if asked := w.requests(); len(asked) != test.asked {
				t.Errorf("asked %q, want %d requests", asked, test.asked)
			}
		})
	}
}

func TestS29_SlowServersAreNotWaitedFor(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
	}{
		{"no header", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		{"a body that drips", func(rw http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = rw.Write([]byte(" "))
				_ = http.NewResponseController(rw).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(time.Second):
				}
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			certificate(t)
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.hurried = true
				w.hosts["localhost:3000"] = test.answer // a pipe has no room for TLS to say goodbye
				c := w.client(t, "http://localhost:3000/mcp", nil)
				start := time.Now()
				_, err := c.Discover(t.Context(), nil, nil)
				wantError(t, err, "no answer within 5s")
				if took := time.Since(start); took != 5*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

func TestAddressThatNeverAnswersLeavesTimeToTheNext(t *testing.T) {
	certificate(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.names["mcp.example.com"] = []string{"2606:4700::1", "8.8.4.4"}
		o := &oidc.Options{}
		w.client(t, "https://mcp.example.com/mcp", o)
		dial := o.Dial
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if address[0] == '[' {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return dial(ctx, network, address)
		}
		c := oidc.New(o)
		t.Cleanup(c.Close)
		if d, err := c.Discover(t.Context(), nil, nil); err != nil || !d.Fallback {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

func TestCallersContextEndsARequest(t *testing.T) {
	certificate(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.public("mcp.example.com")
		w.hosts["mcp.example.com"] = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.client(t, "https://mcp.example.com/mcp", nil).Discover(ctx, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestTLSConfigIsHonored(t *testing.T) {
	srv := httptest.NewUnstartedServer(docs(map[string]string{}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	u, _ := url.Parse(srv.URL + "/mcp")
	for name, config := range map[string]*tls.Config{"roots of the system": nil, "roots of the test": srv.Client().Transport.(*http.Transport).TLSClientConfig} {
		c := oidc.New(&oidc.Options{Server: u, Network: oidc.Network{TLS: config}})
		_, err := c.Discover(t.Context(), nil, nil)
		if (err == nil) != (config != nil) {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
	}
}

// Whether it is worth asking again depends on who is in trouble: the network, or we with the
// server that is there.
func TestNoAnswerIsToldFromAServerThatIsNotTrusted(t *testing.T) {
	quiet := func(s *httptest.Server) *httptest.Server {
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		return s
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	ends := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer ends.Close()
	untrusted := quiet(httptest.NewUnstartedServer(http.NotFoundHandler()))
	untrusted.StartTLS()
	defer untrusted.Close()
	wantsCertificate := quiet(httptest.NewUnstartedServer(http.NotFoundHandler()))
	wantsCertificate.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	wantsCertificate.StartTLS()
	defer wantsCertificate.Close()
	roots := wantsCertificate.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	for _, test := range []struct {
		name, at string
		tls      *tls.Config
		want     bool
	}{
		{"refused", gone.URL, nil, true},
		{"reset", ends.URL, nil, true},
		{"untrusted", untrusted.URL, nil, false},
		{"we have no certificate", wantsCertificate.URL, &tls.Config{RootCAs: roots}, false},
		{"no TLS", "https" + ends.URL[len("http"):], nil, false},
	} {
		server, err := url.Parse(test.at)
		if err != nil {
			t.Fatal(err)
		}
		c := oidc.New(&oidc.Options{Server: server, Network: oidc.Network{TLS: test.tls, Proxy: http.ProxyURL(nil)}})
		_, err = c.Token(t.Context(), &oidc.Metadata{TokenEndpoint: test.at + "/token"}, nil, nil)
		if err == nil || errors.Is(err, oidc.ErrNoAnswer) != test.want {
			t.Errorf("%s: %v, want no answer: %v", test.name, err, test.want)
		}
		c.Close()
	}
}

func TestS29_AskReturnsWholeAnswersOfThatServerOnly(t *testing.T) {
	w := newWorld(t)
	w.public("as.example.com")
	w.hosts["as.example.com"] = func(rw http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.URL.Path[1:])
		rw.Header().Set("Location", "/200")
		rw.WriteHeader(status)
		_, _ = io.WriteString(rw, r.Header.Get("Authorization")+" "+r.FormValue("token"))
	}
	form := url.Values{"token": {"secret-of-the-form"}}
	header := http.Header{"Authorization": {"Bearer secret-of-the-header"}}
	const want = "Bearer secret-of-the-header secret-of-the-form"
	for status, ok := range map[int]bool{200: true, 401: true, 404: true, 302: false, 307: false, 429: false, 500: false, 503: false} {
		c := w.client(t, "https://as.example.com", nil)
		got, text, err := c.Ask(t.Context(), http.MethodPost, "https://as.example.com/"+strconv.Itoa(status), form, header)
		if ok && (got != status || string(text) != want || err != nil) || !ok && err == nil {
			t.Errorf("%d: %d %q, %v", status, got, text, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%d: %v", status, err)
		}
		if n := len(w.requests()); n != 1 {
			t.Errorf("%d: %d requests", status, n)
		}
	}
	c := w.client(t, "https://as.example.com", &oidc.Options{MaxBody: len(want) - 1})
	if _, _, err := c.Ask(t.Context(), http.MethodPost, "https://as.example.com/200", form, header); err == nil {
		t.Error("a body that is too long is returned")
	}
}
