package httpserver_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
)

const plainJSON = "application/json"

func status(err error) int {
	var refusal *httpserver.Refusal
	if errors.As(err, &refusal) {
		return refusal.Status
	}
	return 0
}

// readBody returns what an endpoint's request has as its body. It leaves the answer to the
// caller.
func readBody(w http.ResponseWriter, r *http.Request, limit int, timeout time.Duration) (body []byte, err error) {
	endpoint := httpserver.NewBase(&httpserver.BaseOptions{Trusted: true, MaxMessage: limit, BodyTimeout: timeout})
	endpoint.Serve(w, r, func(x *httpserver.Exchange) error {
		body, err = x.Body()
		return nil
	})
	return body, err
}

func TestS10_S21_BodyIsReadIfItIsPlainJSON(t *testing.T) {
	for _, test := range []struct {
		name   string
		header []string
		want   int // the status of the refusal, or 0
	}{
		{"JSON", []string{"Content-Type", plainJSON}, 0},
		{"JSON in UTF-8", []string{"Content-Type", "Application/JSON; Charset=\"UTF-8\""}, 0},
		{"JSON with another parameter", []string{"Content-Type", "application/json; v=1"}, 0},
		{"JSON in UTF-16", []string{"Content-Type", "application/json; charset=utf-16"}, 415},
		{"JSON in Latin-1", []string{"Content-Type", "application/json; charset=iso-8859-1"}, 415},
		{"no type", nil, 415},
		{"empty type", []string{"Content-Type", ""}, 415},
		{"type twice", []string{"Content-Type", plainJSON, "Content-Type", plainJSON}, 415},
		{"text", []string{"Content-Type", "text/plain"}, 415},
		{"a form", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415},
		{"multipart", []string{"Content-Type", "multipart/form-data; boundary=x"}, 415},
		{"something like JSON", []string{"Content-Type", "application/json-rpc"}, 415},
		{"two types in one", []string{"Content-Type", "application/json, text/plain"}, 415},
		{"compressed", []string{"Content-Type", plainJSON, "Content-Encoding", "gzip"}, 415},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/mcp", strings.NewReader("{}"))
			for i := 0; i < len(test.header); i += 2 {
				r.Header.Add(test.header[i], test.header[i+1])
			}
			body, err := readBody(httptest.NewRecorder(), r, 100, time.Second)
			if status(err) != test.want || (err == nil) != (test.want == 0) {
				t.Errorf("Body: %v, want status %d", err, test.want)
			}
			if err == nil && string(body) != "{}" {
				t.Errorf("the body is %q", body)
			}
		})
	}
}

func TestBodyMayBeAsLongAsTheLimit(t *testing.T) {
	for _, limit := range []int{1, 100, 20_000, 1 << 20} {
		for _, chunked := range []bool{false, true} {
			for _, more := range []int{-1, 0, 1, 1000} {
				text := bytes.Repeat([]byte("x"), limit+more)
				r := httptest.NewRequest("POST", "/mcp", iotest.HalfReader(bytes.NewReader(text)))
				r.Header.Set("Content-Type", plainJSON)
				r.ContentLength = int64(len(text))
				if chunked {
					r.ContentLength = -1
				}
				body, err := readBody(httptest.NewRecorder(), r, limit, -1)
				if more > 0 {
					if status(err) != http.StatusRequestEntityTooLarge {
						t.Errorf("%d bytes with limit %d, chunked %t: %v", len(text), limit, chunked, err)
					}
				} else if err != nil || !bytes.Equal(body, text) {
					t.Errorf("%d bytes with limit %d, chunked %t: %d bytes, %v", len(text), limit, chunked, len(body), err)
				}
			}
		}
	}
}

func TestS14_ReadingStopsAtTheLimit(t *testing.T) {
	var read int
	endless := readerFunc(func(p []byte) (int, error) { read += len(p); return len(p), nil })
	r := httptest.NewRequest("POST", "/mcp", endless)
	r.Header.Set("Content-Type", plainJSON)
	r.ContentLength = -1
	_, err := readBody(httptest.NewRecorder(), r, 64<<10, -1)
	if status(err) != http.StatusRequestEntityTooLarge {
		t.Errorf("Body: %v", err)
	}
	if read > 65<<10 {
		t.Errorf("%d bytes were read with a limit of 64 KiB", read)
	}
}

// A client that only claims to send much must not cost much.
func TestS14_MemoryIsGivenToBytesThatHaveCome(t *testing.T) {
	r := httptest.NewRequest("POST", "/mcp", strings.NewReader("abc"))
	r.Header.Set("Content-Type", plainJSON)
	r.ContentLength = 200 << 20
	var before, behind runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _ = readBody(httptest.NewRecorder(), r, 256<<20, -1)
	runtime.ReadMemStats(&behind)
	if grown := behind.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("%d bytes were allocated for a body of 3", grown)
	}
}

