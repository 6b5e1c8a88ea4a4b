package streamable

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/flight"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/toollist"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// clientMaxTools is how many tools are remembered.
	clientMaxTools = 16384

	// clientListAgain is how long nobody asks for the list of tools after that
	// has failed.
	clientListAgain = time.Minute
)

// clientHeaders returns the headers that repeat parts of a modern message.
func clientHeaders(m *dragoman.Message) http.Header {
	h := make(http.Header, 4)
	h.Set(protocol.HeaderVersion, m.MetaText(protocol.MetaProtocolVersion))
	h.Set(protocol.HeaderMethod, m.Method())
	if name, ok := httpx.MirrorName(m); ok {
		h.Set(protocol.HeaderName, httpx.EncodeHeaderValue(name))
	}
	return h
}

// runModern makes a call of the modern era.
func (k *clientCall) runModern() (*dragoman.Message, error) {
	switch k.Request().Method() {
	case protocol.MethodCallTool:
		return k.runTool()
	case protocol.MethodListTools:
		resp, err := k.once(clientHeaders(k.Request()))
		if err != nil {
			return nil, err
		}
		return k.conn.client.tools.learn(k.Request(), resp, k.conn), nil
	}
	return k.once(clientHeaders(k.Request()))
}

// runTool calls a tool. If the server misses headers, it has not run the tool:
// its schemas are fetched and the call is made once more.
func (k *clientCall) runTool() (*dragoman.Message, error) {
	c := k.conn
	tools := &c.client.tools
	params, known := tools.of(k.Request().Name())
	if !known && !c.client.NoToolList {
		if err := tools.fetch(k, false); err != nil {
			c.log.Debug("list of tools not to be had", "error", err)
		}
		if k.ctx.Err() != nil {
			return nil, context.Cause(k.ctx)
		}
		params, _ = tools.of(k.Request().Name())
	}
	resp, err := k.once(k.withParams(params))
	if err != nil || !resp.IsError() || resp.RPCError().Code != protocol.CodeHeaderMismatch {
		return resp, err
	}
	if tools.fetch(k, true) == nil {
		params, _ = tools.of(k.Request().Name())
		return k.once(k.withParams(params))
	}
	return resp, err // the server's own words say more than why that failed
}

// withParams returns the headers of a tool call, those for its arguments
// included.
func (k *clientCall) withParams(params []toollist.ParamHeader) http.Header {
	h := clientHeaders(k.Request())
	for _, p := range params {
		value, present, err := p.Value(k.Request().Get("arguments"))
		switch {
		case err != nil:
			k.conn.log.Debug("argument cannot be a header", "header", p.Header(), "error", err)
		case present:
			h.Set(p.Header(), httpx.EncodeHeaderValue(value))
		}
	}
	return h
}

// clientTools is what the schemas of a server's tools say about headers.
type clientTools struct {
	mu       sync.Mutex
	known    map[string][]toollist.ParamHeader
	complete bool      // a tool that is not known has none
	failed   error     // why the list could not be had
	until    time.Time // it is not asked for again before, after that
	list     flight.Flight[struct{}]
}

// of returns the headers of a tool, and whether they are known.
func (t *clientTools) of(name string) ([]toollist.ParamHeader, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	params, ok := t.known[name]
	return params, ok || t.complete
}

// stale forgets everything.
func (t *clientTools) stale() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known, t.complete = nil, false
}

// learn takes the schemas out of an answer to tools/list, and the tools whose
// schemas are not valid out of the answer.
func (t *clientTools) learn(req, resp *dragoman.Message, c *clientConn) *dragoman.Message {
	if resp.IsError() {
		return resp
	}
	list, err := dragoman.Elements(resp.Get("tools"))
	if err != nil {
		return resp
	}
	found := make(map[string][]toollist.ParamHeader, len(list))
	var kept [][]byte
	for _, tool := range list {
		var members map[string]json.RawMessage
		var name string
		if json.Unmarshal(tool, &members) != nil || json.Unmarshal(members["name"], &name) != nil {
			kept = append(kept, tool) // not ours to judge
			continue
		}
		params, err := toollist.ParamHeaders(members["inputSchema"])
		if err != nil {
			c.log.Warn("tool left out, because its schema has a header that is not valid", "tool", name, "error", err)
			continue
		}
		found[name] = params
		kept = append(kept, tool)
	}
	t.add(found, req.Get("cursor") == nil && resp.Get("nextCursor") == nil)
	if len(kept) == len(list) {
		return resp
	}
	text := append([]byte{'['}, bytes.Join(kept, []byte{','})...)
	own, err := resp.Edit().Set("tools", append(text, ']')).Message()
	if err != nil {
		return resp
	}
	return own
}

// add remembers what was found. All tells that there are no other tools.
func (t *clientTools) add(found map[string][]toollist.ParamHeader, all bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if all || t.known == nil {
		t.known = make(map[string][]toollist.ParamHeader, len(found))
	}
	for name, params := range found {
		if len(t.known) < clientMaxTools {
			t.known[name] = params
		}
	}
	t.complete = t.complete || all
}

// fetch asks for the list of tools as the caller of k would. Callers at the same
// time share one answer. Unless again is set, nothing is asked soon after a
// failure.
func (t *clientTools) fetch(k *clientCall, again bool) error {
	t.mu.Lock()
	failed, wait := t.failed, time.Until(t.until)
	t.mu.Unlock()
	if !again && wait > 0 {
		return failed
	}
	t.list.Forget(nil)
	_, err := t.list.Get(k.ctx, flight.OnCaller, func() (struct{}, error) {
		err := k.listTools()
		t.mu.Lock()
		defer t.mu.Unlock()
		if err != nil && k.ctx.Err() == nil {
			t.failed, t.until = err, time.Now().Add(clientListAgain)
		}
		t.complete = t.complete || err == nil
		return struct{}{}, err
	})
	return err
}

// listTools asks for all pages; the answers are learnt from as they come.
func (k *clientCall) listTools() error {
	meta := make(map[string]json.RawMessage)
	for _, key := range []string{protocol.MetaProtocolVersion, protocol.MetaClientCapabilities, protocol.MetaClientInfo} {
		if v := k.Request().Meta(key); v != nil {
			meta[key] = v
		}
	}
	req, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodListTools, map[string]any{"_meta": meta})
	if err != nil {
		return err
	}
	for _, err := range protocol.Pages(req, func(req *dragoman.Message) (*dragoman.Message, error) {
		_, resp, err := k.conn.call(k.ctx, req, nil, false)
		return resp, err
	}) {
		if err != nil {
			return err
		}
	}
	return nil
}
