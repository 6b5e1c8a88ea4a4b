package adapt

import (
	"bytes"
	"encoding/json"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// ClientCapabilities returns what the server may be told of the client's
// capabilities, as the server's revision has it. Both are JSON objects; what is
// none becomes {}.
func (r Route) ClientCapabilities(caps json.RawMessage) json.RawMessage {
	return r.capabilities(caps, func(name string, value []byte) []byte {
		switch name {
		case "roots":
			if r.up() {
				return without(value, "listChanged")
			}
		case "sampling":
			if !samplesTools(r.Client) || !samplesTools(r.Server) {
				return without(value, "tools", "context")
			}
		case "elicitation":
			return r.elicitation(value)
		case "tasks":
			if !r.Client.HasCoreTasks() || !r.Server.HasCoreTasks() {
				return nil
			}
		case "extensions":
			return r.extensions(value)
		}
		return value
	})
}

// modernExtensions are the extensions that cannot exist in the legacy era, by their
// specifications. They are removed where eras differ; all others cross unchanged.
var modernExtensions = [...]string{protocol.ExtensionTasks, protocol.ExtensionEvents}

// extensions returns that capability of either side, or nil if nothing is left of it.
func (r Route) extensions(value []byte) []byte {
	switch {
	case r.Client.Era() == r.Server.Era():
		return value
	case !dragoman.IsObject(value):
		return nil
	}
	left := without(value, modernExtensions[:]...)
	for range dragoman.Fields(left) {
		return left
	}
	return nil
}

// elicitation returns that capability of the client. Without members it means
// forms, in every revision; URLs must be named.
func (r Route) elicitation(value []byte) []byte {
	switch {
	case !r.Client.HasElicitation() || !r.Server.HasElicitation():
		return nil
	case !r.Client.HasURLElicitation():
		return without(value, "form", "url")
	case r.Server.HasURLElicitation():
		return value
	case dragoman.Member(value, "url") != nil && dragoman.Member(value, "form") == nil:
		return nil // the server would ask by form
	}
	return without(value, "form", "url")
}

// ServerCapabilities returns what the client may be told of the server's
// capabilities, as the client's revision has it. Both are JSON objects; what is
// none becomes {}.
func (r Route) ServerCapabilities(caps json.RawMessage) json.RawMessage {
	return r.capabilities(caps, func(name string, value []byte) []byte {
		switch name {
		case "tasks":
			if !r.Client.HasCoreTasks() || !r.Server.HasCoreTasks() {
				return nil
			}
		case "extensions":
			return r.extensions(value)
		case "completions":
			if !r.Client.HasCompletions() {
				return nil
			}
		}
		return value
	})
}

func (r Route) capabilities(caps json.RawMessage, change func(name string, value []byte) []byte) json.RawMessage {
	if r.Same() {
		return caps
	}
	if caps = bytes.TrimSpace(caps); !dragoman.IsObject(caps) || !json.Valid(caps) {
		return json.RawMessage("{}")
	}
	return edited(caps, change, nil)
}
