package httpframe_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
)

// A listener is a network in memory whose connections are strict.
type listener struct{ *memnet.Listener }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		c = httpframe.New(c, nil)
	}
	return c, err
}

// A server notes the requests that it answers, each as "METHOD target body trailer".
// It serves one at a time.
type server struct {
	http.Server
	seen []string
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	s.seen = append(s.seen, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", r.Method, r.RequestURI, body, r.Trailer.Get("X-Sum"))))
}

// serve runs a test with a connection to the server, in a bubble. When the test is
// over, so is the connection, and what the server has seen can be looked at.
func (s *server) serve(t *testing.T, test func(c net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := listener{memnet.Listen()}
		if s.Handler == nil {
			s.Handler = s
		}
		done := make(chan struct{})
		go func() { // ends with Close
			defer close(done)
			_ = s.Serve(l)
		}()
		c, err := l.DialContext(t.Context(), "tcp", "")
		if err != nil {
			t.Fatal(err)
		}
		test(c)
		_ = c.Close()
		synctest.Wait()
		_ = s.Close()
		<-done
	})
}

// exchange sends pieces of bytes and returns the statuses of all answers, up to the end
// of the connection, which is cut after an hour. methods are those of the requests, as
// far as they are not GET.
func exchange(t *testing.T, c net.Conn, pieces [][]byte, methods ...string) (statuses []int, cut bool) {
	t.Helper()
	written := make(chan struct{})
	go func() { // ends when all is written, or the connection has ended
		defer close(written)
		for _, p := range pieces {
			if _, err := c.Write(p); err != nil {
				return
			}
			synctest.Wait()
		}
	}()
	defer func() { <-written }()
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(time.Hour))
	in := bufio.NewReader(c)
	for i := 0; ; i++ {
		req := &http.Request{Method: http.MethodGet}
		if i < len(methods) {
			req.Method = methods[i]
		}
		resp, err := http.ReadResponse(in, req)
		if err != nil {
			var timeout net.Error
			return statuses, errors.As(err, &timeout) && timeout.Timeout()
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		statuses = append(statuses, resp.StatusCode)
	}
}

// split returns b in pieces of a size, or in two of which the first has -size bytes.
func split(b string, size int) [][]byte {
	if size < 0 {
		return [][]byte{[]byte(b[:-size]), []byte(b[-size:])}
	}
	return slices.Collect(slices.Chunk([]byte(b), size))
}

const (
	good     = "POST /good HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc"
	smuggled = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
)

// heads are requests that can be read in more than one way, by what is wrong.
var heads = map[string]string{
	"length and coding":                  "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"coding and length":                  "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
	"length and coding in other case":    "POST / HTTP/1.1\r\nHost: a\r\ncontent-length: 5\r\nTRANSFER-ENCODING:chunked\r\n\r\n0\r\n\r\n",
	"length and unknown coding":          "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nTransfer-Encoding: xchunked\r\n\r\n",
	"length twice":                       "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
	"two lengths":                        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\nabcde",
	"list of lengths":                    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0, 0\r\n\r\n",
	"length with a sign":                 "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +0\r\n\r\n",
	"length in hexadecimal":              "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x0\r\n\r\n",
	"length without digits":              "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\n",
	"length beyond all numbers":          "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n\r\n",
	"coding twice":                       "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"coding twice, one unknown":          "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"coding in HTTP/1.0":                 "POST / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"bare LF behind the request line":    "GET / HTTP/1.1\nHost: a\r\n\r\n",
	"bare LF behind a field":             "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
	"bare LF at the end of the head":     "GET / HTTP/1.1\r\nHost: a\r\n\n",
	"bare LF before the request line":    "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"bare CR in a field":                 "GET / HTTP/1.1\r\nHost: a\r\nX: y\rContent-Length: 5\r\n\r\n",
	"bare CR at the end of a line":       "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n",
	"bare CR in the request line":        "GET /\r HTTP/1.1\r\nHost: a\r\n\r\n",
	"field that continues":               "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n",
	"field that continues with a coding": "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
	"field that continues like another":  "POST / HTTP/1.1\r\nHost: a\r\nX: y\r\n Content-Length: 5\r\n\r\n",
	"field that continues behind a tab":  "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\tz\r\n\r\n",
	"indented first field":               "GET / HTTP/1.1\r\n Host: a\r\n\r\n",
	"space before the colon":             "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 3\r\n\r\nabc",
	"tab before the colon":               "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n",
	"field without a colon":              "GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n",
	"other host in the target":           "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
	"other host, Host before":            "GET HTTP://b HTTP/1.1\r\nX: y\r\nHost: a\r\nX: y\r\n\r\n",
	"other port in the target":           "GET http://a:1/ HTTP/1.1\r\nHost: a\r\n\r\n",
	"user in the target":                 "GET http://a@b/ HTTP/1.1\r\nHost: b\r\n\r\n",
	"no host in the target":              "GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n",
	"target that is neither path or URL": "GET http:x HTTP/1.1\r\nHost: a\r\n\r\n",
}

