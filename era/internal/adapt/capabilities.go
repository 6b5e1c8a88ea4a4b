package adapt

import (
	"bytes"
	"encoding/json"

	"github.com/dragoman-mcp/dragoman"
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
			if r.down() {
				return nil
			}
		}
		return value
	})
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
			if r.up() || r.down() {
				return nil
			}
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
