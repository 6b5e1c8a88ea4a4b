package gateway_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway"
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
	first, second := upstream(t, protocol.LatestLegacy), upstream(t, protocol.Latest)
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
		echo(t, b, "echo") // its session was taken over by the new doors
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

func TestChangedFileIsReadAgain(t *testing.T) {
	one := upstream(t, protocol.Latest)
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
	url := upstream(t, protocol.LatestLegacy)
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
