package gatewaytest

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// NeedsInput reports whether a result asks for input.
func NeedsInput(resp *dragoman.Message) bool {
	return Text(resp.Get("resultType")) == protocol.ResultInputRequired
}

// NextRound returns the params of a request that is sent again, with answers to the
// questions of the result that it got.
func NextRound(params Object, resp *dragoman.Message, answer func(method string, params json.RawMessage) (Object, error)) (Object, error) {
	var questions map[string]struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(resp.Get("inputRequests"), &questions); err != nil {
		return nil, fmt.Errorf("a round without questions: %w", err)
	}
	answers := Object{}
	for key, q := range questions {
		a, err := answer(q.Method, q.Params)
		if err != nil {
			return nil, err
		}
		answers[key] = a
	}
	next := maps.Clone(params)
	next["inputResponses"] = answers
	delete(next, "requestState")
	if state := resp.Get("requestState"); state != nil {
		next["requestState"] = state
	}
	return next, nil
}

// Text returns the string that JSON text is, or "".
func Text(value json.RawMessage) (s string) {
	_ = json.Unmarshal(value, &s) // what is no string has no text
	return s
}