func TestAmbiguousRequestsAreRefused(t *testing.T) {
	for name, head := range heads {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1 << 20, 7, 1} {
				var alone server
				alone.serve(t, func(c net.Conn) {
					statuses, cut := exchange(t, c, split(head+smuggled, size))
					if !slices.Equal(statuses, []int{400}) || cut {
						t.Errorf("in pieces of %d: answered with %v, cut by the client: %v; want one 400 and a close", size, statuses, cut)
					}
				})
				if len(alone.seen) > 0 {
					t.Errorf("in pieces of %d: served %q", size, alone.seen)
				}
				var behind server
				behind.serve(t, func(c net.Conn) {
					statuses, cut := exchange(t, c, split(good+head+smuggled, size))
					if !slices.Equal(statuses, []int{200, 400}) || cut {
						t.Errorf("behind a good one, in pieces of %d: answered with %v, cut by the client: %v; want 200, 400 and a close", size, statuses, cut)
					}
				})
				if !slices.Equal(behind.seen, []string{"POST /good abc"}) {
					t.Errorf("behind a good one, in pieces of %d: served %q", size, behind.seen)
				}
			}
		})
	}
}

func TestBodiesThatAreAmbiguousEndTheConnection(t *testing.T) {
	const head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, body := range map[string]string{
		"size and a space":                "3 \r\nabc\r\n0\r\n\r\n",
		"size behind a space":             " 3\r\nabc\r\n0\r\n\r\n",
		"size and a space and extension":  "3 ;x=y\r\nabc\r\n0\r\n\r\n",
		"size with a prefix":              "0x3\r\nabc\r\n0\r\n\r\n",
		"size with a sign":                "+3\r\nabc\r\n0\r\n\r\n",
		"size with an underscore":         "0_3\r\nabc\r\n0\r\n\r\n",
		"no size":                         "\r\nabc\r\n0\r\n\r\n",
		"size of nothing but extension":   ";x\r\nabc\r\n0\r\n\r\n",
		"size beyond all numbers":         "10000000000000003\r\nabc\r\n0\r\n\r\n",
		"bare LF behind a size":           "3\nabc\r\n0\r\n\r\n",
		"bare CR in an extension":         "3;x\ry\r\nabc\r\n0\r\n\r\n",
		"bare LF behind a chunk":          "3\r\nabc\n0\r\n\r\n",
		"more than a chunk":               "3\r\nabcd\r\n0\r\n\r\n",
		"bare LF behind the last chunk":   "3\r\nabc\r\n0\r\n\n",
		"trailer with a bare LF":          "3\r\nabc\r\n0\r\nX: y\nZ: z\r\n\r\n",
		"trailer that continues":          "3\r\nabc\r\n0\r\nX: y\r\n z\r\n\r\n",
		"trailer that continues like one": "3\r\nabc\r\n0\r\nX: y\r\n Z: z\r\n\r\n",
		"trailer with a space":            "3\r\nabc\r\n0\r\nX : y\r\n\r\n",
		"trailer with a length":           "3\r\nabc\r\n0\r\nContent-Length: 5\r\n\r\n",
		"trailer with a coding":           "3\r\nabc\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
		"trailer with a host":             "3\r\nabc\r\n0\r\nhost: b\r\n\r\n",
		"extension without end":           "3;" + strings.Repeat("x", 5000) + "\r\nabc\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1 << 20, 7, 1} {
				var s server
				s.serve(t, func(c net.Conn) {
					statuses, cut := exchange(t, c, split(head+body+smuggled, size))
					if !slices.Equal(statuses, []int{400}) || cut {
						t.Errorf("in pieces of %d: answered with %v, cut by the client: %v; want one 400 and a close", size, statuses, cut)
					}
				})
				if len(s.seen) > 0 {
					t.Errorf("in pieces of %d: served %q", size, s.seen)
				}
			}
		})
	}
}

