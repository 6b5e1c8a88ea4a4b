package memnet

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Serve runs a test in a bubble of synctest, with a handler on a network in memory. Afterwards it
// calls stop, closes the server and lets time pass until all that ignored its end is over.
func Serve(t *testing.T, h http.Handler, stop func() error, test func(t *testing.T, l *Listener)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := Listen()
		server := &http.Server{Handler: h}
		done := make(chan struct{})
		go func() { // ends with server.Close
			defer close(done)
			_ = server.Serve(l)
		}()
		test(t, l)
		_ = stop()
		_ = server.Close()
		<-done
		time.Sleep(2 * time.Hour)
	})
}

// Send sends a request of JSON with lines of headers on a connection of its own, of which nothing
// is read, and waits until the server has done what it can.
func (l *Listener) Send(t *testing.T, method, path, body string, header ...string) net.Conn {
	t.Helper()
	conn, err := l.DialContext(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	lines := append([]string{
		method + " " + path + " HTTP/1.1", "Host: localhost", "Content-Type: application/json", "Content-Length: " + strconv.Itoa(len(body)),
	}, header...)
	if _, err := io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n\r\n"+body); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return conn
}

// Response returns the response on a connection, with its body.
func Response(t *testing.T, conn net.Conn) (*http.Response, string) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("the response broke off: %v", err)
	}
	return resp, string(text)
}
