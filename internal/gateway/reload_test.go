package gateway_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"weak"

	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func serveHTTP(t *testing.T, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: h, ReadHeaderTimeout: patience}
	done := make(chan struct{})
	go func() { // ends with Close
		defer close(done)
		_ = web.Serve(l)
	}()
	t.Cleanup(func() {
		_ = web.Close()
		<-done
	})
	return "http://" + l.Addr().String()
}

func TestPain32_ReloadLeavesWhatIsUnchangedAlone(t *testing.T) {
	first, second := startBuiltin(t, protocol.LatestLegacy), startBuiltin(t, protocol.Latest)
	g := begin(t, fmt.Sprintf("servers:\n  a: {url: %s}\n  b: {url: %s}\n", first, second))
	g.ready()
	a, b, all := g.join("/servers/a/mcp", protocol.Legacy), g.join("/servers/b/mcp", protocol.Legacy), g.join("/mcp", protocol.Legacy)
	for _, c := range []struct {
		text    string
		changed string
	}{
		{fmt.Sprintf("servers:\n  a: {url: %s}\n  b: {url: %s, timeout: 5m}\n  c: {url: %s}\n", first, second, first), "added [c] kept [a] replaced [b] removed []"},
		{fmt.Sprintf("servers:\n  a: {url: %s, tools: {exclude: [add]}}\n  b: {url: %s, timeout: 5m}\n", first, second), "added [] kept [a b] replaced [] removed [c]"},
	} {
		g.write(c.text)
		done, err := g.Reload()
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("added %v kept %v replaced %v removed %v", done.Changes.Added, done.Changes.Kept, done.Changes.Replaced, done.Changes.Removed)
		if got != c.changed {
			t.Errorf("got %s, want %s", got, c.changed)
		}
		g.ready()
		echo(t, a, "echo")
		echo(t, b, "echo") // its session continues at the new server
		echo(t, all, "a_echo")
		echo(t, all, "b_echo")
	}
	if names := toolNames(t, a); slices.Contains(names, "add") || !slices.Contains(names, "echo") {
		t.Errorf("after the tools have changed: %v", names)
	}
	eventually(t, "the server that was removed is gone", func() bool {
		status, _ := g.get("/servers/c/mcp")
		return status == http.StatusNotFound
	})
}

// TestReloadForgetsWhatItReplaced replaces a server several times, of which clients have
// used every generation by every endpoint.
func TestReloadForgetsWhatItReplaced(t *testing.T) {
	for _, era := range eras {
		t.Run(era.String(), func(t *testing.T) {
			r := protocol.LatestLegacy
			if era == protocol.Modern {
				r = protocol.Latest
			}
			url := startBuiltin(t, r)
			file := func(n int) string { return fmt.Sprintf("servers:\n  a: {url: %s, timeout: %dm}\n", url, n+1) }
			g := begin(t, file(0))
			var old []weak.Pointer[upstream.Upstream]
			for n := range 6 {
				g.ready()
				old = append(old, weak.Make(g.Upstreams()[0]))
				echo(t, g.join("/servers/a/mcp", protocol.Legacy), "echo") // whose session stays open, and is not used again
				for _, endpoint := range []string{"/servers/a/mcp", "/servers/a/sse", "/servers/a/ws", "/mcp"} {
					for _, of := range eras {
						if of == protocol.Modern && strings.HasSuffix(endpoint, "sse") {
							continue
						}
						useOnce(t, g.url+endpoint, of)
					}
				}
				g.write(file(n + 1))
				if _, err := g.Reload(); err != nil {
					t.Fatal(err)
				}
			}
			alive := func() (n int) {
				runtime.GC()
				for _, p := range old {
					if p.Value() != nil {
						n++
					}
				}
				return n
			}
			eventually(t, "the servers that were replaced are forgotten", func() bool { return alive() == 0 })
		})
	}
}

// useOnce connects, lists the tools, calls one and leaves.
func useOnce(t *testing.T, url string, era protocol.Era) {
	t.Helper()
	transport := "http-only"
	switch {
	case strings.HasSuffix(url, "/ws"):
		url, transport = "ws"+strings.TrimPrefix(url, "http"), ""
	case strings.HasSuffix(url, "/sse"):
		transport = "sse-only"
	}
	c, err := client.Connect(within(t), &client.Server{URL: url, Transport: transport}, &client.Options{Era: &era})
	if err != nil {
		t.Fatalf("%s, %s era: %v", url, era, err)
	}
	defer c.Close()
	tool := "echo"
	if names := toolNames(t, c); slices.Contains(names, "a_echo") {
		tool = "a_echo"
	}
	echo(t, c, tool)
}

func TestChangedFileIsReadAgain(t *testing.T) {
	one := startBuiltin(t, protocol.Latest)
	g := begin(t, fmt.Sprintf("servers: {a: {url: %s}}", one))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { // ends with cancel
		defer close(ended)
		g.Watch(ctx)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	g.write(fmt.Sprintf("servers: {a: {url: %s}, later: {url: %s}}", one, one))
	eventually(t, "the new server", func() bool { return len(g.Status().Servers) == 2 })
}

func TestSessionSurvivesARestartOfTheGateway(t *testing.T) {
	url := startBuiltin(t, protocol.LatestLegacy)
	text := fmt.Sprintf("state: %s\nservers: {a: {url: %s}}", filepath.Join(t.TempDir(), "state"), url)
	one := begin(t, text)
	for _, path := range []string{"/servers/a/mcp", "/mcp"} {
		one.ready()
		session := open(t, one.url+path)
		if err := one.Shutdown(within(t)); err != nil {
			t.Fatal(err)
		}
		next := &running{t: t, path: one.path}
		next.start(&gateway.Options{Name: "test", Version: "1"})
		next.ready()
		if status, body := session.call(t, next.url+path, "tools/list", `{}`); status != http.StatusOK || !strings.Contains(body, "echo") {
			t.Errorf("%s: after the restart the old session gets %d %.200s", path, status, body)
		}
		session.id += "x"
		if status, _ := session.call(t, next.url+path, "tools/list", `{}`); status != http.StatusNotFound {
			t.Errorf("%s: a session that never was gets %d, want 404", path, status)
		}
		one = next
	}
}
