package gateway_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// A heard is what somebody was told, by method.
type heard struct {
	mu    sync.Mutex
	notes []*dragoman.Message
}

func (h *heard) take(_ context.Context, note *dragoman.Message) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notes = append(h.notes, note)
	return nil
}

func (h *heard) of(method string) (list []*dragoman.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, note := range h.notes {
		if note.Method() == method {
			list = append(list, note)
		}
	}
	return list
}

// What a reload changes about what of a server is offered is announced at its own endpoints,
// in each era of the client and of the server.
func TestChangedFilterIsAnnouncedAtTheEndpointsOfTheServer(t *testing.T) {
	for _, rev := range []protocol.Revision{protocol.LatestLegacy, protocol.Latest} {
		for _, era := range eras {
			t.Run(fmt.Sprintf("%s client, %s server", era, rev.Era()), func(t *testing.T) {
				url := startBuiltin(t, rev)
				g := begin(t, fmt.Sprintf("servers: {a: {url: %s}}", url))
				g.ready()
				h := &heard{}
				opts := &client.Options{OnNotification: func(note *dragoman.Message) { _ = h.take(t.Context(), note) }}
				if era == protocol.Modern {
					opts.OnNotification = nil // it would not say when it hears of changes
					listen(t, &streamable.Client{URL: g.url + "/servers/a/mcp"}, h)
				}
				c := g.joinAs("/servers/a/mcp", opts, era)
				for _, change := range []struct{ offers, note string }{
					{"tools: {exclude: [add]}", protocol.NoteToolsChanged},
					{"tools: {rename: {echo: say}}", protocol.NoteToolsChanged},
					{"tools: {describe: {echo: x}}", protocol.NoteToolsChanged},
					{"tools: {include: [echo]}", protocol.NoteToolsChanged},
					{"tools: {include: [echo]}, prompts: {exclude: [test_simple_prompt]}", protocol.NotePromptsChanged},
					{"tools: {include: [echo]}, prompts: {include: [test_simple_prompt]}", protocol.NotePromptsChanged},
					{"tools: {include: [echo]}, prompts: {include: [test_simple_prompt]}, resources: {exclude: [test://static-text]}", protocol.NoteResourcesChanged},
				} {
					before := everythingOf(t, c) // and it hears of changes from now on
					n := len(h.of(change.note))
					g.reload(fmt.Sprintf("servers: {a: {url: %s, %s}}", url, change.offers))
					eventually(t, "the change to "+change.offers+" is announced", func() bool { return len(h.of(change.note)) > n })
					if after := everythingOf(t, c); slices.Equal(before, after) {
						t.Errorf("with %s there is still %v", change.offers, after)
					}
				}
			})
		}
	}
}

