package streamable

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// toolsFresh is how long what is known of a caller's tools counts.
	toolsFresh = 30 * time.Second

	// maxCallers is of how many callers the tools are known.
	maxCallers = 1024
)

// toolHeaders knows which arguments of which tools are repeated in headers, for
// each caller, since callers may see different tools.
type toolHeaders struct {
	mu      sync.Mutex
	callers map[string]*callerTools
}

type callerTools struct {
	until time.Time
	tools map[string][]httpx.ParamHeader
}

// toolList is what matters of a result of tools/list.
type toolList struct {
	Tools []struct {
		Name        string          `json:"name"`
		InputSchema json.RawMessage `json:"inputSchema"`
	} `json:"tools"`
}

// check compares the Mcp-Param headers of a tool call with its arguments.
func (t *toolHeaders) check(r *http.Request, m *dragoman.Message, s *Server) error {
	headers, known := t.get(httpx.Key(r), m.Name())
	if !known {
		t.look(r, m, s)
		headers, _ = t.get(httpx.Key(r), m.Name())
	}
	for _, h := range headers {
		want, present, err := h.Value(m.Get("arguments"))
		if err != nil || !present {
			continue // the tool will say what it thinks of that
		}
		got, sent, err := httpx.Single(r, h.Header())
		switch {
		case err != nil:
			return err
		case !sent:
			return fmt.Errorf("%s is missing; it must repeat the argument", h.Header())
		}
		if got, err = httpx.DecodeHeaderValue(got); err != nil {
			return fmt.Errorf("%s: %w", h.Header(), err)
		}
		if !httpx.Equal(got, want, h.Type) {
			return fmt.Errorf("%s says %q, the body says %q", h.Header(), got, want)
		}
	}
	return nil
}

// get returns the headers of a tool, and whether the caller's tools are known.
func (t *toolHeaders) get(caller, tool string) (headers []httpx.ParamHeader, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.callers[caller]
	if c == nil || time.Now().After(c.until) {
		return nil, false
	}
	return c.tools[tool], true
}

// learn takes a result of tools/list that passes by.
func (t *toolHeaders) learn(caller string, resp *dragoman.Message) {
	var list toolList
	if !resp.IsError() && resp.Decode(&list) == nil {
		t.add(caller, &list, false)
	}
}

// add notes tools. With fresh, what was known is forgotten.
func (t *toolHeaders) add(caller string, list *toolList, fresh bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.callers == nil || len(t.callers) >= maxCallers {
		t.callers = make(map[string]*callerTools)
	}
	c := t.callers[caller]
	if c == nil || fresh {
		c = &callerTools{tools: make(map[string][]httpx.ParamHeader)}
		if fresh {
			c.until = time.Now().Add(toolsFresh)
		}
		t.callers[caller] = c
	}
	for _, tool := range list.Tools {
		// Tools with faulty annotations are dropped by clients, not by us.
		headers, _ := httpx.ParamHeaders(tool.InputSchema)
		c.tools[tool.Name] = headers
	}
}

// look fetches the caller's tools, for as long as the request that needs them lasts.
func (t *toolHeaders) look(r *http.Request, m *dragoman.Message, s *Server) {
	ctx := &callContext{parent: r.Context()}
	defer ctx.close()
	if !s.begin(ctx) {
		return // nor is there room for the call
	}
	defer s.done(ctx)
	t.fetch(ctx, httpx.Key(r), m, s.Requests)
}

// fetch asks for all tools, in the name of the caller.
func (t *toolHeaders) fetch(ctx context.Context, caller string, m *dragoman.Message, peer dragoman.Peer) {
	req, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodListTools, map[string]any{"_meta": m.Get("_meta")})
	if err != nil {
		return
	}
	if req, err = req.Edit().DropMeta(protocol.MetaProgressToken).Message(); err != nil {
		return
	}
	var all toolList
	for resp, err := range protocol.Pages(req, func(req *dragoman.Message) (*dragoman.Message, error) { return peer.Call(ctx, req, nil) }) {
		var list toolList
		if err != nil || resp.Decode(&list) != nil {
			break
		}
		all.Tools = append(all.Tools, list.Tools...)
	}
	t.add(caller, &all, true)
}
