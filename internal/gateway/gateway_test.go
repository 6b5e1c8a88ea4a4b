package gateway_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

type statusOf = upstream.Status

// both returns a configuration with a server of each era.
func both(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("servers:\n  old: {url: %s}\n  new: {url: %s}\n", startBuiltin(t, protocol.LatestLegacy), startBuiltin(t, protocol.Latest))
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
`, startBuiltin(t, protocol.LatestLegacy), startBuiltin(t, protocol.Latest)))
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

func TestPromptsAndResourcesThatAreNotOfferedDoNotExist(t *testing.T) {
	g := begin(t, fmt.Sprintf(`servers:
  old: {url: %s, prompts: &p {include: ["test_*"], exclude: ["*_image", "*_arguments"]}, resources: &r {include: ["test://*"], exclude: ["test://static-*", "test://greeting/*"]}}
  new: {url: %s, prompts: *p, resources: *r}
groups: {same: {servers: [old, new], naming: plain}}
`, startBuiltin(t, protocol.LatestLegacy), startBuiltin(t, protocol.Latest)))
	g.ready()
	for _, era := range eras {
		for path, prefix := range map[string]string{"/servers/old/mcp": "", "/servers/new/mcp": "", "/mcp": "old_", "/groups/same/mcp": ""} {
			t.Run(era.String()+" client at "+path, func(t *testing.T) {
				c := g.join(path, era)
				all := everythingOf(t, c)
				for _, want := range []string{prefix + "test_simple_prompt", "test://watched-resource", "test://template/{id}/data"} {
					if !slices.Contains(all, want) {
						t.Errorf("%s is not offered: %q", want, all)
					}
				}
				for _, name := range all {
					if strings.HasSuffix(name, "_image") || strings.HasSuffix(name, "prompt_with_arguments") || strings.HasPrefix(name, "test://static-") || strings.HasPrefix(name, "test://greeting/") {
						t.Errorf("%s is offered", name)
					}
				}
				if _, err := c.GetPrompt(within(t), prefix+"test_simple_prompt", nil); err != nil {
					t.Error(err)
				}
				for _, uri := range []string{"test://watched-resource", "test://template/1/data"} {
					if _, err := c.ReadResource(within(t), uri); err != nil {
						t.Error(err)
					}
				}
				if _, err := c.Complete(within(t), client.Ref{URI: "test://template/{id}/data"}, "id", "", nil); err != nil {
					t.Error(err)
				}
				if err := c.Subscribe(within(t), "test://watched-resource"); err != nil {
					t.Error(err)
				}
				noResource := protocol.LatestLegacy.CodeNoResource()
				if era == protocol.Modern {
					noResource = protocol.Latest.CodeNoResource()
				}
				get := func(name string) error { _, err := c.GetPrompt(within(t), prefix+name, nil); return err }
				read := func(uri string) error { _, err := c.ReadResource(within(t), uri); return err }
				complete := func(ref client.Ref) error { _, err := c.Complete(within(t), ref, "id", "", nil); return err }
				for what, test := range map[string]struct {
					hidden, unknown error
					code            int
				}{
					"prompt":                 {get("test_prompt_with_image"), get("none"), protocol.CodeInvalidParams},
					"resource":               {read("test://static-text"), read("test://nothing"), noResource},
					"resource by template":   {read("test://greeting/Ada"), read("none://greeting/Ada"), noResource},
					"completion":             {complete(client.Ref{Prompt: prefix + "test_prompt_with_arguments"}), complete(client.Ref{Prompt: "none"}), protocol.CodeInvalidParams},
					"completion by template": {complete(client.Ref{URI: "test://greeting/{name}"}), complete(client.Ref{URI: "none://{name}"}), protocol.CodeInvalidParams},
				} {
					for kind, err := range map[string]error{"hidden": test.hidden, "unknown": test.unknown} {
						if e, ok := errors.AsType[*dragoman.Error](err); !ok || e.Code != test.code {
							t.Errorf("%s that is %s: error %v, want %d", what, kind, err, test.code)
						}
					}
				}
				for _, uri := range []string{"test://static-text", "test://nothing"} {
					if err := c.Subscribe(within(t), uri); err == nil {
						t.Errorf("%s can be subscribed to", uri)
					}
				}
			})
		}
	}
}

// A client that has subscribed hears no more of a resource that is offered no more.
func TestChangesOfAResourceThatIsNoLongerOfferedAreNotTold(t *testing.T) {
	const hidden, other = "test://watched-resource", "test://static-text"
	for _, era := range eras {
		for _, path := range []string{"/servers/old/mcp", "/servers/new/mcp", "/mcp"} {
			t.Run(era.String()+" client at "+path, func(t *testing.T) {
				text := fmt.Sprintf("servers:\n  old: {url: %s%%s}\n  new: {url: %s%%[1]s}\n", startBuiltin(t, protocol.LatestLegacy), startBuiltin(t, protocol.Latest))
				g := begin(t, fmt.Sprintf(text, ""))
				g.ready()
				h := &heard{}
				c := g.joinAs(path, &client.Options{OnNotification: func(note *dragoman.Message) { _ = h.take(t.Context(), note) }}, era)
				about := func(uri string) (n int) {
					for _, note := range h.of(protocol.NoteResourceUpdated) {
						if note.URI() == uri {
							n++
						}
					}
					return n
				}
				update := func(uri string) {
					tool := "update_resource"
					if path == "/mcp" {
						tool = "old_" + tool // whose the resources are
					}
					if _, err := c.CallTool(within(t), tool, map[string]string{"uri": uri}, nil); err != nil {
						t.Fatal(err)
					}
				}
				for _, uri := range []string{hidden, other} {
					if err := c.Subscribe(within(t), uri); err != nil {
						t.Fatal(err)
					}
				}
				update(hidden)
				eventually(t, "a change is told", func() bool { return about(hidden) > 0 })
				g.reload(fmt.Sprintf(text, ", resources: {exclude: ["+hidden+"]}"))
				before, n := about(hidden), about(other)
				update(hidden)
				update(other)
				eventually(t, "a change of what is offered is told", func() bool { return about(other) > n })
				if got := about(hidden); got != before {
					t.Errorf("told %d times of what is not offered", got-before)
				}
			})
		}
	}
}

func TestS11_ForeignPagesAreKeptOutOfEveryPath(t *testing.T) {
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
	server := builtin.New(nil)
	endpoint := &streamable.Server{Requests: server.Requests()}
	url := serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		got = append(got, r.Header.Get("Mcp-Method")+" "+r.Header.Get("X-Request-Id"))
		mu.Unlock()
		endpoint.ServeHTTP(w, r)
	}))
	g := begin(t, fmt.Sprintf("servers: {a: {url: %s}}", url))
	t.Cleanup(func() { _ = server.Close() }) // ends the listens, which an endpoint waits for
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

// asked returns the answer to a request of a page.
func asked(h http.Handler, method, path, origin string, headers ...string) http.Header {
	r := httptest.NewRequest(method, path, strings.NewReader("{}"))
	r.Host = "127.0.0.1:8808"
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	head := w.Result().Header
	head.Set("Status", http.StatusText(w.Code))
	return head
}

func TestC13_PagesOfConfiguredOriginsMayReadEveryAnswer(t *testing.T) {
	g := begin(t, "servers: {a: {url: http://127.0.0.1:1, passHeaders: {X-Api-Key: Authorization}}}")
	h := g.Handler(&gateway.HandlerOptions{Origins: []string{"https://app.example.com"}})
	for _, path := range []string{
		"/mcp", "/messages", "/call", "/call/tool", "/ws", "/servers/a/mcp", "/servers/a/call", "/servers/none/mcp", "/nothing", "/status", "/healthz",
	} {
		const good, evil = "https://app.example.com", "https://evil.example"
		got := asked(h, http.MethodPost, path, good)
		if got.Get("Access-Control-Allow-Origin") != good || !slices.Contains(got.Values("Vary"), "Origin") {
			t.Errorf("%s: %v", path, got)
		}
		for _, name := range []string{"Mcp-Session-Id", "MCP-Protocol-Version", "WWW-Authenticate", "Retry-After"} {
			if !strings.Contains(got.Get("Access-Control-Expose-Headers"), name) {
				t.Errorf("%s: pages cannot read %s", path, name)
			}
		}
		pre := asked(h, http.MethodOptions, path, good, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type, x-api-key")
		if pre.Get("Status") != "No Content" || pre.Get("Access-Control-Allow-Origin") != good || pre.Get("Access-Control-Max-Age") == "" ||
			!strings.Contains(pre.Get("Access-Control-Allow-Headers"), "Authorization") || !strings.Contains(pre.Get("Access-Control-Allow-Headers"), "X-Api-Key") {
			t.Errorf("preflight of %s: %v", path, pre)
		}
		for _, got := range []http.Header{
			asked(h, http.MethodPost, path, evil), asked(h, http.MethodPost, path, "null"),
			asked(h, http.MethodOptions, path, evil, "Access-Control-Request-Method", "POST"),
		} {
			if got.Get("Status") != "Forbidden" || got.Get("Access-Control-Allow-Origin") != "" || got.Get("Access-Control-Allow-Headers") != "" || !slices.Contains(got.Values("Vary"), "Origin") {
				t.Errorf("a foreign page at %s: %v", path, got)
			}
		}
		for _, got := range []http.Header{got, pre, asked(h, http.MethodGet, path, "")} {
			if len(got.Values("Access-Control-Allow-Credentials")) > 0 {
				t.Errorf("%s: a browser may add credentials: %v", path, got)
			}
		}
	}
}

// A cache must not give what a program got to a page, which could not read it.
func TestC13_AnswersThatCachesMayKeepDependOnTheOrigin(t *testing.T) {
	g := begin(t, "servers: {a: {url: http://127.0.0.1:1}}")
	for _, path := range []string{"/call", "/status", "/healthz", "/nothing"} {
		if got := asked(g.Handler(nil), http.MethodGet, path, ""); !slices.Equal(got.Values("Vary"), []string{"Origin"}) {
			t.Errorf("%s: Vary is %q", path, got.Values("Vary"))
		}
	}
}

func TestC13_EveryOriginMeansAnyPageAndStillNoCredentials(t *testing.T) {
	g := begin(t, "servers: {a: {url: http://127.0.0.1:1}}")
	got := asked(g.Handler(&gateway.HandlerOptions{Origins: []string{"*"}}), http.MethodPost, "/mcp", "https://any.example")
	if got.Get("Access-Control-Allow-Origin") != "https://any.example" || len(got.Values("Access-Control-Allow-Credentials")) > 0 || !slices.Contains(got.Values("Vary"), "Origin") {
		t.Errorf("%v", got)
	}
}
