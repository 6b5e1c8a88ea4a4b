package gateway

import (
	"context"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/config"
	"github.com/dragoman-mcp/dragoman/internal/walk"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A filter is a server, in either era, with the tools that its configuration
// offers, under the names that it gives them. What is not offered does not exist:
// it is neither listed nor called. Who is told of changes by the server is told when
// the configuration changes too.
type filter struct {
	dragoman.Peer
	single   *single
	client   dragoman.Conn // of a conversation; nil if there is none
	promised atomic.Bool   // by the answer to initialize: to tell of changed tools
}

// Call implements dragoman.Peer.
func (f *filter) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	tools := &f.single.up.Config().Tools
	switch req.Method() {
	case protocol.MethodInitialize:
		resp, err := f.Peer.Call(ctx, req, from)
		if err == nil && resp != nil && !resp.IsError() {
			can := protocol.ListsOf(resp.Get("capabilities"))
			f.promised.Store(can.Tools)
		}
		return resp, err
	case protocol.MethodListen:
		if from != nil {
			return f.listen(ctx, req, from)
		}
	case protocol.MethodListTools:
		resp, err := f.Peer.Call(ctx, req, from)
		if err != nil || resp == nil || resp.IsError() || !changes(tools) {
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

// listen passes a subscription on, and adds what we have to tell.
func (f *filter) listen(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	note, err := toolsChanged(req.ID())
	if err != nil {
		return nil, err
	}
	l := &listener{Peer: from, note: note}
	f.single.listeners.add(l)
	defer f.single.listeners.remove(l)
	return f.Peer.Call(ctx, req, l)
}

// Notify implements dragoman.Peer. A session is told of changes when it has begun.
func (f *filter) Notify(ctx context.Context, note *dragoman.Message) error {
	if note.Method() == protocol.NoteInitialized && f.client != nil && f.promised.Swap(false) {
		if ours, err := toolsChanged(dragoman.ID{}); err == nil {
			f.single.listeners.add(&listener{Peer: f.client, note: ours, gone: func() bool { return f.client.Err() != nil }, wants: true})
		}
	}
	return f.Peer.Notify(ctx, note)
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
