package httpserver_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/certtest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
)

// atPlain runs a test with a connection to a server without TLS, in a bubble.
func atPlain(t *testing.T, test func(t *testing.T, c net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		serve(t, l, httpserver.New(http.HandlerFunc(hello), &httpserver.Options{Logger: slog.New(slog.DiscardHandler)}))
		c, err := l.DialContext(t.Context(), "tcp", "")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		test(t, c)
	})
}

func TestConnectionThatIsOpenedInAdvanceWaitsForItsFirstRequest(t *testing.T) {
	atPlain(t, func(t *testing.T, c net.Conn) {
		for _, method := range []string{"POST", "POST", "GET", "POST"} { // net/http answers from GET on
			time.Sleep(httpserver.IdleTimeout - time.Second)
			if _, err := io.WriteString(c, method+" / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatalf("the connection was closed before its request: %v", err)
			}
			if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "HTTP/1.1 no TLS" {
				t.Errorf("got %q, %v", text, err)
			}
			_ = resp.Body.Close()
		}
	})
}

func TestS12_ConnectionThatIsNeverUsedIsClosed(t *testing.T) {
	atPlain(t, func(t *testing.T, c net.Conn) {
		began := time.Now()
		if _, err := io.ReadAll(c); err != nil || time.Since(began) != httpserver.IdleTimeout {
			t.Errorf("it ends after %v with %v, want %v", time.Since(began), err, httpserver.IdleTimeout)
		}
	})
}

func TestS12_HeadersHaveTheirTimeFromTheFirstByteOn(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		atPlain(t, func(t *testing.T, c net.Conn) {
			time.Sleep(httpserver.IdleTimeout / 2)
			if _, err := io.WriteString(c, method+" / HTTP/1.1\r\nHost"); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if _, err := io.ReadAll(c); err != nil || time.Since(began) != httpserver.HeaderTimeout {
				t.Errorf("%s ends after %v with %v, want %v", method, time.Since(began), err, httpserver.HeaderTimeout)
			}
		})
	}
}

// HTTP/2 is for connections that are secured.
func TestS12_HTTP2IsNotSpokenWithoutTLS(t *testing.T) {
	atPlain(t, func(t *testing.T, c net.Conn) {
		if _, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 ") {
			t.Errorf("%q %v, want an answer of HTTP/1.1 and a close", text, err)
		}
	})
	atPlain(t, func(t *testing.T, c net.Conn) {
		began := time.Now()
		if _, err := io.WriteString(c, "PRI * HT"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(c); err != nil || time.Since(began) != httpserver.HeaderTimeout {
			t.Errorf("half of it: ends after %v with %v", time.Since(began), err)
		}
	})
}

func TestBothVersionsOfHTTPAreSpokenOverTLS(t *testing.T) {
	s := newSite(t)
	at := "https://" + s.listen(t, hello)
	for two, want := range map[bool]string{false: "HTTP/1.1 nobody", true: "HTTP/2.0 nobody"} {
		if text, server, err := get(s.client(t, two), at); err != nil || text != want || server != "first" {
			t.Errorf("%q from %s, %v; want %q", text, server, err, want)
		}
	}
}

func TestTheCertificateOfAClientReachesTheHandler(t *testing.T) {
	s := newSite(t)
	s.files.ClientCA = s.File
	required := "https://" + s.listen(t, hello)
	optional := *s
	optional.files.Optional, optional.cert = true, nil
	open := "https://" + optional.listen(t, hello)
	other := certtest.New(t).Pair(t, "mallory")
	for _, two := range []bool{false, true} {
		for _, at := range []string{required, open} {
			if text, _, err := get(s.client(t, two, s.Pair(t, "alice")), at); err != nil || !strings.HasSuffix(text, " alice") {
				t.Errorf("HTTP/2 %v, at %s: %q %v", two, at, text, err)
			}
			if text, _, err := get(s.client(t, two, other), at); err == nil && (at == required || !strings.HasSuffix(text, " nobody")) {
				t.Errorf("HTTP/2 %v, with a certificate of another authority: %q", two, text)
			}
		}
		if text, _, err := get(s.client(t, two), required); err == nil {
			t.Errorf("HTTP/2 %v, without a certificate: %q", two, text)
		}
		if text, _, err := get(s.client(t, two), open); err != nil || !strings.HasSuffix(text, " nobody") {
			t.Errorf("HTTP/2 %v, without a certificate where none is needed: %q %v", two, text, err)
		}
	}
}

