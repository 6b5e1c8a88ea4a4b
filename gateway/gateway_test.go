package gateway_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/gateway"
	"github.com/dragoman-mcp/dragoman/internal/everything"
	"github.com/dragoman-mcp/dragoman/manager"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

type statusOf = manager.Status

// both returns a configuration with a server of each era.
func both(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("servers:\n  old: {url: %s}\n  new: {url: %s}\n", upstream(t, protocol.LatestLegacy), upstream(t, protocol.Latest))
}

func TestC05_Pain33_EachServerAndAllAsOneOnEveryPathInBothEras(t *testing.T) {
	g := begin(t, both(t)+"groups:\n  some: [new]\n  same: {servers: [old], naming: plain, path: /mine}\n")
	g.ready()
	for _, era := range eras {
		for path, tool := range map[string]string{
			"/servers/old/mcp": "echo", "/servers/new/mcp": "echo", "/groups/some/mcp": "new_echo", "/mine": "echo",
		} {
			c := g.join(path, era)
			echo(t, c, tool)
			if names := toolNames(t, c); !slices.Contains(names, tool) {
				t.Errorf("%s, %s era: %s is not among %v", path, era, tool, names)
			}
		}
		all := g.join("/mcp", era)
		echo(t, all, "old_echo")
		echo(t, all, "new_echo")
	}
	for _, path := range []string{"/call", "/servers/old/call", "/groups/some/call", "/mine/call"} {
		if status, body := g.get(path); status != http.StatusOK || !strings.Contains(body, "echo") {
			t.Errorf("%s: got %d %.80s", path, status, body)
		}
	}
	for _, path := range []string{"/servers/none/mcp", "/servers/old/x", "/servers", "/groups/none/mcp"} {
		if status, _ := g.get(path); status != http.StatusNotFound {
			t.Errorf("%s: got %d, want 404", path, status)
		}
	}
}

func TestToolsThatAreNotOfferedAreNeitherListedNorCalled(t *testing.T) {
	g := begin(t, fmt.Sprintf(`servers:
  old: {url: %s, tools: &t {include: [echo, add, levels], exclude: [levels], rename: {add: plus}, describe: {add: "Sums."}}}
  new: {url: %s, tools: *t}
`, upstream(t, protocol.LatestLegacy), upstream(t, protocol.Latest)))
	g.ready()
	for _, era := range eras {
		for path, prefix := range map[string]string{"/servers/old/mcp": "", "/servers/new/mcp": "", "/mcp": "old_"} {
			c := g.join(path, era)
			list, err := c.Tools(within(t))
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]string{}
			for _, tool := range list {
				if strings.HasPrefix(tool.Name, prefix) {
					seen[strings.TrimPrefix(tool.Name, prefix)] = tool.Description
				}
			}
			if path != "/mcp" && len(seen) != 2 || seen["echo"] == "" || seen["plus"] != "Sums." {
				t.Errorf("%s, %s era: the tools are %v", path, era, seen)
			}
			if r, err := c.CallTool(within(t), prefix+"plus", map[string]int{"a": 1, "b": 2}, nil); err != nil || r.Text() != `{"sum":3}` {
				t.Errorf("%s, %s era: plus: %+v, error %v", path, era, r, err)
			}
			for _, hidden := range []string{"add", "levels", "reflect"} {
				if _, err := c.CallTool(within(t), prefix+hidden, nil, nil); err == nil || !strings.Contains(strings.ToLower(err.Error()), "unknown tool") {
					t.Errorf("%s, %s era: %s: error %v", path, era, hidden, err)
				}
			}
		}
	}
}

func TestForeignPagesAreKeptOutOfEveryPath(t *testing.T) {
	g := begin(t, both(t))
	for _, path := range []string{"/mcp", "/sse", "/ws", "/call", "/servers/old/mcp", "/status", "/healthz", "/nothing"} {
		for name, value := range map[string]string{"Origin": "http://evil.example", "Host": "evil.example"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set(name, value)
			if name == "Host" {
				req.Host = value
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusForbidden {
				t.Errorf("%s with %s %s: got %d, want 403", path, name, value, resp.StatusCode)
			}
		}
	}
}

func TestC17_StatusTellsOfServersGroupsAndReadiness(t *testing.T) {
	g := begin(t, both(t)+"groups: {some: [new]}\n")
	g.ready()
	if status, body := g.get(gateway.HealthPath); status != http.StatusOK || body != "ok\n" {
		t.Errorf("health: %d %q", status, body)
	}
	if status, body := g.get(gateway.ReadyPath); status != http.StatusOK || body != "ready\n" {
		t.Errorf("readiness: %d %q", status, body)
	}
	_, body := g.get(gateway.StatusPath)
	var s gateway.Status
	decode(t, body, &s)
	if len(s.Servers) != 2 || s.Servers[0].Name != "old" || s.Servers[0].Era != "legacy" || s.Servers[1].Revision != protocol.Latest.String() {
		t.Errorf("servers: %s", body)
	}
	if len(s.Groups) != 1 || s.Groups[0].Path != "/groups/some/mcp" {
		t.Errorf("groups: %s", body)
	}
	if err := g.Shutdown(within(t)); err != nil {
		t.Fatal(err)
	}
	if status, body := g.get(gateway.ReadyPath); status != http.StatusServiceUnavailable || body != "draining\n" {
		t.Errorf("readiness after the end: %d %q", status, body)
	}
}

func TestRequestsHaveIdsThatReachTheServer(t *testing.T) {
	var mu sync.Mutex
	var got []string
	server := everything.New(nil)
	door := &streamable.Server{Requests: server.Requests()}
	url := serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		got = append(got, r.Header.Get("Mcp-Method")+" "+r.Header.Get("X-Request-Id"))
		mu.Unlock()
		door.ServeHTTP(w, r)
	}))
	g := begin(t, fmt.Sprintf("servers: {a: {url: %s}}", url))
	t.Cleanup(func() { _ = server.Close() }) // ends the listens, which a door waits for
	g.ready()
	req, err := http.NewRequestWithContext(within(t), http.MethodPost, g.url+"/servers/a/call/echo", strings.NewReader(`{"text":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", "my-id.1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if id := resp.Header.Get("X-Request-Id"); id != "my-id.1" {
		t.Errorf("the response names %q", id)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Contains(got, "tools/call my-id.1") {
		t.Errorf("the server was asked %q", got)
	}
}
