package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/memnet"
)

// atListener runs a test with a connection to an HTTP server behind a listener, in a
// bubble.
func atListener(t *testing.T, test func(t *testing.T, c net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		web := newHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }), logger(false))
		done := make(chan struct{})
		go func() { // ends with Close
			defer close(done)
			_ = web.Serve(&listener{Listener: l, http: true})
		}()
		c, err := l.DialContext(t.Context(), "tcp", "")
		if err != nil {
			t.Fatal(err)
		}
		test(t, c)
		_ = c.Close()
		_ = web.Close()
		<-done
	})
}

func TestConnectionThatIsOpenedInAdvanceWaitsForItsFirstRequest(t *testing.T) {
	atListener(t, func(t *testing.T, c net.Conn) {
		for range 3 {
			time.Sleep(idleTimeout - time.Second)
			if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatalf("the connection was closed before its request: %v", err)
			}
			if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "hello" {
				t.Errorf("got %q, %v", text, err)
			}
			_ = resp.Body.Close()
		}
	})
}

func TestS12_ConnectionThatIsNeverUsedIsClosed(t *testing.T) {
	atListener(t, func(t *testing.T, c net.Conn) {
		began := time.Now()
		if _, err := io.ReadAll(c); err != nil || time.Since(began) != idleTimeout {
			t.Errorf("it ends after %v with %v, want %v", time.Since(began), err, idleTimeout)
		}
	})
}

func TestS12_HeadersHaveTheirTimeFromTheFirstByteOn(t *testing.T) {
	atListener(t, func(t *testing.T, c net.Conn) {
		time.Sleep(idleTimeout / 2)
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := io.ReadAll(c); err != nil || time.Since(began) != headerTimeout {
			t.Errorf("it ends after %v with %v, want %v", time.Since(began), err, headerTimeout)
		}
	})
}
