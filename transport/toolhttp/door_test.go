package toolhttp_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/transport/toolhttp"
)

// inBubble runs a test with a server on a network in memory. post sends a call and
// returns its connection, of which nothing is read.
func inBubble(t *testing.T, s *toolhttp.Server, test func(t *testing.T, post func(header ...string) net.Conn)) {
	t.Helper()
	memnet.Serve(t, s, s.Close, func(t *testing.T, l *memnet.Listener) {
		test(t, func(header ...string) net.Conn { return l.Send(t, "POST", "/", request(`1`, "t", `{}`), header...) })
	})
}

// endlessPeer is a peer whose calls last until their context ends.
func endlessPeer() scriptedPeer {
	return scriptedPeer{call: func(ctx context.Context, _ *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}}
}

func TestNegativeMeansNone(t *testing.T) {
	s := &toolhttp.Server{Requests: endlessPeer(), MaxRequests: -1, BodyTimeout: -1, WriteTimeout: -1, KeepAlive: -1, CallTimeout: -1}
	inBubble(t, s, func(t *testing.T, post func(...string) net.Conn) {
		conn := post("Accept: text/event-stream")
		time.AfterFunc(time.Hour, func() { _ = s.Close() })
		_, text := memnet.Response(t, conn)
		if comments := strings.Count("\n"+text, "\n:"); comments != 1 || !strings.Contains(text, "-31003") {
			t.Errorf("the stream is\n%s", text)
		}
	})
}

func TestTooManyCallsGet503(t *testing.T) {
	s := &toolhttp.Server{Requests: endlessPeer(), MaxRequests: 1}
	inBubble(t, s, func(t *testing.T, post func(...string) net.Conn) {
		post()
		resp, text := memnet.Response(t, post())
		if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "-31004") || !strings.Contains(text, "not_sent") || resp.Header.Get("Retry-After") == "" {
			t.Errorf("one too many got %d %s", resp.StatusCode, text)
		}
	})
}
