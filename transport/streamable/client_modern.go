package streamable

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/internal/wire/toollist"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// A list of tools is used for toolsFresh if the server does not say for how long:
	// a server that misses a header refuses the call. If the list cannot be fetched, it
	// is not asked for again for toolsFailed, unless a header is missing.
	toolsFresh  = time.Hour
	toolsFailed = time.Minute
)

// modernHeaders returns the headers that repeat parts of a modern message.
func modernHeaders(m *dragoman.Message) http.Header {
	h := make(http.Header, 4)
	h.Set(protocol.HeaderVersion, m.MetaText(protocol.MetaProtocolVersion))
	h.Set(protocol.HeaderMethod, m.Method())
	if name, ok := httpframe.MirrorName(m); ok {
		h.Set(protocol.HeaderName, httpframe.EncodeHeaderValue(name))
	}
	return h
}

// runModern makes a call of the modern era.
func (k *clientCall) runModern() (*dragoman.Message, error) {
	req := k.Request()
	if req.Method() == protocol.MethodCallTool {
		return k.runTool()
	}
	resp, err := k.roundTrip(modernHeaders(req))
	if err == nil && req.Method() == protocol.MethodListTools {
		k.conn.tools.Learn(nil, req, resp)
		resp = k.conn.withoutInvalidTools(resp)
	}
	return resp, err
}

// runTool calls a tool. If the server misses headers, it has not run the tool:
// its schemas are fetched and the call is made once more.
func (k *clientCall) runTool() (*dragoman.Message, error) {
	c := k.conn
	tools, meta := c.tools, k.Request().Get("_meta")
	list := tools.Known(nil)
	if !c.client.NoToolList {
		var err error
		if list, err = tools.Get(k.ctx, nil, k.Request().Name(), meta, k.listTools); err != nil {
			c.log.Debug("list of tools not fetched", "error", err)
		}
	}
	resp, err := k.roundTrip(k.toolHeaders(list))
	if err != nil || !resp.IsError() || resp.RPCError().Code != protocol.CodeHeaderMismatch {
		return resp, err
	}
	var newer *toollist.List
	if list == nil {
		tools.Forget(nil) // the failure to fetch it
		newer, err = tools.Get(k.ctx, nil, k.Request().Name(), meta, k.listTools)
	} else {
		newer = tools.Newer(k.ctx, nil, k.Request().Name(), list, meta, k.listTools)
	}
	if err != nil || newer == list {
		return resp, nil //nolint:nilerr // the server's own error says more than why that failed
	}
	return k.roundTrip(k.toolHeaders(newer))
}

// toolHeaders returns the headers of a tool call, those for its arguments
// included. The list may be nil.
func (k *clientCall) toolHeaders(list *toollist.List) http.Header {
	req := k.Request()
	h := modernHeaders(req)
	if list == nil || list.Tool(req.Name()) == nil {
		return h
	}
	params, _ := list.Tool(req.Name()).Headers() // a faulty annotation means nothing
	for _, p := range params {
		value, present, err := p.Value(req.Get("arguments"))
		switch {
		case err != nil:
			k.conn.log.Debug("argument cannot be a header", "header", p.Header(), "error", err)
		case present:
			h.Set(p.Header(), httpframe.EncodeHeaderValue(value))
		}
	}
	return h
}

// listTools asks for one page of the list of tools, as the caller of k would. It may
// take longer than that caller waits: others wait for the list too.
func (k *clientCall) listTools(ctx context.Context, req *dragoman.Message) (*dragoman.Message, error) {
	_, resp, err := k.conn.call(ctx, req, nil)
	return resp, err
}

// withoutInvalidTools takes the tools whose schemas want headers that are not valid
// out of an answer to tools/list.
func (c *clientConn) withoutInvalidTools(resp *dragoman.Message) *dragoman.Message {
	var accepted [][]byte
	invalid := false
	for _, tool := range dragoman.Items(resp.Get("tools")) {
		if _, err := toollist.ParamHeaders(dragoman.Member(tool, "inputSchema")); err != nil {
			c.log.Warn("tool left out, because its schema has a header that is not valid", "tool", dragoman.MemberText(tool, "name"), "error", err)
			invalid = true
			continue
		}
		accepted = append(accepted, tool)
	}
	if !invalid {
		return resp
	}
	text := append([]byte{'['}, bytes.Join(accepted, []byte{','})...)
	own, err := resp.Edit().Set("tools", append(text, ']')).Message()
	if err != nil {
		return resp
	}
	return own
}
