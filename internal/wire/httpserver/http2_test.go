package httpserver_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
)

const (
	preface  = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	ackPing  = "\x00\x00\x08\x06\x01\x00\x00\x00\x00"

	// getRequest is the headers of GET https://a/, by the static table of HPACK.
	getRequest = "\x82\x87\x84\x41\x01a"
)

// frame returns a frame of a stream.
func frame(kind, flags byte, stream uint32, payload string) string {
	head := make([]byte, 9)
	binary.BigEndian.PutUint32(head, uint32(len(payload))<<8|uint32(kind))
	head[4] = flags
	binary.BigEndian.PutUint32(head[5:], stream)
	return string(head) + payload
}

// at2 runs a test with a connection whose server expects HTTP/2, in a bubble.
func at2(t *testing.T, h http.HandlerFunc, test func(t *testing.T, c *tls.Conn)) {
	t.Helper()
	s := newSite(t)
	s.load(t)
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		s.serve(t, l, h)
		raw, err := l.DialContext(t.Context(), "tcp", "")
		if err != nil {
			t.Fatal(err)
		}
		c := tls.Client(raw, &tls.Config{RootCAs: s.Pool(), ServerName: "127.0.0.1", NextProtos: []string{"h2"}})
		if err := c.HandshakeContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		test(t, c)
	})
}

// ends reads until the connection does, and returns how long that took. It answers pings
// if that is wanted.
func ends(c *tls.Conn, pong bool) time.Duration {
	began := time.Now()
	head := make([]byte, 9)
	for {
		if _, err := io.ReadFull(c, head); err != nil {
			return time.Since(began)
		}
		payload := make([]byte, binary.BigEndian.Uint32(head)>>8)
		if _, err := io.ReadFull(c, payload); err != nil {
			return time.Since(began)
		}
		if head[3] == 6 && pong {
			_, _ = io.WriteString(c, ackPing+string(payload))
		}
	}
}

// send writes pieces, a second apart.
func send(c *tls.Conn, pieces ...string) {
	for i, p := range pieces {
		if i > 0 {
			time.Sleep(time.Second)
		}
		if _, err := io.WriteString(c, p); err != nil {
			return
		}
	}
}

func TestS12_SlowFramesOfHTTP2AreCut(t *testing.T) {
	begun := preface + settings
	headers, endless := frame(1, 5, 1, getRequest), frame(1, 1, 1, getRequest)
	for name, pieces := range map[string][]string{
		"half of a preface":            {"PRI * HT"},
		"half of the head of a frame":  {begun + "\x00\x00"},
		"half of headers":              {begun + headers[:12]},
		"headers byte by byte":         append([]string{begun + headers[:1]}, strings.Split(headers[1:], "")...),
		"headers without an end":       {begun + endless},
		"headers that continue and on": append([]string{begun + endless}, slices.Repeat([]string{frame(9, 0, 1, "")}, 20)...),
	} {
		t.Run(name, func(t *testing.T) {
			at2(t, hello, func(t *testing.T, c *tls.Conn) {
				var writing sync.WaitGroup
				writing.Go(func() { send(c, pieces...) }) // ends with the pieces, or with the connection
				if got := ends(c, true); got != httpserver.HeaderTimeout {
					t.Errorf("it ends after %v, want %v", got, httpserver.HeaderTimeout)
				}
				writing.Wait()
			})
		})
	}
}

func TestBodiesOfHTTP2MayTakeLongerThanHeaders(t *testing.T) {
	got, body := make(chan string, 1), frame(0, 1, 1, "hello there")
	at2(t, func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		got <- string(text)
	}, func(t *testing.T, c *tls.Conn) {
		var writing sync.WaitGroup
		writing.Go(func() { // ends with the pieces
			send(c, append([]string{preface + settings + frame(1, 4, 1, "\x83\x87\x84\x41\x01a") + body[:9]}, strings.Split(body[9:], "")...)...)
			time.Sleep(time.Second)
			_ = c.NetConn().Close()
		})
		ends(c, true)
		writing.Wait()
	})
	if text := <-got; text != "hello there" {
		t.Errorf("the body is %q", text)
	}
}

