package gateway

import (
	"cmp"
	"context"
	"strings"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A filter is a server, in either era, with the tools, prompts and resources that its
// configuration offers, under the names that it gives them. What is not offered does not
// exist: it is neither listed nor can it be asked for. Who is told of changes by the
// server is told when the configuration changes too.
type filter struct {
	dragoman.Peer
	config    func() *config.Server
	listeners *listeners
	client    dragoman.Conn                     // of a conversation; nil if there is none
	promised  atomic.Pointer[protocol.Interest] // by the answer to initialize: to tell of these changes
}

// Call implements dragoman.Peer.
func (f *filter) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
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
		return f.listen(ctx, req, from)
	}
	conf := f.config()
	if e := refusal(conf, req); e != nil {
		return nil, &denial{"not offered", e}
	}
	if req.Method() == protocol.MethodCallTool {
		if own, _ := ownName(&conf.Tools, req.Name()); own != req.Name() {
			var err error
			if req, err = req.Edit().Set("name", dragoman.Quote(own)).Message(); err != nil {
				return nil, err
			}
		}
	}
	return f.Peer.Call(ctx, req, from)
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

// refusal returns the error for a request about something that is not offered: that for
// something that does not exist, in the request's era. It is nil if there is none.
func refusal(conf *config.Server, req *dragoman.Message) *dragoman.Error {
	switch req.Method() {
	case protocol.MethodCallTool:
		if _, ok := ownName(&conf.Tools, req.Name()); !ok {
			return unknown("tool", req.Name())
		}
	case protocol.MethodGetPrompt:
		if !conf.Prompts.Offers(req.Name()) {
			return unknown("prompt", req.Name())
		}
	case protocol.MethodReadResource, protocol.MethodSubscribe:
		if uri := req.URI(); !conf.Resources.Offers(uri) {
			rev := protocol.LatestLegacy
			if protocol.IsModern(req) {
				rev = protocol.Latest
			}
			return &dragoman.Error{Code: rev.CodeNoResource(), Message: "Resource not found: " + uri, Data: dragoman.WithMember([]byte("{}"), "uri", dragoman.Quote(uri))}
		}
	case protocol.MethodComplete:
		return refusedRef(conf, req.Get("ref"))
	}
	return nil
}

// refusedRef is refusal for what is to be completed. Servers differ in which of two
// members with one name they take, and in whether case matters, so all must be offered.
func refusedRef(conf *config.Server, ref []byte) *dragoman.Error {
	for key, value := range dragoman.Members(ref) {
		text, _ := dragoman.Text(value)
		switch {
		case strings.EqualFold(key, "name") && !conf.Prompts.Offers(text):
			return unknown("prompt", text)
		case strings.EqualFold(key, "uri") && !conf.Resources.Offers(text):
			return unknown("resource", text)
		}
	}
	return nil
}

func unknown(noun, name string) *dragoman.Error {
	return &dragoman.Error{Code: protocol.CodeInvalidParams, Message: "Unknown " + noun + ": " + name}
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
	conf := f.config() // as it is now: who was told of a change before gets what it is told of
	array, key, offers := rules(conf, req.Method())
	if offers == nil {
		return resp, nil
	}
	list := narrow(resp.Get(array), func(element []byte) []byte {
		name := dragoman.MemberText(element, key)
		if !offers(name) {
			return nil
		}
		if req.Method() == protocol.MethodListTools {
			return described(&conf.Tools, name, element)
		}
		return element
	})
	return resp.Edit().Set(array, list).Message()
}

// rules returns where the result of a method has its list, what tells the elements apart,
// and which ones are offered; nil if all are, as they are.
func rules(c *config.Server, method string) (array, key string, offers func(string) bool) {
	switch method {
	case protocol.MethodListTools:
		if t := &c.Tools; len(t.Include)+len(t.Exclude)+len(t.Rename)+len(t.Describe) > 0 {
			offers = func(name string) bool { // unless another tool has its name
				own, ok := ownName(t, cmp.Or(t.Rename[name], name))
				return ok && own == name
			}
		}
		return "tools", "name", offers
	case protocol.MethodListPrompts:
		if len(c.Prompts.Include)+len(c.Prompts.Exclude) > 0 {
			offers = c.Prompts.Offers
		}
		return "prompts", "name", offers
	}
	if len(c.Resources.Include)+len(c.Resources.Exclude) > 0 {
		offers = c.Resources.Offers
	}
	if method == protocol.MethodListTemplates {
		return "resourceTemplates", "uriTemplate", offers
	}
	return "resources", "uri", offers
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
func (f *filter) listen(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	wanted := req.Get("notifications")
	out, last := []byte(nil), 0
	if _, _, offers := rules(f.config(), protocol.MethodListResources); offers != nil {
		for key, at := range dragoman.Fields(wanted) {
			if !strings.EqualFold(key, "resourceSubscriptions") {
				continue
			}
			out = append(append(out, wanted[last:at.Start]...), narrow(wanted[at.Start:at.End], func(uri []byte) []byte {
				if text, _ := dragoman.Text(uri); !offers(text) {
					return nil
				}
				return uri
			})...)
			last = at.End
		}
	}
	if last > 0 {
		var err error
		if req, err = req.Edit().Set("notifications", append(out, wanted[last:]...)).Message(); err != nil {
			return nil, err
		}
	}
	if from == nil {
		return f.Peer.Call(ctx, req, nil)
	}
	l := &listener{Peer: from, config: f.config, id: req.ID()}
	f.listeners.add(l)
	defer f.listeners.remove(l)
	return f.Peer.Call(ctx, req, l)
}

// An filteredClient is the client of a conversation as the server sees it. It is told nothing of
// resources that are not offered, also if they were when it subscribed.
type filteredClient struct {
	dragoman.Conn
	config func() *config.Server
}

// Unwrap returns the conversation itself.
func (a filteredClient) Unwrap() dragoman.Conn { return a.Conn }

// Notify implements dragoman.Peer.
func (a filteredClient) Notify(ctx context.Context, note *dragoman.Message) error {
	if hidden(a.config, note) {
		return nil
	}
	return a.Conn.Notify(ctx, note)
}

// hidden reports whether a notification is about a resource that is not offered.
func hidden(config func() *config.Server, note *dragoman.Message) bool {
	return note.Method() == protocol.NoteResourceUpdated && !config().Resources.Offers(note.URI())
}