func TestACertificateThatChangesIsUsedAndCutsNobody(t *testing.T) {
	s := newSite(t)
	stay, leave := make(chan struct{}), make(chan struct{})
	at := "https://" + s.listen(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stay" {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			stay <- struct{}{}
			<-leave
		}
		hello(w, r)
	})
	old := s.client(t, true)
	resp, err := old.Get(at + "/stay")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	<-stay
	now := func(want string, logged int) {
		t.Helper()
		for range 2 {
			if _, server, err := get(s.client(t, false), at); server != want || s.log.count("level=ERROR") != logged {
				t.Errorf("the certificate is %q (%v), errors logged %d; want %q and %d", server, err, s.log.count("level=ERROR"), want, logged)
			}
		}
	}
	s.Write(t, s.files.Cert, s.files.Key, "the second")
	now("the second", 0)
	s.Write(t, s.files.Cert, s.files.Key+".other", "a pair that does not fit")
	now("the second", 1)
	write(t, s.files.Cert, "")
	now("the second", 2)
	s.Write(t, s.files.Cert, s.files.Key, "third")
	now("third", 2)
	if _, server, err := get(old, at); server != "first" {
		t.Errorf("a connection from before: %q %v", server, err)
	}
	close(leave)
	if text, err := io.ReadAll(resp.Body); string(text) != "HTTP/2.0 nobody" {
		t.Errorf("a request from before: %q %v", text, err)
	}
}

func TestFilesThatCannotBeUsedAreNamedAtTheStart(t *testing.T) {
	s := newSite(t)
	none := s.files.Cert + ".none"
	empty := s.files.Cert + ".empty"
	write(t, empty, "")
	other := s.files.Key + ".other"
	s.Write(t, s.files.Cert+".other", other, "other")
	for want, f := range map[string]httpserver.Files{
		none + ": no such file": {Cert: none, Key: s.files.Key},
		s.files.Cert + " and " + other + ": private key does not match public key; give": {Cert: s.files.Cert, Key: other},
		empty + " and " + s.files.Key: {Cert: empty, Key: s.files.Key},
		empty + " has no certificate": {Cert: s.files.Cert, Key: s.files.Key, ClientCA: empty},
		"not a regular file":          {Cert: t.TempDir(), Key: s.files.Key},
	} {
		if _, err := httpserver.Load(&f, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestOldVersionsOfTLSAreRefused(t *testing.T) {
	s := newSite(t)
	two := s.listen(t, hello)
	three := *s
	three.files.MinVersion, three.cert = tls.VersionTLS13, nil
	only := three.listen(t, hello)
	for _, test := range []struct {
		at     string
		spoken uint16
		good   bool
	}{{two, tls.VersionTLS11, false}, {two, tls.VersionTLS12, true}, {two, tls.VersionTLS13, true}, {only, tls.VersionTLS12, false}, {only, tls.VersionTLS13, true}} {
		c, err := tls.Dial("tcp", test.at, &tls.Config{RootCAs: s.Pool(), MinVersion: tls.VersionTLS10, MaxVersion: test.spoken})
		if err == nil {
			_ = c.Close()
		}
		if (err == nil) != test.good {
			t.Errorf("%s: %v", tls.VersionName(test.spoken), err)
		}
	}
}

func TestS12_SlowHandshakeIsCutAndHoldsUpNobody(t *testing.T) {
	s := newSite(t)
	s.load(t)
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		s.serve(t, l, http.HandlerFunc(hello))
		began := time.Now()
		var slow []net.Conn
		for i := range 300 {
			c, err := l.DialContext(t.Context(), "tcp", "")
			if err != nil {
				t.Fatal(err)
			}
			slow = append(slow, c)
			if i%2 == 0 {
				_, _ = c.Write([]byte{22, 3, 1}) // the beginning of a record
			}
		}
		c, err := l.DialContext(t.Context(), "tcp", "")
		if err != nil {
			t.Fatal(err)
		}
		good := tls.Client(c, &tls.Config{RootCAs: s.Pool(), ServerName: "127.0.0.1"})
		if err := good.HandshakeContext(t.Context()); err != nil || time.Since(began) > time.Second {
			t.Errorf("who is fast waits %v: %v", time.Since(began), err)
		}
		for _, c := range slow {
			if _, err := io.ReadAll(c); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took != httpserver.HeaderTimeout {
			t.Errorf("they end after %v, want %v", took, httpserver.HeaderTimeout)
		}
		_ = good.Close()
	})
}

func TestPlainHTTPIsToldToUseTLS(t *testing.T) {
	s := newSite(t)
	resp, err := http.Get("http://" + s.listen(t, hello))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "https://") {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
}

// What can be read in two ways is refused over TLS, too.
func TestAmbiguousRequestsAreRefusedOverTLS(t *testing.T) {
	s := newSite(t)
	at := s.listen(t, hello)
	for _, protocols := range [][]string{nil, {"http/1.1"}} {
		c, err := tls.Dial("tcp", at, &tls.Config{RootCAs: s.Pool(), NextProtos: protocols})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(c)
		if !strings.HasPrefix(string(text), "HTTP/1.1 400 ") || strings.Count(string(text), "HTTP/1.1 ") != 1 {
			t.Errorf("answered with %q", text)
		}
		_ = c.Close()
	}
}

// A write that has timed out leaves a TLS connection useless, so deadlines that are put
// off must not be found by a write in their old place.
func TestADeadlineThatIsPutOffDoesNotBreakATLSConnection(t *testing.T) {
	s := newSite(t)
	s.load(t)
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		s.serve(t, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			out := http.NewResponseController(w)
			for range 10 { // each within its own time, all together not
				_ = out.SetWriteDeadline(time.Now().Add(10 * time.Second))
				_, _ = w.Write(make([]byte, 16<<10))
				_ = out.Flush()
			}
		}))
		raw, err := l.DialContext(t.Context(), "tcp", "")
		if err != nil {
			t.Fatal(err)
		}
		c := tls.Client(raw, &tls.Config{RootCAs: s.Pool(), ServerName: "127.0.0.1"})
		defer c.Close()
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReaderSize(slowly{c}, 4<<10), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if n, err := io.Copy(io.Discard, resp.Body); n != 10*16<<10 || err != nil {
			t.Errorf("%d bytes came: %v", n, err)
		}
	})
}