func TestClientOfHTTP2ThatVanishesIsNoticed(t *testing.T) {
	var left atomic.Int64
	at2(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		began := time.Now()
		<-r.Context().Done()
		left.Store(int64(time.Since(began)))
	}, func(t *testing.T, c *tls.Conn) {
		if _, err := io.WriteString(c, preface+settings+frame(1, 5, 1, getRequest)); err != nil {
			t.Fatal(err)
		}
		ends(c, false)
		synctest.Wait()
	})
	if d := time.Duration(left.Load()); d == 0 || d > 30*time.Second {
		t.Errorf("it is noticed after %v", d)
	}
}

func TestUnusedConnectionOfHTTP2IsClosed(t *testing.T) {
	at2(t, hello, func(t *testing.T, c *tls.Conn) {
		if _, err := io.WriteString(c, preface+settings); err != nil {
			t.Fatal(err)
		}
		if took := ends(c, true); took < httpserver.IdleTimeout || took > httpserver.IdleTimeout+5*time.Second {
			t.Errorf("it ends after %v", took)
		}
	})
}

// A client that opens streams and resets them at once has its work done by no more
// handlers than it may have streams, and is cut.
func TestS12_StreamsThatAreResetAtOnceAreCut(t *testing.T) {
	var running, most atomic.Int64
	at2(t, func(_ http.ResponseWriter, r *http.Request) {
		n := running.Add(1)
		for {
			seen := most.Load()
			if n <= seen || most.CompareAndSwap(seen, n) {
				break
			}
		}
		<-r.Context().Done()
		running.Add(-1)
	}, func(t *testing.T, c *tls.Conn) {
		sent := 0
		var writing sync.WaitGroup
		writing.Go(func() { // ends with the connection
			if _, err := io.WriteString(c, preface+settings); err != nil {
				return
			}
			for ; sent < 100_000; sent++ {
				stream := uint32(2*sent + 1)
				if _, err := io.WriteString(c, frame(1, 5, stream, getRequest)+frame(3, 0, stream, "\x00\x00\x00\x08")); err != nil {
					return
				}
			}
		})
		ends(c, true)
		writing.Wait()
		if sent > 2000 {
			t.Errorf("%d streams were reset", sent)
		}
	})
	if most.Load() > 256 {
		t.Errorf("%d handlers at once", most.Load())
	}
}

// A client that sends frames which carry nothing, and reads every answer, is cut.
func TestS12_FramesThatCarryNothingAreCut(t *testing.T) {
	for name, flood := range map[string]string{
		"SETTINGS":            settings,
		"SETTINGS with one":   frame(4, 0, 0, "\x00\x04\x00\x01\x00\x00"),
		"PRIORITY":            frame(2, 0, 1, "\x00\x00\x00\x00\x10"),
		"PRIORITY of another": frame(2, 0, 9, "\x00\x00\x00\x00\x10"),
		"PRIORITY_UPDATE":     frame(16, 0, 0, "\x00\x00\x00\x01u=1"),
		"PING":                frame(6, 0, 0, "01234567"),
		"answers to no PING":  frame(6, 1, 0, "01234567"),
		"unknown frames":      frame(0xbe, 0, 0, ""),
		"empty DATA":          frame(0, 0, 1, ""),
	} {
		t.Run(name, func(t *testing.T) {
			at2(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, func(t *testing.T, c *tls.Conn) {
				sent := 0
				var writing sync.WaitGroup
				writing.Go(func() { // ends with the connection, or the flood
					defer c.NetConn().Close()
					if _, err := io.WriteString(c, preface+settings+frame(1, 4, 1, "\x83\x87\x84\x41\x01a")); err != nil {
						return
					}
					for ; sent < 20_000; sent++ {
						if _, err := io.WriteString(c, flood); err != nil {
							return
						}
					}
				})
				ends(c, true)
				writing.Wait()
				if sent > 4000 {
					t.Errorf("%d were sent", sent)
				}
			})
		})
	}
}

