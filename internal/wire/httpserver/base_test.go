package httpserver_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/internal/wire/sse"
)

// A testEndpoint is an endpoint on a network in memory. What it does with a request is in serve.
type testEndpoint struct {
	t   *testing.T
	net *memnet.Listener
	*httpserver.Base
	log *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// inEndpointBubble runs a test in a bubble, with an endpoint that serve stands behind.
func inEndpointBubble(t *testing.T, o httpserver.BaseOptions, serve func(*httpserver.Exchange) error, test func(*testEndpoint)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &testEndpoint{t: t, net: memnet.Listen(), log: new(lockedBuffer)}
		o.Logger = slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		w.Base = httpserver.NewBase(&o)
		server := &http.Server{
			Handler:  http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.Serve(rw, r, serve) }),
			ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		}
		go func() { _ = server.Serve(w.net) }() // ends with server.Close
		test(w)
		_ = w.Close()
		_ = server.Close()
		time.Sleep(time.Hour) // of the bubble: whoever ignores the end has ended
	})
}

// send sends a request and returns the connection, of which nothing is read.
func (w *testEndpoint) send(request string) net.Conn {
	w.t.Helper()
	conn, err := w.net.DialContext(w.t.Context(), "", "")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, strings.ReplaceAll(request, "\n", "\r\n")); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
	return conn
}

// get sends a request and returns its answer.
func (w *testEndpoint) get(request string) (*http.Response, string) {
	w.t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(w.send(request)), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body) // what broke off is what it is
	return resp, string(text)
}

const (
	plainGet = "GET / HTTP/1.1\nHost: localhost\n\n"
	pageGet  = "GET / HTTP/1.1\nHost: localhost\nOrigin: http://localhost:3000\n\n"
)

func TestRefusalsWhileDrainingCanBeReadByPages(t *testing.T) {
	inEndpointBubble(t, httpserver.BaseOptions{}, nil, func(w *testEndpoint) {
		if err := w.Shutdown(w.t.Context()); err != nil {
			t.Error(err)
		}
		resp, text := w.get(pageGet)
		if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "-31005") || resp.Header.Get("Retry-After") == "" ||
			resp.Header.Get("Access-Control-Allow-Origin") != "http://localhost:3000" {
			t.Errorf("%d %v %s", resp.StatusCode, resp.Header, text)
		}
		if resp, _ := w.get("OPTIONS / HTTP/1.1\nHost: localhost\nOrigin: http://localhost:3000\nAccess-Control-Request-Method: POST\n\n"); resp.StatusCode != http.StatusNoContent {
			t.Errorf("a preflight got %d", resp.StatusCode)
		}
		if resp, _ := w.get("GET / HTTP/1.1\nHost: evil.example\n\n"); resp.StatusCode != http.StatusForbidden {
			t.Errorf("a foreign host got %d", resp.StatusCode)
		}
	})
}

func TestTrustedEndpointDoesNotCheckHostAndOrigin(t *testing.T) {
	inEndpointBubble(t, httpserver.BaseOptions{Trusted: true}, func(x *httpserver.Exchange) error {
		x.Accepted()
		return nil
	}, func(w *testEndpoint) {
		resp, _ := w.get("GET / HTTP/1.1\nHost: evil.example\nOrigin: http://evil.example:1\n\n")
		if resp.StatusCode != http.StatusAccepted || resp.Header.Get("Access-Control-Allow-Origin") != "http://evil.example:1" {
			t.Errorf("%d %v", resp.StatusCode, resp.Header)
		}
	})
}

func TestNoMoreRequestsThanMaxAreServedAtOnce(t *testing.T) {
	for _, test := range []struct{ max, served int }{{2, 2}, {-1, 5}} {

		inEndpointBubble(t, httpserver.BaseOptions{MaxRequests: test.max}, func(x *httpserver.Exchange) error {
			<-x.R.Context().Done()
			return nil
		}, func(w *testEndpoint) {
			for range test.served {
				w.send(plainGet)
			}
			if test.max < 0 {
				return
			}
			resp, text := w.get(plainGet)
			if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "-31004") || !strings.Contains(text, "not_sent") || resp.Header.Get("Retry-After") == "" {
				t.Errorf("one too many got %d %s", resp.StatusCode, text)
			}
		})
	}
}

func TestRequestsAtOnceAreBoundedByDefault(t *testing.T) {
	if got := httpserver.NewBase(&httpserver.BaseOptions{}).Max(); got != httpserver.DefaultMaxRequests {
		t.Errorf("%d are served at once, want %d", got, httpserver.DefaultMaxRequests)
	}
}

