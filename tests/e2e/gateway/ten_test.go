//go:build unix

package gateway

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// remote is a fault server over HTTP, in this process, until the end of the test.
func remote(t *testing.T, mode string, j fault.Journal) *httptest.Server {
	t.Helper()
	s := fault.New(&fault.Options{Name: "fault-" + mode, Revisions: fault.Revisions(mode), Journal: j, Exit: func() {}})
	h := s.Handler()
	web := httptest.NewServer(h)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // nobody waits
		_ = h.Shutdown(ctx)
		_ = s.Close()
		web.CloseClientConnections()
		web.Close()
	})
	return web
}

// hole is an address that takes connections and never says anything.
func hole(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// nobody is an address where nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestTenServers_BrokenOnesDisturbNobody_Pain24 has servers of every kind in one
// file. Those that work are ready while the others are still being tried.
func TestTenServers_BrokenOnesDisturbNobody_Pain24(t *testing.T) {
	t.Parallel() // it mostly waits
	j := newJournal(t)
	legacy, modern := remote(t, fault.Legacy, j), remote(t, fault.Modern, j)
	working := object{
		"stdio-l1": child(t, fault.Legacy, j), "stdio-l2": child(t, fault.Legacy, j),
		"stdio-m1": child(t, fault.Modern, j), "stdio-m2": child(t, fault.Modern, j),
		"http": object{"url": modern.URL + "/mcp"},
		"sse":  object{"url": legacy.URL + "/sse", "transport": "sse"},
		"ws":   object{"url": strings.Replace(legacy.URL, "http", "ws", 1) + "/ws"},
	}
	broken := object{
		"dead":         child(t, fault.Dead, j),
		"unresponsive": with(child(t, fault.Unresponsive, j), object{"connectTimeout": "120s"}),
		"missing":      object{"command": "/nonexistent/server"},
	}
	from := time.Now()
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": with(working, broken)}, Probe: "stdio-l1"})
	gatewaytest.Eventually(t, func() error {
		status := g.Status()
		for name := range working {
			if s := status[name]; s.State != "ready" {
				return fmt.Errorf("%s is %s: %s", name, s.State, s.LastError)
			}
		}
		return nil
	})
	if took := time.Since(from); gatewaytest.Exceeds(took, 2*time.Second) {
		t.Errorf("the working ones are ready after %v", took)
	}
	// The unresponsive one is still waited for: it has delayed nobody.
	if s := g.Status()["unresponsive"]; s.State == "ready" || s.State == "stopped" {
		t.Errorf("unresponsive is %q", s.State)
	}
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	for name := range working {
		for _, era := range gatewaytest.Eras {
			echoes(ctx, t, enter(ctx, t, g, name, gatewaytest.HTTP, era), name)
		}
	}
	// The broken ones are tried again, and what they said last is shown.
	gatewaytest.Eventually(t, func() error {
		if n := len(j.Of(fault.Started, fault.Dead)); n < 3 {
			return fmt.Errorf("the dead one was started %d times", n)
		}
		return nil
	})
	gatewaytest.Eventually(t, func() error {
		status := g.Status()
		for _, name := range []string{"dead", "missing"} {
			if s := status[name]; s.State != "backing off" || s.LastError == "" {
				return fmt.Errorf("%s is %q because of %q", name, s.State, s.LastError)
			}
		}
		if s := status["dead"]; s.LastStderr != fault.LastStderrLine {
			return fmt.Errorf("the last word of the dead one is %q", s.LastStderr)
		}
		return nil
	})
	for _, era := range gatewaytest.Eras {
		all := enter(ctx, t, g, "", gatewaytest.HTTP, era)
		names, err := all.Tools(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for name := range working {
			if tool := name + "_echo"; !contains(names, tool) {
				t.Errorf("%s is not offered to a %s client: %.300q", tool, era, names)
			} else if got := says(ctx, t, all, tool, object{"text": name}); got != name {
				t.Errorf("%s says %q", tool, got)
			}
		}
	}
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// TestPain33_EveryServerByEveryEndpoint has a file as hosts have it, and clients of all
// kinds of endpoints.
func TestPain33_EveryServerByEveryEndpoint(t *testing.T) {
	t.Parallel() // with a gateway of its own
	j := newJournal(t)
	modern := remote(t, fault.Modern, j)
	g := gatewaytest.Serve(t, &gatewaytest.Options{Probe: "memory", Config: object{"mcpServers": object{
		"memory": child(t, fault.Legacy, j), "search": object{"type": "http", "url": modern.URL + "/mcp"},
	}}})
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	for _, name := range []string{"memory", "search"} {
		for _, era := range gatewaytest.Eras {
			for _, way := range ways(era) {
				echoes(ctx, t, enter(ctx, t, g, name, way, era), name+way)
			}
		}
		resp, err := gatewaytest.Post(ctx, g.URL(name, "call")+"/echo", http.Header{"Accept": {"application/json"}}, `{"text":"plain"}`)
		if err != nil {
			t.Fatal(err)
		}
		if body := read(t, resp); resp.StatusCode != http.StatusOK || !strings.Contains(body, "plain") {
			t.Errorf("%s by a plain call: %s %s", name, resp.Status, body)
		}
	}
}

// TestPain22_NamesStayWithinWhatClientsTake has a server and a tool with names that
// are long together, and characters that clients refuse.
func TestPain22_NamesStayWithinWhatClientsTake(t *testing.T) {
	t.Parallel() // with a gateway of its own
	j := newJournal(t)
	long := strings.Repeat("long.name-", 6) // 60 characters, with dots
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": object{long: child(t, fault.Legacy, j), "other": child(t, fault.Modern, j)}}})
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	for _, era := range gatewaytest.Eras {
		c := enter(ctx, t, g, "", gatewaytest.HTTP, era)
		var names []string
		gatewaytest.Eventually(t, func() (err error) {
			if names, err = c.Tools(ctx); err == nil && len(names) < 60 {
				err = fmt.Errorf("%d tools are offered", len(names))
			}
			return err
		})
		seen := map[string]bool{}
		for _, name := range names {
			if len(name) > 64 || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
				t.Errorf("the name %q is not taken by clients", name)
			}
			if seen[name] {
				t.Errorf("the name %q is there twice", name)
			}
			seen[name] = true
		}
	}
}

// TestS30_NamesAreTheSameAfterARestart is why a client may remember them.
func TestS30_NamesAreTheSameAfterARestart(t *testing.T) {
	t.Parallel() // with a gateway of its own
	j := newJournal(t)
	var before string
	for range 2 {
		g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": object{"a.b": child(t, fault.Legacy, j), "a-b": child(t, fault.Modern, j), "a_b": child(t, fault.Legacy, j)}}, Probe: "a-b"})
		ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
		c := enter(ctx, t, g, "", gatewaytest.HTTP, protocol.Modern)
		gatewaytest.Eventually(t, func() error {
			names, err := c.Tools(ctx)
			if err == nil && len(names) < 150 {
				err = fmt.Errorf("%d tools are offered", len(names))
			}
			if err != nil {
				return err
			}
			if now := strings.Join(names, " "); before != "" && now != before {
				t.Errorf("the names were %s\nand are %s", before, now)
			} else {
				before = now
			}
			return nil
		})
	}
}