// slowly reads a little at a time.
type slowly struct{ io.Reader }

func (s slowly) Read(p []byte) (int, error) {
	time.Sleep(time.Second)
	return s.Reader.Read(p[:min(len(p), 4<<10)])
}

func TestShutdownEndsHandshakesAndWaitsForRequests(t *testing.T) {
	s := newSite(t)
	s.load(t)
	for _, test := range []struct{ protocol, method string }{{"http/1.1", "GET"}, {"http/1.1", "POST"}, {"h2", "GET"}} {
		synctest.Test(t, func(t *testing.T) {
			l := memnet.Listen()
			came := make(chan struct{})
			web := s.serve(t, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				close(came)
				time.Sleep(time.Second)
				hello(w, r)
			}))
			silent, err := l.DialContext(t.Context(), "tcp", "")
			if err != nil {
				t.Fatal(err)
			}
			tr := &http.Transport{
				DialContext: l.DialContext, TLSClientConfig: &tls.Config{RootCAs: s.Pool(), NextProtos: []string{test.protocol}}, ForceAttemptHTTP2: test.protocol == "h2",
			}
			defer tr.CloseIdleConnections()
			done := make(chan string)
			go func() { // ends with the answer
				text, _, err := ask(&http.Client{Transport: tr}, test.method, "https://127.0.0.1/")
				if err != nil {
					text = err.Error()
				}
				done <- text
			}()
			<-came
			if err := web.Shutdown(t.Context()); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
			if text := <-done; !strings.HasSuffix(text, " nobody") {
				t.Errorf("the request in flight: %q", text)
			}
			began := time.Now()
			if _, err := io.ReadAll(silent); err != nil || time.Since(began) > 0 {
				t.Errorf("a handshake continues for %v: %v", time.Since(began), err)
			}
			if _, err := l.DialContext(context.Background(), "tcp", ""); err == nil {
				t.Error("clients are still accepted")
			}
		})
	}
}