// Shutdown obeys its context: half a second later it returns, whatever keeps requests
// from ending.
func TestShutdownObeysItsContext(t *testing.T) {
	large := bytes.Repeat([]byte{' '}, 1<<20)
	for _, test := range []struct {
		name    string
		request string
		serve   func(*httpserver.Exchange) error
		left    bool // it outlives Shutdown
	}{
		{"a client that does not read its answer", plainGet, func(x *httpserver.Exchange) error {
			x.JSON(http.StatusOK, large)
			return nil
		}, false},
		{"a client that does not read its refusal", plainGet, func(*httpserver.Exchange) error {
			return httpserver.Refuse(http.StatusBadRequest, "%s", large)
		}, false},
		{"a client that does not read its stream", plainGet, func(x *httpserver.Exchange) error {
			out, err := x.Events()
			for err == nil {
				err = out.Event(&sse.Event{Data: []byte("{}")})
			}
			return nil
		}, false},
		{"a client that does not send its body", "POST / HTTP/1.1\nHost: localhost\nContent-Type: application/json\nContent-Length: 10\n\n{", func(x *httpserver.Exchange) error {
			_, err := x.Body()
			return err
		}, false},
		{"a call that ends when it is told to", plainGet, func(x *httpserver.Exchange) error {
			ctx, cancel := x.CallContext()
			defer cancel(nil)
			<-ctx.Done()
			return nil
		}, false},
		{"a call that ignores its context", plainGet, func(x *httpserver.Exchange) error {
			time.Sleep(time.Minute) // of the bubble
			return nil
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			inEndpointBubble(t, httpserver.BaseOptions{BodyTimeout: -1, WriteTimeout: -1}, test.serve, func(w *testEndpoint) {
				conn := w.send(test.request)
				ctx, cancel := context.WithTimeout(w.t.Context(), 200*time.Millisecond)
				defer cancel()
				began := time.Now()
				if err := w.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Shutdown returned %v", err)
				}
				if took := time.Since(began); took > 700*time.Millisecond {
					t.Errorf("Shutdown took %v", took)
				}
				if said := strings.Contains(w.log.String(), "abandoned"); said != test.left {
					t.Errorf("the log is\n%s", w.log)
				}
				_ = conn.Close()
			})
		})
	}
}

func TestClientThatDoesNotReadIsCutInItsTime(t *testing.T) {
	large := bytes.Repeat([]byte{' '}, 1<<20)
	for name, serve := range map[string]func(*httpserver.Exchange) error{
		"an answer": func(x *httpserver.Exchange) error {
			x.JSON(http.StatusOK, large)
			return nil
		},
		"a refusal": func(*httpserver.Exchange) error {
			return httpserver.Refuse(http.StatusBadRequest, "%s", large)
		},
		"a stream": func(x *httpserver.Exchange) error {
			out, err := x.Events()
			if err == nil {
				_ = out.Event(&sse.Event{Data: large})
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			inEndpointBubble(t, httpserver.BaseOptions{WriteTimeout: 5 * time.Second}, serve, func(w *testEndpoint) {
				conn := w.send(plainGet)
				ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				if err := w.Shutdown(ctx); err != nil || time.Since(began) != 5*time.Second {
					t.Errorf("it ended after %v with %v", time.Since(began), err)
				}
				_ = conn.Close()
			})
		})
	}
}

func TestNothingIsWrittenToAStreamThatWasCut(t *testing.T) {
	var written chan error // of the bubble
	inEndpointBubble(t, httpserver.BaseOptions{}, func(x *httpserver.Exchange) error {
		out, err := x.Events()
		if err == nil {
			time.Sleep(time.Second) // of the bubble, in which Shutdown has given up
			err = out.Event(&sse.Event{Data: []byte("{}")})
		}
		written <- err
		return nil
	}, func(w *testEndpoint) {
		written = make(chan error, 1)
		conn := w.send(plainGet)
		go func() { _, _ = io.Copy(io.Discard, conn) }() // ends with the connection
		ctx, cancel := context.WithCancel(w.t.Context())
		cancel()
		_ = w.Shutdown(ctx)
		if err := <-written; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a later write ends with %v", err)
		}
	})
}

func TestShutdownWaitsForWhatEndsByItself(t *testing.T) {
	inEndpointBubble(t, httpserver.BaseOptions{}, func(x *httpserver.Exchange) error {
		time.Sleep(time.Minute) // of the bubble
		x.JSON(http.StatusOK, []byte("{}"))
		return nil
	}, func(w *testEndpoint) {
		conn := w.send(plainGet)
		background := false
		if !w.Go(func() {
			time.Sleep(2 * time.Minute)
			background = true
		}) {
			t.Error("background work is refused")
		}
		go func() { _, _ = io.Copy(io.Discard, conn) }() // ends with the connection
		if err := w.Shutdown(w.t.Context()); err != nil || !background {
			t.Errorf("Shutdown returned %v; background work is done: %t", err, background)
		}
		if w.Go(func() {}) {
			t.Error("background work begins after Shutdown")
		}
	})
}

