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
	if r.Client.HasCoreTasks() && !r.Server.HasCoreTasks() && req.Method() == protocol.MethodCallTool && contains(req.Params(), pieceTask) {
		e.Drop("task")
	}
	switch {
	case r.down():
		drop(e, req, "inputResponses", "requestState")
		e.DropMeta(envelope[:]...)
	case env != nil && r.Server.TagsResults():
		setEnvelope(e, env)
	case r.up():
		return nil, fmt.Errorf("adapt: %q needs an envelope for a server of %s", req.Method(), r.Server)
	}
	return e.Message()
}

// envelope is what a request of the modern era says in _meta about its sender.
var envelope = [...]string{protocol.MetaProtocolVersion, protocol.MetaClientInfo, protocol.MetaClientCapabilities, protocol.MetaLogLevel}

// Values that are set again and again. Nobody changes them.
var latestText, emptyText = strconv.AppendQuote(nil, protocol.Latest.String()), []byte("{}")

// setEnvelope puts an envelope into the _meta of a request, in place of any other.
func setEnvelope(e *dragoman.Edit, env *protocol.Envelope) {
	caps := env.Capabilities
	if caps == nil {
		caps = emptyText
	}
	version := latestText
	if env.Version != protocol.Latest.String() {
		version = strconv.AppendQuote(nil, env.Version)
	}
	e.SetMeta(protocol.MetaProtocolVersion, version)
	e.SetMeta(protocol.MetaClientCapabilities, caps)
	e.SetMeta(protocol.MetaClientInfo, env.Client)
	e.SetMeta(protocol.MetaLogLevel, env.LogLevel)
}
