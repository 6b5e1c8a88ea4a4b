package gateway

import (
	"context"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/config"
	"github.com/dragoman-mcp/dragoman/internal/walk"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A filter is a server, in either era, with the tools that its configuration
// offers, under the names that it gives them. What is not offered does not exist:
// it is neither listed nor called.
type filter struct {
	dragoman.Peer
	server interface{ Config() *config.Server }
}

// Call implements dragoman.Peer.
func (f *filter) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	tools := &f.server.Config().Tools
	if !changes(tools) {
		return f.Peer.Call(ctx, req, from)
	}
	switch req.Method() {
	case protocol.MethodListTools:
		resp, err := f.Peer.Call(ctx, req, from)
		if err != nil || resp == nil || resp.IsError() {
			return resp, err
		}
		return resp.Edit().Set("tools", offered(tools, resp.Get("tools"))).Message()
	case protocol.MethodCallTool:
		own, ok := ownName(tools, req.Name())
		if !ok {
			return req.Fail(&dragoman.Error{Code: protocol.CodeInvalidParams, Message: "Unknown tool: " + req.Name()}), nil
		}
		if own != req.Name() {
			var err error
			if req, err = req.Edit().Set("name", walk.Quote(own)).Message(); err != nil {
				return nil, err
			}
		}
	}
	return f.Peer.Call(ctx, req, from)
}

// changes tells whether a configuration says anything about tools.
func changes(t *config.Tools) bool {
	return len(t.Include)+len(t.Exclude)+len(t.Rename)+len(t.Describe) > 0
}

// ownName returns what the server calls a tool that is offered.
func ownName(t *config.Tools, name string) (string, bool) {
	for own, ours := range t.Rename {
		if ours == name {
			return own, t.Offers(own)
		}
	}
	if _, renamed := t.Rename[name]; renamed {
		return "", false
	}
	return name, t.Offers(name)
}

// offered returns a list of tools with what is offered of it.
func offered(t *config.Tools, list []byte) []byte {
	out := []byte{'['}
	for start, end := range walk.Elements(list) {
		tool := list[start:end]
		name := walk.TextOf(tool, "name")
		if !t.Offers(name) {
			continue
		}
		if ours, ok := t.Rename[name]; ok {
			tool = walk.With(tool, "name", walk.Quote(ours))
		}
		if text, ok := t.Describe[name]; ok {
			tool = walk.With(tool, "description", walk.Quote(text))
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, tool...)
	}
	return append(out, ']')
}
