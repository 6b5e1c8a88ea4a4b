package up

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/adapt"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A handshake is what the handshake of a session settled.
type handshake struct {
	route adapt.Route
	facts *serverFacts      // about the server
	env   protocol.Envelope // of all requests, until the client sets its log level
	can   protocol.Abilities
}

// initialize answers the handshake out of what the server says about itself.
func (ss *session) initialize(ctx context.Context, req *dragoman.Message) (*dragoman.Message, error) {
	var params struct {
		ProtocolVersion *string         `json:"protocolVersion"`
		Capabilities    json.RawMessage `json:"capabilities"`
		ClientInfo      json.RawMessage `json:"clientInfo"`
	}
	switch err := req.Decode(&params); {
	case err != nil:
		return invalid(req, "params of initialize cannot be read: %v", err), nil
	case params.ProtocolVersion == nil:
		return invalid(req, "params.protocolVersion is missing; name the newest revision that you speak"), nil
	case params.Capabilities != nil && !dragoman.IsObject(params.Capabilities):
		return invalid(req, "params.capabilities must be an object, {} if you have none"), nil
	}
	known, err := ss.server.facts(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		ss.server.opts.Logger.Warn("no handshake", "error", err)
		return req.Fail(noHandshake(err, *params.ProtocolVersion)), nil
	}
	rev := protocol.NegotiateLegacy(*params.ProtocolVersion, ss.server.opts.Revisions)
	h := newHandshake(adapt.Route{Client: rev, Server: known.rev}, known, params.Capabilities, params.ClientInfo)
	if !ss.hello.CompareAndSwap(nil, h) {
		return alreadyInitialized(req), nil
	}
	return req.Reply(struct {
		ProtocolVersion string          `json:"protocolVersion"`
		Capabilities    json.RawMessage `json:"capabilities"`
		ServerInfo      json.RawMessage `json:"serverInfo"`
		Instructions    json.RawMessage `json:"instructions,omitempty"`
	}{rev.String(), h.route.ServerCapabilities(known.caps), known.info, known.instructions})
}

func newHandshake(route adapt.Route, known *serverFacts, caps, info json.RawMessage) *handshake {
	if caps == nil {
		caps = json.RawMessage("{}")
	}
	caps = route.ClientCapabilities(caps)
	h := &handshake{route: route, facts: known, env: protocol.Envelope{
		Version:      route.Server.String(),
		Capabilities: withTasks(caps),
		// A client that never sets a level still expects to see something.
		LogLevel: json.RawMessage(`"info"`),
	}}
	h.can, _ = protocol.AbilitiesOf(caps) // what cannot be read is not there
	if protocol.IsImplementation(info) {
		h.env.Client = info // else a server might refuse every request
	}
	return h
}

// withTasks adds to a client's capabilities that it knows tasks: we follow them
// on its behalf.
func withTasks(caps []byte) []byte {
	extensions := dragoman.Member(caps, "extensions")
	if !dragoman.IsObject(extensions) {
		extensions = []byte("{}")
	}
	return dragoman.WithMember(caps, "extensions", dragoman.WithMember(extensions, protocol.ExtensionTasks, []byte("{}")))
}

// noHandshake is the error for a client whose handshake the server made
// impossible. requested is the revision that the client asked for.
func noHandshake(err error, requested string) *dragoman.Error {
	var old *errUnsupported
	if errors.As(err, &old) {
		e := fault(protocol.CodeInvalidParams, "Unsupported protocol version: "+err.Error())
		e.Data, _ = json.Marshal(struct { // strings always encode
			Supported []string `json:"supported"`
			Requested string   `json:"requested"`
		}{old.supported, requested})
		return e
	}
	e := fault(protocol.CodeInternal, "the server cannot be reached or does not say what it can do; try again later: "+err.Error())
	e.Data = json.RawMessage(`{"source":"gateway","outcome":"` + protocol.OutcomeNotSent + `"}`)
	return e
}

// alreadyInitialized is the answer to a second initialize.
func alreadyInitialized(req *dragoman.Message) *dragoman.Message {
	return req.Fail(fault(protocol.CodeInvalidRequest,
		"this conversation is initialized already; open another for other parameters"))
}