// plain are requests, one behind the other, and what is served.
var plain = map[string]struct {
	raw  string
	seen []string
}{
	"one": {good, []string{"POST /good abc"}},
	"pipelined": {
		good + smuggled + good + "DELETE /x HTTP/1.1\r\nHost: a\r\n\r\n" + good,
		[]string{"POST /good abc", "GET /smuggled", "POST /good abc", "DELETE /x", "POST /good abc"},
	},
	"chunked with trailers": {
		"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked \r\nTrailer: X-Sum\r\n\r\n" +
			"3\r\nabc\r\n00A;x=\"y\"\r\n0123\r\n6789\r\n0\r\nX-Sum: 13\r\n\r\n" + smuggled,
		[]string{"POST /a abc0123\r\n6789 13", "GET /smuggled"},
	},
	"empty bodies": {
		"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n" +
			"POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nPOST /c HTTP/1.1\r\nHost: a\r\n\r\n" + smuggled,
		[]string{"POST /a", "POST /b", "POST /c", "GET /smuggled"},
	},
	"bodies that look like requests": {
		fmt.Sprintf("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length:\t%d \r\n\r\n%s%s", len(smuggled), smuggled, smuggled),
		[]string{"POST /a " + strings.TrimSpace(smuggled), "GET /smuggled"},
	},
	"empty line behind a body": {good + "\r\n" + smuggled, []string{"POST /good abc", "GET /smuggled"}},
	"targets in all forms": { // net/http answers OPTIONS * itself
		"GET http://LOCALHOST:80/x HTTP/1.1\r\nHost: localhost:80\r\n\r\nGET http://a?b HTTP/1.1\r\nHost:a\r\n\r\nOPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n" +
			"GET //b/x://y HTTP/1.1\r\nHost: a\r\n\r\nCONNECT b:1 HTTP/1.1\r\nHost: b:1\r\n\r\n", // behind CONNECT Go 1.27 reads nothing
		[]string{"GET http://LOCALHOST:80/x", "GET http://a?b", "GET //b/x://y", "CONNECT b:1"},
	},
	"HTTP/1.0": {
		"POST /a HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabcGET /b HTTP/1.0\r\n\r\n",
		[]string{"POST /a abc", "GET /b"},
	},
	"fields of all kinds": {
		"GET /a HTTP/1.1\r\nHost: a\r\nEmpty:\r\nX-Content-Length: 9\r\nTransfer-Encodings: chunked\r\nX-Colons: a:b : c\r\nLong: " +
			strings.Repeat("x", 5000) + "\r\n\r\n" + smuggled,
		[]string{"GET /a", "GET /smuggled"},
	},
}

func TestPlainRequestsPass(t *testing.T) {
	for name, row := range plain {
		t.Run(name, func(t *testing.T) {
			sizes := []int{1 << 20, 1, 2, 3}
			for i := 1; i < min(len(row.raw), 600); i++ {
				sizes = append(sizes, -i) // in two, at every byte
			}
			for _, size := range sizes {
				var s server
				s.serve(t, func(c net.Conn) {
					raw := strings.TrimSuffix(row.raw, "\r\n\r\n")
					if raw != row.raw {
						raw += "\r\nConnection: close\r\n\r\n"
					}
					if -size >= len(raw) {
						return
					}
					statuses, _ := exchange(t, c, split(raw, size))
					for _, status := range statuses {
						if status != 200 {
							t.Errorf("in pieces of %d: answered with %v", size, statuses)
						}
					}
				})
				if !slices.Equal(s.seen, row.seen) {
					t.Fatalf("in pieces of %d: served %q, want %q", size, s.seen, row.seen)
				}
			}
		})
	}
}

func TestLargeBodiesPass(t *testing.T) {
	body := strings.Repeat("0123456789\r\n", 100_000)
	chunks := fmt.Sprintf("%x\r\n%s\r\n1\r\nx\r\n0\r\n\r\n", len(body), body)
	var s server
	s.serve(t, func(c net.Conn) {
		raw := fmt.Sprintf("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body), body) +
			"POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + chunks
		if statuses, _ := exchange(t, c, split(raw, 5000)); !slices.Equal(statuses, []int{200, 200}) {
			t.Errorf("answered with %v", statuses)
		}
	})
	if want := []string{strings.TrimSpace("POST /a " + body), "POST /b " + body + "x"}; !slices.Equal(s.seen, want) {
		t.Error("the bodies differ")
	}
}

func TestCodingThatNobodyKnowsIsAnsweredWith501(t *testing.T) {
	var s server
	s.serve(t, func(c net.Conn) {
		statuses, cut := exchange(t, c, split("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"+smuggled, 1))
		if !slices.Equal(statuses, []int{501}) || cut {
			t.Errorf("answered with %v", statuses)
		}
	})
	if len(s.seen) > 0 {
		t.Errorf("served %q", s.seen)
	}
}

func TestRefusalDoesNotEndTheRequestBefore(t *testing.T) {
	var s server
	s.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(time.Second)
		if err := r.Context().Err(); err != nil {
			t.Errorf("the request was ended: %v", err)
		}
	})
	s.serve(t, func(c net.Conn) {
		if statuses, _ := exchange(t, c, split(good+"\n"+smuggled, len(good))); !slices.Equal(statuses, []int{200, 400}) {
			t.Errorf("answered with %v", statuses)
		}
	})
}

