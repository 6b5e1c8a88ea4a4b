package gateway

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A filter is a server, in either era, with the tools, prompts and resources that its
// configuration offers and the rules allow the caller, under the names that the
// configuration gives them. What is not offered does not exist: it is neither listed nor
// can it be asked for. Who is told of changes by the server is told when the
// configuration changes too.
type filter struct {
	dragoman.Peer
	views     *views
	client    dragoman.Conn    // of a conversation; nil if there is none
	caller    *dragoman.Caller // who began the conversation
	listeners *listeners
	promised  atomic.Pointer[protocol.Interest] // by the answer to initialize: to tell of these changes
}

// Call implements dragoman.Peer.
func (f *filter) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	v := f.views.of(ctx, f.caller)
	if !v.grant.Any() {
		return v.nothing(req)
	}
	switch req.Method() {
	case protocol.MethodInitialize:
		resp, err := f.Peer.Call(ctx, req, from)
		if err == nil && resp != nil && !resp.IsError() {
			can := protocol.ListsOf(resp.Get("capabilities"))
			f.promised.Store(&can)
		}
		return resp, err
	case protocol.MethodListTools, protocol.MethodListPrompts, protocol.MethodListResources, protocol.MethodListTemplates:
		return f.list(ctx, req, from)
	case protocol.MethodListen:
		return f.listen(ctx, v, req, from)
	}
	if e := v.refusal(ctx, f.Peer, req); e != nil {
		return nil, e
	}
	if req.Method() != protocol.MethodCallTool {
		return f.Peer.Call(ctx, req, from)
	}
	own, _ := ownName(&v.conf.Tools, req.Name())
	asked := req
	if own != req.Name() {
		var err error
		if asked, err = req.Edit().Set("name", dragoman.Quote(own)).Message(); err != nil {
			return nil, err
		}
	}
	resp, err := f.Peer.Call(ctx, asked, from)
	if err == nil && resp != nil && resp.IsError() {
		resp = v.withNear(own, req, resp)
	}
	return resp, err
}

// Notify implements dragoman.Peer. A session is told of changes when it has begun.
func (f *filter) Notify(ctx context.Context, note *dragoman.Message) error {
	if note.Method() == protocol.NoteInitialized && f.client != nil {
		if can := f.promised.Swap(nil); can != nil && !can.Empty() {
			f.listeners.add(&listener{Peer: f.client, gone: func() bool { return f.client.Err() != nil }, wants: *can})
		}
	}
	return f.Peer.Notify(ctx, note)
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

// list passes a request for a list on, and returns what is offered of the answer.
func (f *filter) list(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	resp, err := f.Peer.Call(ctx, req, from)
	if err != nil || resp == nil || resp.IsError() {
		return resp, err
	}
	v := f.views.of(ctx, f.caller) // as it is now: who was told of a change before gets what it is told of
	if req.Method() == protocol.MethodListTools {
		v.tools.Learn(v.listKey(), req, resp)
	}
	array, key, offers := v.offers(req.Method())
	if offers == nil {
		return resp, nil
	}
	list := narrow(resp.Get(array), func(element []byte) []byte {
		name := dragoman.MemberText(element, key)
		if !offers(name, element) {
			return nil
		}
		if req.Method() == protocol.MethodListTools {
			return described(&v.conf.Tools, name, element)
		}
		return element
	})
	return resp.Edit().Set(array, list).Message()
}

// narrow returns a list of what becomes of its elements; nil is left out.
func narrow(list []byte, becomes func([]byte) []byte) []byte {
	out := []byte{'['}
	for _, element := range dragoman.Items(list) {
		element = becomes(element)
		if element == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, element...)
	}
	return append(out, ']')
}

// narrowMember returns an object whose list of that name, in whatever spelling, is narrowed, and
// whether it has one.
func narrowMember(object []byte, name string, becomes func([]byte) []byte) (narrowed []byte, ok bool) {
	out, last := []byte(nil), 0
	for key, at := range dragoman.Fields(object) {
		if strings.EqualFold(key, name) {
			out = append(append(out, object[last:at.Start]...), narrow(object[at.Start:at.End], becomes)...)
			last = at.End
		}
	}
	return append(out, object[last:]...), last > 0
}

// described returns a tool with the name and the description that it has here.
func described(t *config.Tools, name string, tool []byte) []byte {
	if ours, ok := t.Rename[name]; ok {
		tool = dragoman.WithMember(tool, "name", dragoman.Quote(ours))
	}
	if text, ok := t.Describe[name]; ok {
		tool = dragoman.WithMember(tool, "description", dragoman.Quote(text))
	}
	return tool
}

// listen passes a subscription on, without the resources that are not offered, and adds
// what we have to tell.
func (f *filter) listen(ctx context.Context, v *view, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if _, _, offers := v.offers(protocol.MethodListResources); offers != nil {
		wanted, ok := narrowMember(req.Get("notifications"), "resourceSubscriptions", func(uri []byte) []byte {
			if text, _ := dragoman.Text(uri); !offers(text, nil) {
				return nil
			}
			return uri
		})
		if ok {
			var err error
			if req, err = req.Edit().Set("notifications", wanted).Message(); err != nil {
				return nil, err
			}
		}
	}
	if from == nil {
		return f.Peer.Call(ctx, req, nil)
	}
	l := &listener{Peer: from, hides: f.views.hides(ctx, f.caller), id: req.ID(), asked: protocol.InterestOf(req)}
	f.listeners.add(l)
	defer f.listeners.remove(l)
	return f.Peer.Call(ctx, req, l)
}

// A filteredClient is the client of a conversation as the server sees it. It is told nothing of
// resources that are not offered, also if they were when it subscribed.
type filteredClient struct {
	dragoman.Conn
	hides func(note *dragoman.Message) bool
}

// Unwrap returns the conversation itself.
func (a filteredClient) Unwrap() dragoman.Conn { return a.Conn }

// Notify implements dragoman.Peer.
func (a filteredClient) Notify(ctx context.Context, note *dragoman.Message) error {
	if a.hides(note) {
		return nil
	}
	return a.Conn.Notify(ctx, note)
}
