//go:build unix

package gateway

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
)

// TestAmbiguousRequestsAreRefused sends requests in which whoever stands before the
// gateway may see others than the gateway does.
func TestAmbiguousRequestsAreRefused(t *testing.T) {
	t.Parallel() // with a gateway of its own
	g := start(t, "run", child(t, fault.Legacy, newJournal(t)))
	address := strings.TrimPrefix(g.Base, "http://")
	const ready = "GET /readyz HTTP/1.1\r\nHost: localhost\r\n"
	for _, row := range []struct {
		name, raw string
		statuses  []int
	}{
		{"length and coding", "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []int{400}},
		{"bare LF", "GET /readyz HTTP/1.1\r\nHost: localhost\r\nX: y\nZ: z\r\n\r\n", []int{400}},
		{"other host", "GET http://localhost/readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", []int{400}},
		{"behind a good one", ready + "\r\n" + ready + "Content-Length: 0\r\nContent-Length: 0\r\n\r\n", []int{200, 400}},
		{"good ones", ready + "\r\n" + ready + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", []int{200, 200, 200}},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, err := net.DialTimeout("tcp", address, gatewaytest.Patience)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(gatewaytest.Patience))
			if _, err := io.WriteString(c, row.raw+ready+"Connection: close\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if got := statuses(t, c); !slices.Equal(got, row.statuses) {
				t.Errorf("answered with %v, want %v", got, row.statuses)
			}
		})
	}
}

// statuses returns those of all answers up to the end of a connection.
func statuses(t *testing.T, c net.Conn) (all []int) {
	t.Helper()
	in := bufio.NewReader(c)
	for {
		if _, err := in.Peek(1); err == io.EOF { //nolint:errorlint // as net.Conn returns it
			return all
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("after %v: %v", all, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		all = append(all, resp.StatusCode)
	}
}
