//go:build unix

package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/fault"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/tests/kit"
	"github.com/dragoman-mcp/dragoman/transport/sse"
)

// TestPain28_SSEBehindAReverseProxyWithAPath puts a reverse proxy before the gateway
// that takes a part of the path away, and does not say so.
func TestPain28_SSEBehindAReverseProxyWithAPath(t *testing.T) {
	for _, front := range []string{"run", "serve"} {
		t.Run(front, func(t *testing.T) {
			g := start(t, front, child(t, fault.Legacy, newJournal(t)))
			to, err := url.Parse(g.Base)
			if err != nil {
				t.Fatal(err)
			}
			reverse := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
			web := httptest.NewServer(http.StripPrefix("/deep/down", reverse))
			defer web.Close()
			ctx := kit.Hurry(t, 20*time.Second)
			path := strings.TrimPrefix(g.URL(server, "sse"), g.Base)
			c, err := kit.Dial(ctx, &sse.Client{URL: web.URL + "/deep/down" + path}, "guest", protocol.Legacy)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Conn.Close()
			echoes(ctx, t, c, "through the proxy")
		})
	}
}

// TestPain29_NoiseOnStdoutDoesNoHarm has servers write what is no message.
func TestPain29_NoiseOnStdoutDoesNoHarm(t *testing.T) {
	t.Parallel() // it mostly waits
	scenes(t, nil, func(s *scene) {
		c := s.enter(kit.HTTP)
		const noise = "this is no message"
		before := strings.Count(s.Said(), noise)
		for _, n := range []int{3, kit.Few(10_000)} {
			if got := says(s.ctx, s.T, c, "garbage", object{"n": n}); got != "after the garbage" {
				s.Errorf("after %d lines of garbage it says %q", n, got)
			}
		}
		if said := strings.Count(s.Said(), noise) - before; said > 200 {
			s.Errorf("%d lines of it are in the log", said)
		}
		for tool, want := range map[string]string{
			"dupresp": "first", "wrongid": "the right one", "badutf8": fault.Replaced, "u2028": fault.Separators, "stderrflood": "flooded",
		} {
			if got := says(s.ctx, s.T, c, tool, object{"lines": kit.Few(100_000)}); got != want {
				s.Errorf("%s says %q, want %q", tool, got, want)
			}
			echoes(s.ctx, s.T, c, "after "+tool)
		}
	})
}

// TestPain9_ChangesOfListsReachEveryClient has a server change its tools.
func TestPain9_ChangesOfListsReachEveryClient(t *testing.T) {
	scenes(t, object{"isolation": "session"}, func(s *scene) {
		c := s.enter(kit.WS)
		before, err := c.Tools(s.ctx)
		if err != nil {
			s.Fatal(err)
		}
		if s.era == protocol.Modern {
			ctx, cancel := context.WithCancel(s.ctx)
			done := make(chan struct{})
			go func() { // ends with ctx
				defer close(done)
				_, _ = c.Once(ctx, protocol.MethodListen, object{"notifications": object{"toolsListChanged": true}})
			}()
			defer func() { cancel(); <-done }()
			if err := c.Hear(s.ctx, protocol.NoteAcknowledged); err != nil {
				s.Fatal(err)
			}
		}
		says(s.ctx, s.T, c, "test_trigger_tool_change", nil) // a tool is added, or taken away again
		if err := c.Hear(s.ctx, protocol.NoteToolsChanged); err != nil {
			s.Fatal(err)
		}
		// The list of who was told is the new one.
		kit.Eventually(s.T, func() error {
			after, err := c.Tools(s.ctx)
			if err == nil && len(after) == len(before) {
				err = fmt.Errorf("there are %d tools, as there were", len(after))
			}
			return err
		})
	})
}