func TestBodyIsSentWhenTheServerSaysContinue(t *testing.T) {
	var s server
	s.serve(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		for range 2 {
			_, _ = io.WriteString(c, "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
			for _, want := range []int{100, 200} {
				resp, err := http.ReadResponse(in, nil)
				if err != nil || resp.StatusCode != want {
					t.Fatalf("got %v, %v; want %d", resp, err, want)
				}
				_ = resp.Body.Close()
				if want == 100 {
					_, _ = io.WriteString(c, "abc")
				}
			}
		}
	})
	if !slices.Equal(s.seen, []string{"POST /a abc", "POST /a abc"}) {
		t.Errorf("served %q", s.seen)
	}
}

// upgrading is a handler that grants requests to /echo another protocol, in which all
// that is said comes back.
var upgrading = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/echo" {
		w.WriteHeader(http.StatusUpgradeRequired)
		return
	}
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", "echo")
	w.WriteHeader(http.StatusSwitchingProtocols)
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = io.Copy(c, rw)
})

const asksUpgrade = " HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"

func TestAnythingPassesAfterAnUpgrade(t *testing.T) {
	var s server
	s.Handler = upgrading
	s.serve(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		for _, row := range []struct {
			target string
			status int
		}{{"/", 426}, {"/echo", 101}} {
			_, _ = io.WriteString(c, "GET "+row.target+asksUpgrade)
			resp, err := http.ReadResponse(in, nil)
			if err != nil || resp.StatusCode != row.status {
				t.Fatalf("got %v, %v; want %d", resp, err, row.status)
			}
			_ = resp.Body.Close()
		}
		for range 3 {
			said := []byte("\n\r\x00 no HTTP : \n\n" + heads["length and coding"])
			go func() { _, _ = c.Write(said) }() // ends when all is read, or the connection has ended
			got := make([]byte, len(said))
			if _, err := io.ReadFull(in, got); err != nil || !bytes.Equal(got, said) {
				t.Fatalf("got %q, %v", got, err)
			}
		}
	})
}

func TestUpgradeThatIsNotGrantedLetsNothingPass(t *testing.T) {
	var s server
	s.Handler = upgrading
	s.serve(t, func(c net.Conn) {
		statuses, cut := exchange(t, c, split("GET /"+asksUpgrade+heads["length and coding"]+smuggled, 1))
		if !slices.Equal(statuses, []int{426, 400}) || cut {
			t.Errorf("answered with %v", statuses)
		}
	})
}

func TestHTTP2Passes(t *testing.T) {
	var s server
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	s.serve(t, func(c net.Conn) {
		tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return c, nil }, Protocols: new(http.Protocols)}
		tr.Protocols.SetUnencryptedHTTP2(true)
		for range 2 {
			resp, err := (&http.Client{Transport: tr}).Post("http://a/x", "text/plain", strings.NewReader("\nabc\n"))
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.ProtoMajor != 2 || resp.StatusCode != 200 {
				t.Errorf("got %s %s", resp.Proto, resp.Status)
			}
		}
		tr.CloseIdleConnections()
	})
	if want := "POST /x \nabc"; !slices.Equal(s.seen, []string{want, want}) {
		t.Errorf("served %q", s.seen)
	}
}

func TestPrefaceOfHTTP2HidesNoRequest(t *testing.T) {
	for _, raw := range []string{
		"PRI * HTTP/2.0\r\n\r\n",
		"PRI * HTTP/2.0\r\nHost: a\r\nX: y\nZ: z\r\n\r\n",
		"PRI * HTTP/2.0\r\nHost: a\r\n\r\n" + heads["length and coding"],
		good + "PRI * HTTP/2.0\r\n\r\n",
	} {
		var s server
		s.serve(t, func(c net.Conn) {
			if _, cut := exchange(t, c, split(raw+smuggled, 1)); cut {
				t.Errorf("%q leaves the connection open", raw)
			}
		})
		if slices.Contains(s.seen, "GET /smuggled") {
			t.Errorf("%q: served %q", raw, s.seen)
		}
	}
}