// everythingOf returns what a client is offered.
func everythingOf(t *testing.T, c *client.Client) (all []string) {
	t.Helper()
	tools, err := c.Tools(within(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools {
		all = append(all, tool.Name+" "+tool.Description)
	}
	prompts, err := c.Prompts(within(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range prompts {
		all = append(all, p.Name)
	}
	resources, err := c.Resources(within(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resources {
		all = append(all, r.URI)
	}
	templates, err := c.Templates(within(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range templates {
		all = append(all, r.URITemplate)
	}
	return all
}

// listen opens a subscription and returns when it is acknowledged.
func listen(t *testing.T, d dragoman.Dialer, h *heard) (id dragoman.ID, end func() error) {
	t.Helper()
	conn, err := d.Dial(within(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	req, err := dragoman.NewRequest(dragoman.StringID("mine"), protocol.MethodListen, map[string]any{"notifications": protocol.Interest{Tools: true, Prompts: true, Resources: true}})
	if err == nil {
		req, err = protocol.Envelope{Version: protocol.Latest.String()}.Put(req)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { // ends with cancel
		_, err := conn.Call(ctx, req, dragoman.Funcs{OnNotify: h.take})
		ended <- err
	}()
	t.Cleanup(cancel)
	eventually(t, "the subscription is acknowledged", func() bool { return len(h.of(protocol.NoteAcknowledged)) == 1 })
	return req.ID(), func() error {
		cancel()
		return <-ended
	}
}

func TestAnnouncementNamesTheSubscriptionAndComesOnlyWithAChange(t *testing.T) {
	url := startBuiltin(t, protocol.Latest)
	g := begin(t, fmt.Sprintf("servers: {a: {url: %s}}", url))
	g.ready()
	var one, other heard
	endpoint := &streamable.Client{URL: g.url + "/servers/a/mcp"}
	_, end := listen(t, endpoint, &other)
	id, _ := listen(t, endpoint, &one)
	g.reload(fmt.Sprintf("servers: {a: {url: %s, tools: {timeout: {echo: 1m}, prefix: x}}}", url))
	if err := end(); err == nil {
		t.Error("a subscription that was cancelled has an answer")
	}
	g.reload(fmt.Sprintf("servers: {a: {url: %s, tools: {exclude: [add]}}}", url))
	eventually(t, "the change is announced", func() bool { return len(one.of(protocol.NoteToolsChanged)) > 0 })
	g.reload(fmt.Sprintf("servers: {a: {url: %s, tools: {exclude: [add]}, prompts: {exclude: [x]}, resources: {exclude: [y]}}}", url))
	eventually(t, "the next change is announced", func() bool { return len(one.of(protocol.NoteResourcesChanged)) > 0 })
	for _, method := range []string{protocol.NoteToolsChanged, protocol.NotePromptsChanged, protocol.NoteResourcesChanged} {
		notes := one.of(method)
		if got := string(notes[0].Meta(protocol.MetaSubscriptionID)); len(notes) != 1 || got != id.String() {
			t.Errorf("%d announcements of %s, the first for the subscription %s, want one for %s", len(notes), method, got, id)
		}
	}
	if n := len(other.of(protocol.NoteToolsChanged)); n != 0 {
		t.Errorf("one that has ended gets %d announcements", n)
	}
}

func TestChangedFilterIsAnnouncedInUnions(t *testing.T) {
	url := startBuiltin(t, protocol.Latest)
	text := "servers: {a: {url: %s%s}, b: {url: %[1]s}}\ngroups: {all: [a, b]}\n"
	g := begin(t, fmt.Sprintf(text, url, ""))
	g.ready()
	for _, path := range []string{"/mcp", "/groups/all/mcp"} {
		g.reload(fmt.Sprintf(text, url, ""))
		c := g.join(path, protocol.Modern)
		before := everythingOf(t, c)
		var h heard
		listen(t, &streamable.Client{URL: g.url + path}, &h)
		g.reload(fmt.Sprintf(text, url, ", prompts: {exclude: [test_simple_prompt]}"))
		eventually(t, "the change is announced", func() bool { return len(h.of(protocol.NotePromptsChanged)) > 0 })
		after := everythingOf(t, c)
		if slices.Contains(after, "a_test_simple_prompt") || !slices.Contains(after, "b_test_simple_prompt") || len(after) != len(before)-1 {
			t.Errorf("%s: after the change there is %q", path, after)
		}
	}
}

func TestSessionThatWasTakenOverHearsOfAChangedFilter(t *testing.T) {
	url := startBuiltin(t, protocol.LatestLegacy)
	g := begin(t, fmt.Sprintf("servers: {a: {url: %s}}", url))
	g.ready()
	h := &heard{}
	c := g.joinAs("/servers/a/mcp", &client.Options{OnNotification: func(note *dragoman.Message) { _ = h.take(t.Context(), note) }}, protocol.Legacy)
	g.reload(fmt.Sprintf("servers: {a: {url: %s, timeout: 5m}}", url))
	toolNames(t, c)
	eventually(t, "the session is told that it has another server", func() bool { return len(h.of(protocol.NotePromptsChanged)) > 0 })
	n := len(h.of(protocol.NoteToolsChanged))
	g.reload(fmt.Sprintf("servers: {a: {url: %s, timeout: 5m, tools: {exclude: [add]}}}", url))
	eventually(t, "the change is announced", func() bool { return len(h.of(protocol.NoteToolsChanged)) > n })
}

// A client of HTTP+SSE is one of a conversation that stays open.
func TestChangedFilterIsAnnouncedOnStreams(t *testing.T) {
	url := startBuiltin(t, protocol.LatestLegacy)
	g := begin(t, fmt.Sprintf("servers: {a: {url: %s}}", url))
	g.ready()
	h := &heard{}
	conn, err := (&sse.Client{URL: g.url + "/servers/a" + gateway.SSEPath}).Dial(within(t), dragoman.Funcs{OnNotify: h.take})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	req, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodInitialize, map[string]any{
		"protocolVersion": protocol.LatestLegacy.String(), "capabilities": struct{}{}, "clientInfo": map[string]string{"name": "c", "version": "1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := conn.Call(within(t), req, nil); err != nil || resp.IsError() {
		t.Fatalf("initialize: %v %v", resp, err)
	}
	// Before it has said that it is initialized it must not be told anything.
	g.reload(fmt.Sprintf("servers: {a: {url: %s, tools: {exclude: [add]}}}", url))
	note, err := dragoman.NewNotification(protocol.NoteInitialized, nil)
	if err == nil {
		err = conn.Notify(within(t), note)
	}
	if err != nil {
		t.Fatal(err)
	}
	if req, err = dragoman.NewRequest(dragoman.IntID(2), protocol.MethodPing, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Call(within(t), req, nil); err != nil {
		t.Fatal(err)
	}
	if n := len(h.of(protocol.NoteToolsChanged)); n != 0 {
		t.Errorf("it was told %d times before it was ready", n)
	}
	g.reload(fmt.Sprintf("servers: {a: {url: %s}}", url))
	eventually(t, "the change is announced", func() bool { return len(h.of(protocol.NoteToolsChanged)) > 0 })
}
