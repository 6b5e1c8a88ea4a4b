// Package rounds has what input rounds of the modern era need where they are made here: the
// states that clients carry from one round to the next, and their answers.
package rounds

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/token"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// NewSealer returns a sealer of states whose key is its own. Others can tell that its texts are not theirs.
func NewSealer() *token.Sealer { return token.NewSealer(token.NewKey(), rand.Text()[:8]) }

// Digest returns what all requests of one call have in common: the method and the params
// without those that change from round to round. A client may write them in another order.
func Digest(req *dragoman.Message) ([]byte, error) {
	var params map[string]json.RawMessage
	if err := req.Decode(&params); err != nil {
		return nil, err
	}
	for _, name := range [...]string{"_meta", "inputResponses", "requestState"} {
		delete(params, name)
	}
	rest, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	if rest, err = Canonical(rest); err != nil {
		return nil, err
	}
	h := sha256.New()
	h.Write([]byte(req.Method() + "\n"))
	h.Write(rest)
	return h.Sum(nil), nil
}

// Answers returns the inputResponses of a request, by key. The error is the answer to a
// request that has others.
func Answers(req *dragoman.Message) (map[string]json.RawMessage, *dragoman.Error) {
	given := req.Get("inputResponses")
	if given == nil {
		return nil, nil
	}
	var answers map[string]json.RawMessage
	if !dragoman.IsObject(given) || json.Unmarshal(given, &answers) != nil {
		return nil, &dragoman.Error{Code: protocol.CodeInvalidParams, Message: "params.inputResponses must be an object with an answer for each key of inputRequests"}
	}
	for _, key := range slices.Sorted(maps.Keys(answers)) {
		if !dragoman.IsObject(answers[key]) {
			return nil, &dragoman.Error{Code: protocol.CodeInvalidParams, Message: fmt.Sprintf("params.inputResponses: the answer for %q must be a result object", key)}
		}
	}
	return answers, nil
}

// Canonical returns JSON text in the form in which equal values are equal texts:
// members are sorted, and numbers stay as they are spelled.
func Canonical(text json.RawMessage) ([]byte, error) {
	var value any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	return json.Marshal(value)
}
