package adapt

import (
	"fmt"
	"strconv"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Request returns a client's request as the server's revision has it. env is
// the envelope for a modern server, which says what the client is to that
// server; it is nil otherwise.
//
// A legacy server gets the request without the envelope, without answers of a
// round of input and without state; token, trace and foreign members of _meta
// stay. A task that the client asks for is dropped if the server has none.
func (r Route) Request(req *dragoman.Message, env *protocol.Envelope) (*dragoman.Message, error) {
	if r.Same() {
		return req, nil
	}
	e := req.Edit()
	if r.Client.HasCoreTasks() && !r.Server.HasCoreTasks() && req.Method() == protocol.MethodCallTool && mentions(req.Params(), pieceTask) {
		e.Drop("task")
	}
	switch {
	case r.down():
		drop(e, req, "inputResponses", "requestState")
		if meta := req.Get("_meta"); isObject(meta) {
			set(e, "_meta", meta, without(meta, envelope...))
		}
	case env != nil && r.Server.TagsResults():
		e.Set("_meta", dressed(req.Get("_meta"), env))
	case r.up():
		return nil, fmt.Errorf("adapt: %q needs an envelope for a server of %s", req.Method(), r.Server)
	}
	return e.Message()
}

// envelope is what a request of the modern era says in _meta about its sender.
var envelope = []string{protocol.MetaProtocolVersion, protocol.MetaClientInfo, protocol.MetaClientCapabilities, protocol.MetaLogLevel}

// dressed returns the _meta of a request, which may be absent, with an envelope
// in place of any other.
func dressed(meta []byte, env *protocol.Envelope) []byte {
	b := make([]byte, 0, 256+len(env.Capabilities)+len(env.Client))
	b = append(b, `"`+protocol.MetaProtocolVersion+`":`...)
	b = strconv.AppendQuote(b, env.Version)
	b = append(b, `,"`+protocol.MetaClientCapabilities+`":`...)
	if env.Capabilities == nil {
		b = append(b, "{}"...)
	}
	b = append(b, env.Capabilities...)
	if env.Client != nil {
		b = append(b, `,"`+protocol.MetaClientInfo+`":`...)
		b = append(b, env.Client...)
	}
	if env.LogLevel != nil {
		b = append(b, `,"`+protocol.MetaLogLevel+`":`...)
		b = append(b, env.LogLevel...)
	}
	return withMembers(meta, b, envelope...)
}