// What takes its connection from net/http is in progress until it says otherwise.
func TestDetachedExchangeIsEndedByShutdown(t *testing.T) {
	released := make(chan string, 2)
	inEndpointBubble(t, httpserver.BaseOptions{}, func(x *httpserver.Exchange) error {
		conn, _, err := http.NewResponseController(x.W).Hijack()
		if err != nil {
			return err
		}
		release := x.Detach()
		x.OnShutdown(func(ctx context.Context) {
			time.Sleep(time.Second) // of the bubble
			released <- "shutdown"
			<-ctx.Done()
			released <- "abort"
			_ = conn.Close()
			release()
		})
		return nil
	}, func(w *testEndpoint) {
		w.send(plainGet)
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		defer cancel()
		if err := w.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown returned %v", err)
		}
		if first, second := <-released, <-released; first != "shutdown" || second != "abort" {
			t.Errorf("%s, then %s", first, second)
		}
	})
}

func TestS61_PanicIsLoggedAndAnswered(t *testing.T) {
	inEndpointBubble(t, httpserver.BaseOptions{}, func(x *httpserver.Exchange) error {
		if x.R.URL.Path == "/begun" {
			_, _ = x.Events()
		}
		panic("ouch")
	}, func(w *testEndpoint) {
		if resp, text := w.get(plainGet); resp.StatusCode != http.StatusInternalServerError || !strings.Contains(text, "-32603") || strings.Contains(text, "ouch") {
			t.Errorf("%d %s", resp.StatusCode, text)
		}
		log := w.log.String()
		if !strings.Contains(log, "level=ERROR") || !strings.Contains(log, "ouch") || !strings.Contains(log, "base_test.go") {
			t.Errorf("the log is\n%s", log)
		}
		conn := w.send("GET /begun HTTP/1.1\nHost: localhost\n\n")
		text, err := io.ReadAll(conn)
		if err != nil || strings.HasSuffix(string(text), "0\r\n\r\n") {
			t.Errorf("an answer that broke off ends in good order: %q, %v", text, err)
		}
	})
}

// countingWriter counts headers, and its client is gone.
type countingWriter struct {
	brokenWriter
	headers int
}

func (w *countingWriter) WriteHeader(int) { w.headers++ }

func TestFailedWriteIsTheEndOfTheAnswer(t *testing.T) {
	var w countingWriter
	httpserver.NewBase(&httpserver.BaseOptions{}).Serve(&w, request("GET", "localhost"), func(x *httpserver.Exchange) error {
		x.JSON(http.StatusOK, []byte("{}"))
		return errors.New("something else")
	})
	if w.headers != 1 {
		t.Errorf("%d headers were written", w.headers)
	}
}

func TestCallEndsWithItsClient(t *testing.T) {
	ended := make(chan error, 1)
	inEndpointBubble(t, httpserver.BaseOptions{}, func(x *httpserver.Exchange) error {
		ctx, cancel := x.CallContext()
		defer cancel(nil)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil
	}, func(w *testEndpoint) {
		_ = w.send(plainGet).Close()
		if err := <-ended; !errors.Is(err, dragoman.ErrCancelled) {
			t.Errorf("it ended because of %v", err)
		}
	})
}

func TestNegativeTimeoutsAreNone(t *testing.T) {
	inEndpointBubble(t, httpserver.BaseOptions{BodyTimeout: -1, WriteTimeout: -1}, func(x *httpserver.Exchange) error {
		body, err := x.Body()
		if err == nil {
			x.JSON(http.StatusOK, append(body, bytes.Repeat([]byte{' '}, 1<<20)...))
		}
		return err
	}, func(w *testEndpoint) {
		conn := w.send("POST / HTTP/1.1\nHost: localhost\nContent-Type: application/json\nContent-Length: 2\n\n{")
		time.Sleep(time.Hour) // of the bubble
		if _, err := io.WriteString(conn, "}"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); err != nil || len(text) != 1<<20+2 {
			t.Errorf("%d bytes, %v", len(text), err)
		}
	})
}

// What no page has asked for has no headers for pages.
func TestAnswersToProgramsHaveNoHeadersForPages(t *testing.T) {
	endpoint := httpserver.NewBase(&httpserver.BaseOptions{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		endpoint.Serve(w, r, func(x *httpserver.Exchange) error {
			x.JSON(http.StatusOK, []byte("{}"))
			return nil
		})
	}))
	defer server.Close()
	resp, err := server.Client().Post(server.URL, plainJSON, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if h := resp.Header; len(h) != 3 || h.Get("Content-Type") != plainJSON || h.Get("Content-Length") != "2" || h.Get("Date") == "" {
		t.Errorf("the headers are %v", h)
	}
}