func TestBrokenBodyIsRefused(t *testing.T) {
	r := httptest.NewRequest("POST", "/mcp", io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(io.ErrUnexpectedEOF)))
	r.Header.Set("Content-Type", plainJSON)
	_, err := readBody(httptest.NewRecorder(), r, 0, time.Second)
	if status(err) != http.StatusBadRequest || !strings.Contains(err.Error(), "3 bytes") {
		t.Errorf("Body: %v", err)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// exchange serves one connection by handler, sends it text, and calls f with
// what comes back. It runs in a bubble, so waiting costs nothing.
func exchange(t *testing.T, handler http.HandlerFunc, text string, f func(answer *bufio.Reader, send io.Writer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		listener := &oneConn{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
		listener.conn <- far
		server := &http.Server{Handler: handler}
		done := make(chan struct{})
		go func() { defer close(done); _ = server.Serve(listener) }()
		go func() { _, _ = io.WriteString(near, text) }() // ends with the connection
		f(bufio.NewReader(near), near)
		_ = near.Close()
		_ = server.Close()
		<-done
		time.Sleep(time.Second) // net/http lingers for a moment when it has closed
	})
}

// A oneConn is a listener that has one connection.
type oneConn struct {
	conn   chan net.Conn
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *oneConn) Close() error   { close(l.closed); return nil }
func (l *oneConn) Addr() net.Addr { return &net.IPAddr{} }

const head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

// read serves a request by reading its body with a limit of 1000 bytes, in 10 s.
func read(w http.ResponseWriter, r *http.Request) {
	endpoint := httpserver.NewBase(&httpserver.BaseOptions{MaxMessage: 1000, BodyTimeout: 10 * time.Second})
	endpoint.Serve(w, r, func(x *httpserver.Exchange) error {
		body, err := x.Body()
		if err != nil {
			return err
		}
		x.JSON(http.StatusOK, body)
		return nil
	})
}

func TestS12_S14_SlowOrLargeBodyGetsAnAnswerAndLosesTheConnection(t *testing.T) {
	for _, test := range []struct {
		name   string
		text   string
		status int
		within time.Duration
	}{
		{"too slow", head + "Content-Length: 100\r\n\r\nabc", 408, 10 * time.Second},
		{"too large by its length", head + "Content-Length: 200000000\r\n\r\nabc", 413, 0},
		{"too large in chunks", head + "Transfer-Encoding: chunked\r\n\r\n7d0\r\n" + strings.Repeat("x", 2000) + "\r\n", 413, 0},
		{"not even looked at, and slow", strings.Replace(head, "json", "xml", 1) + "Content-Length: 100\r\n\r\nabc", 415, 5 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			exchange(t, read, test.text, func(answer *bufio.Reader, _ io.Writer) {
				start := time.Now()
				resp, err := http.ReadResponse(answer, nil)
				if err != nil {
					t.Fatal(err)
				}
				if resp.StatusCode != test.status || !resp.Close {
					t.Errorf("status %d, close %t, want %d and close", resp.StatusCode, resp.Close, test.status)
				}
				if took := time.Since(start); took > test.within {
					t.Errorf("it took %v, want %v", took, test.within)
				}
				text, _ := io.ReadAll(resp.Body)
				if !bytes.Contains(text, []byte(`"id":null`)) {
					t.Errorf("the body is %s", text)
				}
			})
		})
	}
}

// The deadline of the body must not end a call that takes longer, nor the next
// request on the connection.
func TestDeadlineOfTheBodyEndsWithTheBody(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		body, err := readBody(w, r, 1000, time.Second)
		if err != nil {
			t.Errorf("Body: %v", err)
		}
		time.Sleep(time.Minute)
		if err := context.Cause(r.Context()); err != nil {
			t.Errorf("the request ended: %v", err)
		}
		_ = httpserver.WriteJSON(w, r, http.StatusOK, body)
	}
	exchange(t, handler, head+"Content-Length: 2\r\n\r\n{}", func(answer *bufio.Reader, send io.Writer) {
		for i := range 2 {
			resp, err := http.ReadResponse(answer, nil)
			if err != nil {
				t.Fatalf("request %d: %v", i, err)
			}
			if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK || string(text) != "{}" {
				t.Errorf("request %d: status %d, body %q", i, resp.StatusCode, text)
			}
			if i == 0 {
				time.Sleep(time.Minute)
				_, _ = fmt.Fprint(send, head+"Content-Length: 2\r\n\r\n{}")
			}
		}
	})
}