// A client that asks now and then whether the connection is there is not cut.
func TestFramesThatCarryNothingMayComeNowAndThen(t *testing.T) {
	at2(t, hello, func(t *testing.T, c *tls.Conn) {
		var writing sync.WaitGroup
		began := time.Now()
		var last time.Duration
		writing.Go(func() { // ends with the pieces
			defer c.NetConn().Close()
			for i := range 60 {
				pieces := strings.Repeat(frame(6, 0, 0, "01234567")+frame(2, 0, 1, "\x00\x00\x00\x00\x10"), 50)
				if i == 0 {
					pieces = preface + settings
				}
				if _, err := io.WriteString(c, pieces); err != nil {
					return
				}
				last = time.Since(began)
				time.Sleep(time.Second)
			}
		})
		ends(c, true)
		writing.Wait()
		if last != 59*time.Second {
			t.Errorf("it is cut after %v", last)
		}
	})
}

// Requests that a proxy may read in another way than we do are refused, as those of HTTP/1.1 are. The same
// length twice is one length (RFC 9110, 8.6): net/http of Go 1.27 makes one of them before we see it.
func TestAmbiguousRequestsOfHTTP2AreRefused(t *testing.T) {
	const get, post, path, length = "\x82\x87\x41\x01a", "\x83\x87\x41\x01a", "\x04", "\x0f\x0d"
	field := func(name, value string) string { return name + string(rune(len(value))) + value }
	for name, row := range map[string]struct {
		headers string
		reaches bool
	}{
		"a path":                         {get + field(path, "/mcp?x=http://b/"), true},
		"a path that begins with two":    {get + field(path, "//b/mcp"), true},
		"a scheme":                       {get + field(path, "http://b/mcp"), false},
		"a scheme and the same host":     {get + field(path, "https://a/mcp"), false},
		"a scheme alone":                 {get + field(path, "http:/mcp"), false},
		"a scheme without a slash":       {get + field(path, "mailto:b"), false},
		"a length":                       {post + field(path, "/") + field(length, "0"), true},
		"two lengths":                    {post + field(path, "/") + field(length, "0") + field(length, "5"), false},
		"two lengths, the first good":    {post + field(path, "/") + field(length, "5") + field(length, "0"), false},
		"a list of lengths":              {post + field(path, "/") + field(length, "0, 0"), false},
		"a length with a sign":           {post + field(path, "/") + field(length, "+0"), false},
		"a length with a zero before it": {post + field(path, "/") + field(length, "00"), false},
		"a length that is no number":     {post + field(path, "/") + field(length, "x"), false},
		"an empty length":                {post + field(path, "/") + field(length, ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			var reached atomic.Bool
			at2(t, func(http.ResponseWriter, *http.Request) { reached.Store(true) }, func(t *testing.T, c *tls.Conn) {
				var writing sync.WaitGroup
				writing.Go(func() { // ends a second after all is sent
					defer c.NetConn().Close()
					send(c, preface+settings+frame(1, 5, 1, row.headers), "")
				})
				ends(c, true)
				writing.Wait()
				synctest.Wait()
			})
			if reached.Load() != row.reaches {
				t.Errorf("it reaches the handler: %v", !row.reaches)
			}
		})
	}
}

// Who cancels now and then is not cut.
func TestStreamsMayBeResetNowAndThen(t *testing.T) {
	s := newSite(t)
	s.load(t)
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		s.serve(t, l, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		conns := 0
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.Pool()}, ForceAttemptHTTP2: true}
		tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conns++
			return l.DialContext(ctx, network, addr)
		}
		defer tr.CloseIdleConnections()
		for range 3000 {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "https://127.0.0.1/", nil)
			if _, err := (&http.Client{Transport: tr}).Do(req); err == nil || ctx.Err() == nil {
				t.Fatalf("the request ends by itself: %v", err)
			}
			cancel()
		}
		if conns != 1 {
			t.Errorf("%d connections were needed", conns)
		}
	})
}

func TestS14_HeadersOfHTTP2AreBounded(t *testing.T) {
	s := newSite(t)
	at := "https://" + s.listen(t, hello)
	for size, want := range map[int]int{8 << 10: http.StatusOK, 40 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Large", string(bytes.Repeat([]byte("x"), size)))
		resp, err := s.client(t, true).Do(req)
		if err != nil {
			if want == http.StatusOK {
				t.Errorf("%d bytes: %v", size, err)
			}
			continue // the client knows the limit from the server's settings
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%d bytes: %d, want %d", size, resp.StatusCode, want)
		}
	}
}
