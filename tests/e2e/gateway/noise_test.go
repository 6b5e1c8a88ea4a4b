//go:build unix

package gateway

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/sse"
)

// TestPain28_SSEBehindAReverseProxyWithAPath puts a reverse proxy before the gateway
// that takes a part of the path away, and does not say so.
func TestPain28_SSEBehindAReverseProxyWithAPath(t *testing.T) {
	t.Parallel() // with a gateway of its own
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
			ctx := gatewaytest.Hurry(t, 20*time.Second)
			path := strings.TrimPrefix(g.URL(server, "sse"), g.Base)
			c, err := gatewaytest.Dial(ctx, &sse.Client{URL: web.URL + "/deep/down" + path}, "guest", protocol.Legacy)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Conn.Close()
			echoes(ctx, t, c, "through the proxy")
		})
	}
}

// TestS07_Pain29_NoiseOnStdoutDoesNoHarm has servers write what is no message.
func TestS07_Pain29_NoiseOnStdoutDoesNoHarm(t *testing.T) {
	t.Parallel() // it mostly waits
	fixtures(t, nil, func(s *fixture) {
		c := s.enter(gatewaytest.HTTP)
		const noise = "this is no message"
		before := strings.Count(s.Stderr(), noise)
		for _, n := range []int{3, gatewaytest.Few(10_000)} {
			if got := says(s.ctx, s.T, c, "garbage", object{"n": n}); got != "after the garbage" {
				s.Errorf("after %d lines of garbage it says %q", n, got)
			}
		}
		if said := strings.Count(s.Stderr(), noise) - before; said > 200 {
			s.Errorf("%d lines of it are in the log", said)
		}
		for tool, want := range map[string]string{
			"dupresp": "first", "wrongid": "the right one", "badutf8": fault.Replaced, "u2028": fault.Separators, "stderrflood": "flooded",
		} {
			if got := says(s.ctx, s.T, c, tool, object{"lines": gatewaytest.Size(100_000, 1000)}); got != want {
				s.Errorf("%s says %q, want %q", tool, got, want)
			}
			echoes(s.ctx, s.T, c, "after "+tool)
		}
	})
}

// TestS16_SeparatorsOfLinesAreEscapedInEventStreams reads answers as they are on the
// wire: clients exist that end a line at each of the separators.
func TestS16_SeparatorsOfLinesAreEscapedInEventStreams(t *testing.T) {
	t.Parallel() // with a gateway of its own
	g := start(t, "run", child(t, fault.Legacy, newJournal(t)))
	ctx := gatewaytest.Hurry(t, 20*time.Second)
	send := func(method, path, body string, header ...string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, method, g.Base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	// check reads to the line with the answer.
	check := func(path string, resp *http.Response, lines *bufio.Reader) {
		t.Helper()
		if ct := resp.Header.Get("Content-Type"); ct != "text/event-stream" {
			t.Fatalf("%s answers with %d %s", path, resp.StatusCode, ct)
		}
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("%s ends without the answer: %v", path, err)
			}
			if strings.ContainsAny(line, "\u2028\u2029\u0085") {
				t.Errorf("%s writes %q", path, line)
			}
			if strings.HasPrefix(line, "data:") && strings.Contains(line, "injected") {
				return
			}
		}
	}

	call := fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"u2028","_meta":{"progressToken":1,%q:%q,%q:{}}}}`,
		protocol.MetaProtocolVersion, protocol.Latest, protocol.MetaClientCapabilities)
	resp := send(http.MethodPost, "/mcp", call, protocol.HeaderVersion, protocol.Latest.String(),
		protocol.HeaderMethod, protocol.MethodCallTool, protocol.HeaderName, "u2028")
	check("/mcp", resp, bufio.NewReader(resp.Body))

	resp = send(http.MethodPost, "/call/u2028", "{}", "Accept", "text/event-stream")
	check("/call", resp, bufio.NewReader(resp.Body))

	resp = send(http.MethodGet, "/sse", "", "Accept", "text/event-stream")
	lines, endpoint := bufio.NewReader(resp.Body), ""
	for ok := false; !ok; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		endpoint, ok = strings.CutPrefix(strings.TrimSpace(line), "data: ")
	}
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + protocol.LatestLegacy.String() + `","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"u2028"}}`,
	} {
		if r := send(http.MethodPost, "/"+endpoint, body); r.StatusCode != http.StatusAccepted {
			t.Fatalf("%s is answered with %d", body, r.StatusCode)
		}
	}
	check("/sse", resp, lines)
}

// TestPain9_ChangesOfListsReachEveryClient has a server change its tools.
func TestPain9_ChangesOfListsReachEveryClient(t *testing.T) {
	t.Parallel() // its gateways are its own
	fixtures(t, object{"isolation": "session"}, func(s *fixture) {
		c := s.enter(gatewaytest.WS)
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
			if err := c.Add(s.ctx, protocol.NoteAcknowledged); err != nil {
				s.Fatal(err)
			}
		}
		says(s.ctx, s.T, c, "test_trigger_tool_change", nil) // a tool is added, or taken away again
		if err := c.Add(s.ctx, protocol.NoteToolsChanged); err != nil {
			s.Fatal(err)
		}
		// The list of who was told is the new one.
		gatewaytest.Eventually(s.T, func() error {
			after, err := c.Tools(s.ctx)
			if err == nil && len(after) == len(before) {
				err = fmt.Errorf("there are %d tools, as there were", len(after))
			}
			return err
		})
	})
}
