// Package replay sends the requests of a recording (package tap) to a server again, and
// reports where the responses differ: at most 1,000 differences per response.
package replay

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/observe/tap"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A Recording is what dragoman tap --record has written, as far as it can be sent again.
type Recording struct {
	Steps   []Step
	Era     protocol.Era      // in which it was spoken
	Version protocol.Revision // in which it was spoken; unknown if no message names it
	Masked  int               // requests in which a secret was masked
	Dropped int               // messages that passed too fast to be recorded

	capabilities json.RawMessage // that the client declared first; nil if none

	mu      sync.Mutex
	answers map[string][]json.RawMessage // that the client gave to questions, by method; guarded by mu
}

// A Step is a request of the client.
type Step struct {
	Line   int // of the recording
	At     time.Time
	Method string
	Name   string
	Params json.RawMessage
	Want   *Outcome // nil if no answer was recorded
}

// An Outcome is what came of a request: a result, or an error.
type Outcome struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

// mask is what stands in a recording where a secret was.
const mask = "[redacted]"

// maxLine is how long a line of a recording may be.
const maxLine = 128 << 20

// Read reads a recording. server, if not empty, is the one of a gateway whose messages
// count; a recording of several needs one.
func Read(r io.Reader, server string) (*Recording, error) {
	rec := &Recording{Era: protocol.Modern, answers: map[string][]json.RawMessage{}}
	steps := map[string]int{}               // without an answer, by session and id
	questions := map[string]inputRequests{} // of the modern era that a client still answers, by session and method
	servers := map[string]bool{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for number := 1; lines.Scan(); number++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var e tap.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.From == "" {
			return nil, fmt.Errorf("line %d is none of a recording of dragoman tap --record", number)
		}
		rec.Dropped += e.Dropped
		if server != "" && e.Server != server || e.Message == nil {
			continue
		}
		if servers[e.Server] = true; len(servers) > 1 {
			return nil, fmt.Errorf("the recording is of several servers; choose one with --server: %s", strings.Join(slices.Sorted(maps.Keys(servers)), ", "))
		}
		m, err := dragoman.Limits{MaxMessage: -1}.Parse(e.Message)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		rec.take(number, &e, m, steps, questions)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(rec.Steps) == 0 {
		return nil, errors.New("there is no request of a client in the recording")
	}
	return rec, nil
}

// inputRequests are the questions of an input_required result, by their keys.
type inputRequests map[string]struct{ Method string }

// take takes one message.
func (rec *Recording) take(line int, e *tap.Event, m *dragoman.Message, steps map[string]int, questions map[string]inputRequests) {
	key := e.Session + " " + string(e.ID)
	round := e.Session + " " + e.Method + " " + e.Name
	switch {
	case e.From == tap.Client && e.Answer && !m.IsError():
		rec.answers[e.Method] = append(rec.answers[e.Method], m.Result())
	case e.From == tap.Client && e.ID != nil && !e.Answer:
		rec.declared(e.Method, m)
		if given := m.Get("inputResponses"); given != nil && questions[round] != nil {
			rec.answered(questions[round], given)
			delete(questions, round)
			if i := rec.last(e.Method, e.Name); i >= 0 {
				steps[key] = i // its answer is that of the first round
			}
			return
		}
		if !sent(e.Method) {
			return
		}
		params := clean(m.Params())
		if bytes.Contains(params, []byte(mask)) {
			rec.Masked++
		}
		steps[key] = len(rec.Steps)
		rec.Steps = append(rec.Steps, Step{Line: line, At: e.Time, Method: e.Method, Name: e.Name, Params: params})
	case e.From == tap.Server && e.Answer && e.Method == protocol.MethodInitialize:
		rec.Version = revisionOf(m.Get("protocolVersion"))
	case e.From == tap.Server && e.Answer:
		i, ok := steps[key]
		if !ok {
			return
		}
		delete(steps, key)
		var asked inputRequests
		if kind, _ := dragoman.Text(m.Get("resultType")); kind == protocol.ResultInputRequired && json.Unmarshal(m.Get("inputRequests"), &asked) == nil {
			questions[round] = asked
			return
		}
		var want Outcome
		if json.Unmarshal(e.Message, &want) == nil {
			rec.Steps[i].Want = &want
		}
	}
}

// declared remembers what a client says of itself in a request.
func (rec *Recording) declared(method string, req *dragoman.Message) {
	declared := req.Meta(protocol.MetaClientCapabilities)
	if method == protocol.MethodInitialize {
		rec.Era, declared = protocol.Legacy, req.Get("capabilities")
	} else if version := revisionOf(req.Meta(protocol.MetaProtocolVersion)); version != protocol.Unknown {
		rec.Version = version
	}
	if rec.capabilities == nil {
		rec.capabilities = declared
	}
}

// revisionOf returns the revision that a member of a message names.
func revisionOf(member json.RawMessage) protocol.Revision {
	name, _ := dragoman.Text(member) // else it names none
	return protocol.ParseRevision(name)
}

// answered remembers what a client answered to the questions of a result.
func (rec *Recording) answered(asked inputRequests, given json.RawMessage) {
	var answers map[string]json.RawMessage
	_ = json.Unmarshal(given, &answers) // what cannot be read was no answer
	for _, key := range slices.Sorted(maps.Keys(answers)) {
		method := asked[key].Method
		rec.answers[method] = append(rec.answers[method], answers[key])
	}
}

// last returns the last step with a method and a name; -1 if there is none.
func (rec *Recording) last(method, name string) int {
	for i := range slices.Backward(rec.Steps) {
		if rec.Steps[i].Method == method && rec.Steps[i].Name == name {
			return i
		}
	}
	return -1
}

// sent reports whether a request is sent again: the handshake is our own, and a listen
// never ends.
func sent(method string) bool {
	switch method {
	case protocol.MethodInitialize, protocol.MethodDiscover, protocol.MethodListen:
		return false
	}
	return true
}

// clean leaves out of params what belonged to that conversation.
func clean(params json.RawMessage) json.RawMessage {
	var all, meta map[string]json.RawMessage
	if json.Unmarshal(params, &all) != nil {
		return nil
	}
	if json.Unmarshal(all["_meta"], &meta) == nil {
		for _, name := range []string{protocol.MetaProtocolVersion, protocol.MetaClientInfo, protocol.MetaClientCapabilities, protocol.MetaProgressToken} {
			delete(meta, name)
		}
		delete(all, "_meta")
		if len(meta) > 0 {
			all["_meta"], _ = json.Marshal(meta) // what was decoded encodes
		}
	}
	text, _ := json.Marshal(all) // as above
	return text
}

// Options has the capabilities of the recording's client declared, and requests of the server
// answered as that client did, in that order.
func (rec *Recording) Options() *client.Options {
	o := &client.Options{Capabilities: rec.capabilities}
	for method, handler := range map[string]*client.Handler{
		protocol.MethodCreateMessage: &o.Sampling, protocol.MethodElicit: &o.Elicitation, protocol.MethodListRoots: &o.Roots,
	} {
		if len(rec.answers[method]) > 0 {
			*handler = func(context.Context, json.RawMessage) (any, error) { return rec.answer(method) }
		}
	}
	return o
}

// answer returns the next answer to a question; the last one is given again.
func (rec *Recording) answer(method string) (json.RawMessage, error) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	all := rec.answers[method]
	if len(all) > 1 {
		rec.answers[method] = all[1:]
	}
	return all[0], nil
}
