package adapt

import (
	"encoding/json"
	"fmt"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Response returns the server's response to a request of that method as the
// client's revision has it: tagged or without tags, content and lists adapted,
// error codes mapped. info is the introduction of a legacy server, for the _meta
// of results for a modern client; it may be nil.
//
// A result that is not complete means nothing to a legacy client, and gets an
// error: who runs the rounds of input looks at it first. The same goes for
// [protocol.CodeURLElicitation], which becomes an internal error for a modern
// client.
func (r Route) Response(method string, resp *dragoman.Message, info json.RawMessage) (*dragoman.Message, error) {
	if r.Same() {
		return resp, nil
	}
	if resp.IsError() {
		return r.failure(method, resp)
	}
	if !dragoman.IsObject(resp.Result()) {
		return r.withoutModernMembers(method, resp, info)
	}
	e := resp.Edit()
	switch {
	case r.down():
		tag(e, method, info)
	case r.up():
		if kind := resp.Get("resultType"); kind != nil && !completes(kind) {
			return nil, fmt.Errorf("adapt: a result of type %.40s means nothing to a client of %s", kind, r.Client)
		}
		removeTags(e, resp, method)
	}
	switch method {
	case protocol.MethodCallTool, protocol.MethodTaskResult:
		r.toolResult(e, resp)
	case protocol.MethodListTools:
		r.toolList(e, resp)
	case protocol.MethodGetPrompt:
		r.promptResult(e, resp)
	}
	return e.Message()
}

// complete is the value of resultType for a result that is all there is.
const complete = `"` + protocol.ResultComplete + `"`

// Values that are set again and again. Nobody changes them.
var completeText, zeroText, privateText = []byte(complete), []byte("0"), []byte(`"private"`)

// completes reports whether a value of resultType says that.
func completes(kind []byte) bool {
	if string(kind) == complete {
		return true // as nearly all spell it
	}
	s, _ := dragoman.Text(kind)
	return s == protocol.ResultComplete
}

// tag makes a result one of the modern era. A legacy server does not say how
// long its lists hold and for whom, so they are stale at once and private.
func tag(e *dragoman.Edit, method string, info json.RawMessage) {
	e.Set("resultType", completeText)
	if protocol.Cacheable(method) {
		e.Set("ttlMs", zeroText)
		e.Set("cacheScope", privateText)
	}
	if info != nil {
		e.SetMeta(protocol.MetaServerInfo, info)
	}
}

// removeTags makes a result one of the legacy era. In tasks ttlMs is how long the
// task lives, which is no tag.
func removeTags(e *dragoman.Edit, resp *dragoman.Message, method string) {
	drop(e, resp, "resultType")
	switch method {
	case protocol.MethodGetTask, protocol.MethodUpdateTask, protocol.MethodCancelTask:
	default:
		drop(e, resp, "ttlMs", "cacheScope")
	}
	if resp.Meta(protocol.MetaServerInfo) != nil {
		e.DropMeta(protocol.MetaServerInfo)
	}
}

// withoutModernMembers adapts a result that is no object. No revision allows it, but null is
// what some servers send where there is nothing to say.
func (r Route) withoutModernMembers(method string, resp *dragoman.Message, info json.RawMessage) (*dragoman.Message, error) {
	if !r.down() {
		return resp, nil
	}
	if string(resp.Result()) != "null" {
		return nil, fmt.Errorf("adapt: the server's result of %q is not an object", method)
	}
	empty, err := resp.Reply(nil)
	if err != nil {
		return nil, err
	}
	e := empty.Edit()
	tag(e, method, info)
	return e.Message()
}

// toolList adapts the tools of a list; those that need no change keep their
// bytes.
func (r Route) toolList(e *dragoman.Edit, resp *dragoman.Message) {
	if !r.changesTools(resp.Result()) {
		return
	}
	tools := dragoman.Member(resp.Result(), "tools")
	set(e, "tools", tools, r.tools(tools))
}

// promptResult adapts the messages of a prompt.
func (r Route) promptResult(e *dragoman.Edit, resp *dragoman.Message) {
	if !r.changesBlocks(resp.Result()) {
		return
	}
	messages := dragoman.Member(resp.Result(), "messages")
	b := r.embedding()
	now := mapped(messages, func(message []byte) []byte {
		return edited(message, func(name string, value []byte) []byte {
			if name == "content" {
				return b.block(value)
			}
			return value
		}, nil)
	})
	set(e, "messages", messages, now)
}
