package fastpost_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/internal/wire/fastpost"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
)

// Times of the servers.
const (
	headerTime = 5 * time.Second
	idleTime   = 2 * time.Minute
)

// A site is a network in memory with a server of net/http, and before it, unless it is the
// one to compare with, a direct one.
type site struct {
	*memnet.Listener
	direct *fastpost.Server // may be nil
	rest   *http.Server

	mu     sync.Mutex
	passed int // connections that the direct one has passed on; guarded by mu
}

// newSite returns a site that is there for the rest of the bubble.
func newSite(t *testing.T, h http.Handler, isDirect bool) *site {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	s := &site{Listener: memnet.Listen(), rest: &http.Server{
		Handler: h, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, ErrorLog: slog.NewLogLogger(quiet.Handler(), slog.LevelDebug),
	}}
	if isDirect {
		s.direct = &fastpost.Server{HTTP: s.rest, Handler: h, Header: headerTime, Idle: idleTime, Log: quiet}
	}
	done := make(chan struct{})
	go func() { // ends with Close
		defer close(done)
		_ = s.rest.Serve(s)
	}()
	t.Cleanup(func() {
		if isDirect {
			_ = s.direct.Close()
		}
		_ = s.rest.Close()
		<-done
		time.Sleep(time.Hour) // handlers that sleep end, and connections that Go 1.27 leaves half open for 500 ms
	})
	return s
}

// Accept returns the next connection that is for net/http.
func (s *site) Accept() (net.Conn, error) {
	for {
		c, err := s.Listener.Accept()
		if err != nil {
			return nil, err
		}
		in := httpframe.New(c, &httpframe.Options{Idle: idleTime, Header: headerTime})
		if s.direct == nil {
			return in, nil
		}
		go func() { // ends with the connection
			if s.direct.ServeConn(in) {
				s.mu.Lock()
				s.passed++
				s.mu.Unlock()
				_ = s.rest.Serve(&one{c: in, addr: s.Addr()})
			}
		}()
	}
}

func (s *site) passedOn() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.passed
}

// one is a listener with one connection.
type one struct {
	c    net.Conn
	addr net.Addr
}

func (o *one) Accept() (net.Conn, error) {
	c := o.c
	if o.c = nil; c == nil {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (o *one) Close() error   { return nil }
func (o *one) Addr() net.Addr { return o.addr }

func (s *site) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := s.DialContext(t.Context(), "tcp", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// transcript sends pieces of bytes on a connection and returns all that is answered, as
// text without dates, with how and after how long the connection ends. Nothing is sent for
// an hour in the end. Whether a head that does not come to its end is answered depends, in
// net/http, on where it is cut, so such answers are left out.
func (s *site) transcript(t *testing.T, pieces ...string) string {
	t.Helper()
	c := s.dial(t)
	var sending sync.WaitGroup
	sending.Go(func() { // ends when all is sent, or the connection has ended
		for _, p := range pieces {
			if _, err := io.WriteString(c, p); err != nil {
				return
			}
			synctest.Wait()
		}
	})
	defer sending.Wait()
	defer c.Close()
	began := time.Now()
	_ = c.SetReadDeadline(began.Add(time.Hour))
	in := bufio.NewReader(c)
	var out strings.Builder
	for before := began; ; before = time.Now() {
		resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodPost})
		if err != nil {
			fmt.Fprintf(&out, "%v after %v", err, time.Since(began))
			return out.String()
		}
		if resp.StatusCode == http.StatusBadRequest && time.Since(before) == headerTime {
			_, _ = io.Copy(io.Discard, resp.Body)
			continue
		}
		resp.Header.Del("Date")
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		fmt.Fprintf(&out, "%s %d %v close=%v", resp.Status, resp.ContentLength, resp.TransferEncoding, resp.Close)
		for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
			fmt.Fprintf(&out, " %s=%q", name, resp.Header[name])
		}
		fmt.Fprintf(&out, " %q %v\n", body, err)
	}
}

// post returns a request with headers, each with its line end, and a body.
func post(target, headers, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n%s", target, headers, len(body), body)
}
