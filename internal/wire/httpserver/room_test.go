package httpserver_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
)

// A crowd are the clients of a server in a bubble that may have 32 connections at once.
type crowd struct {
	t    *testing.T
	l    *memnet.Listener
	log  said
	wait chan struct{} // the handlers at /wait end when it is closed
}

func atCrowd(t *testing.T, o httpserver.Options, test func(t *testing.T, g *crowd)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &crowd{t: t, l: memnet.Listen(), wait: make(chan struct{})}
		o.MaxConns, o.Logger = 32, slog.New(slog.NewTextHandler(&g.log, nil))
		serve(t, g.l, httpserver.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/wait" {
				select {
				case <-g.wait:
				case <-r.Context().Done():
				}
			}
			_, _ = io.WriteString(w, r.Method)
		}), &o))
		test(t, g)
		synctest.Wait()
	})
}

// dial returns connections on which a request has been sent, if it has a method.
func (g *crowd) dial(n int, method, path string) []net.Conn {
	g.t.Helper()
	var conns []net.Conn
	for range n {
		c, err := g.l.DialContext(context.Background(), "tcp", "")
		if err != nil {
			g.t.Fatal(err)
		}
		g.t.Cleanup(func() { _ = c.Close() })
		conns = append(conns, c)
		if method != "" {
			g.ask(c, method, path)
		}
	}
	synctest.Wait()
	return conns
}

// ask sends a request. It reports whether the connection is open.
func (g *crowd) ask(c net.Conn, method, path string) bool {
	g.t.Helper()
	_, err := io.WriteString(c, method+" "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
	return err == nil
}

// answered returns how many of the connections have got the answer of their request.
func (g *crowd) answered(conns []net.Conn) (n int) {
	g.t.Helper()
	for _, c := range conns {
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil && resp.StatusCode == http.StatusOK {
			_, _ = io.Copy(io.Discard, resp.Body)
			n++
		}
	}
	return n
}

func TestConnectionsAreBoundedWhoeverAnswersThem(t *testing.T) {
	atCrowd(t, httpserver.Options{}, func(t *testing.T, g *crowd) {
		direct, other := g.dial(16, "POST", "/wait"), g.dial(16, "GET", "/wait") // net/http answers GET
		time.Sleep(time.Minute)
		more := g.dial(3, "", "")
		for _, c := range more {
			if _, err := io.ReadAll(c); err != nil || g.ask(c, "GET", "/") {
				t.Errorf("a connection beyond the bound is open: %v", err)
			}
		}
		if n := g.log.count("connection refused"); n != 1 {
			t.Errorf("%d refusals were logged, want 1 in a minute", n)
		}
		close(g.wait)
		if a, b := g.answered(direct), g.answered(other); a != 16 || b != 16 {
			t.Errorf("%d and %d requests were answered, want all", a, b)
		}
		_, _ = direct[0].Close(), other[0].Close()
		synctest.Wait()
		if c := g.dial(2, "POST", "/"); g.answered(c) != 2 {
			t.Error("connections that were closed still count")
		}
	})
}

func TestIdleConnectionsMakeRoomForNewOnes(t *testing.T) {
	for name, o := range map[string]httpserver.Options{"direct": {}, "net/http alone": {OnlyNetHTTP: true}} {
		for _, method := range []string{"", "GET", "POST"} {
			t.Run(strings.TrimSpace(name+" "+method), func(t *testing.T) {
				atCrowd(t, o, func(t *testing.T, g *crowd) {
					busy := g.dial(8, "POST", "/wait")
					idle := g.dial(20, method, "/")
					if method != "" && g.answered(idle) != 20 {
						t.Fatal("requests are not answered")
					}
					for range 10 {
						time.Sleep(2 * time.Second)
						if c := g.dial(2, "POST", "/"); g.answered(c) != 2 {
							t.Fatalf("a new client is not answered: %s", &g.log.text)
						}
					}
					close(g.wait)
					if n := g.answered(busy); n != 8 {
						t.Errorf("%d requests in flight were answered, want 8", n)
					}
				})
			})
		}
	}
}

func TestANewConnectionHasASecondForItsRequest(t *testing.T) {
	atCrowd(t, httpserver.Options{}, func(t *testing.T, g *crowd) {
		g.dial(31, "POST", "/wait")
		time.Sleep(time.Minute)
		c := g.dial(1, "", "")
		time.Sleep(900 * time.Millisecond)
		g.dial(1, "", "") // refused
		if !g.ask(c[0], "POST", "/") || g.answered(c) != 1 {
			t.Error("it was closed before its request")
		}
		close(g.wait)
	})
}
