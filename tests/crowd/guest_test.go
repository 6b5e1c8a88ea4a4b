//go:build unix

package crowd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

type object = map[string]any

// patience is how long anything may take that has no limit of its own.
const patience = 15 * time.Second

// token is every guest's progress token.
const token = "p"

// A guest is a client that has a name, and knows what is its own by that. All of
// its requests have the same id and the same progress token as all of everybody
// else's.
type guest struct {
	name     string
	revision protocol.Revision
	conn     dragoman.Conn
	hold     chan struct{} // if not nil, answers wait until it is closed
	asked    chan string   // gets the method of each question; may be full

	mu      sync.Mutex
	word    string              // what its questions must have in them
	foreign []string            // what was another's
	heard   []*dragoman.Message // notifications, in order
	news    chan struct{}       // something was heard
}

// enter opens the conversation of a guest with a bridge.
func (b *bridge) enter(ctx context.Context, name, way string, r protocol.Revision) (*guest, error) {
	g := &guest{name: name, revision: r, asked: make(chan string, 64), news: make(chan struct{}, 1)}
	var err error
	if g.conn, err = b.dialers[way]().Dial(ctx, g); err != nil {
		return nil, fmt.Errorf("%s cannot reach the bridge over %s: %w", name, way, err)
	}
	if g.modern() {
		return g, nil
	}
	_, err = g.request(ctx, protocol.MethodInitialize, object{
		"protocolVersion": r.String(), "capabilities": g.capabilities(), "clientInfo": object{"name": name, "version": "1"},
	})
	if err == nil {
		var note *dragoman.Message
		if note, err = dragoman.NewNotification(protocol.NoteInitialized, nil); err == nil {
			err = g.conn.Notify(ctx, note)
		}
	}
	if err != nil {
		_ = g.conn.Close()
		return nil, fmt.Errorf("%s, initialize: %w", name, err)
	}
	return g, nil
}

// mustEnter is enter for a guest without whom the test makes no sense. It leaves
// when the test is over.
func (b *bridge) mustEnter(ctx context.Context, t *testing.T, name, way string, r protocol.Revision) *guest {
	t.Helper()
	g, err := b.enter(ctx, name, way, r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.conn.Close() })
	return g
}

func (g *guest) modern() bool { return g.revision.Era() == protocol.Modern }

func (g *guest) capabilities() object {
	return object{"sampling": object{}, "roots": object{}, "elicitation": object{}}
}

// message makes a request. All have the same id.
func (g *guest) message(method string, params object) (*dragoman.Message, error) {
	params, meta := maps.Clone(params), object{}
	if method != protocol.MethodInitialize && method != protocol.MethodListen {
		meta[protocol.MetaProgressToken] = token
	}
	if g.modern() {
		meta[protocol.MetaProtocolVersion] = g.revision.String()
		meta[protocol.MetaClientCapabilities] = g.capabilities()
		meta[protocol.MetaClientInfo] = object{"name": g.name, "version": "1"}
		if method == protocol.MethodCallTool {
			meta[protocol.MetaLogLevel] = "info"
		}
	}
	if len(meta) > 0 {
		params["_meta"] = meta
	}
	return dragoman.NewRequest(dragoman.IntID(1), method, params)
}

// once sends a request and returns the answer to it, which may ask for input.
func (g *guest) once(ctx context.Context, method string, params object) (*dragoman.Message, error) {
	req, err := g.message(method, params)
	if err != nil {
		return nil, err
	}
	resp, err := g.conn.Call(ctx, req, g)
	switch {
	case err != nil:
		return nil, fmt.Errorf("no answer to %s: %w", method, err)
	case resp.ID() != req.ID():
		return nil, fmt.Errorf("the answer has id %s, not %s", resp.ID(), req.ID())
	case resp.IsError():
		return nil, resp.RPCError()
	}
	return resp, nil
}

// request sends a request as often as the server wants it, and returns its
// result.
func (g *guest) request(ctx context.Context, method string, params object) (*dragoman.Message, error) {
	for range 10 {
		resp, err := g.once(ctx, method, params)
		if err != nil || !needsInput(resp) {
			return resp, err
		}
		if params, err = g.nextRound(ctx, params, resp); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("the server asks for ever")
}

func needsInput(resp *dragoman.Message) bool {
	return text(resp.Get("resultType")) == protocol.ResultInputRequired
}

// nextRound answers the questions of a result.
func (g *guest) nextRound(ctx context.Context, params object, resp *dragoman.Message) (object, error) {
	var questions map[string]struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(resp.Get("inputRequests"), &questions); err != nil {
		return nil, fmt.Errorf("a round without questions: %w", err)
	}
	answers := object{}
	for key, q := range questions {
		answer, err := g.answer(ctx, q.Method, q.Params)
		if err != nil {
			return nil, err
		}
		answers[key] = answer
	}
	next := maps.Clone(params)
	next["inputResponses"] = answers
	delete(next, "requestState")
	if state := resp.Get("requestState"); state != nil {
		next["requestState"] = state
	}
	return next, nil
}

// answer is what this guest says to a question: its name, whatever the question
// is. What the question says must be its own.
func (g *guest) answer(ctx context.Context, method string, params json.RawMessage) (object, error) {
	select {
	case g.asked <- method:
	default:
	}
	if g.hold != nil {
		select {
		case <-g.hold:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.word != "" && method != protocol.MethodListRoots && !strings.Contains(string(params), g.word) {
		g.foreign = append(g.foreign, fmt.Sprintf("%s %s while %q was expected", method, params, g.word))
	}
	switch method {
	case protocol.MethodListRoots:
		return object{"roots": []object{{"uri": "file:///" + g.name}}}, nil
	case protocol.MethodCreateMessage:
		return object{"role": "assistant", "model": "m", "content": object{"type": "text", "text": g.name}}, nil
	case protocol.MethodElicit:
		return object{"action": "accept", "content": g.form(params)}, nil
	}
	return nil, fmt.Errorf("%s was asked for %s", g.name, method)
}

// form fills in a form.
func (g *guest) form(params json.RawMessage) object {
	var p struct {
		Requested struct {
			Properties map[string]struct{ Type string } `json:"properties"`
		} `json:"requestedSchema"`
	}
	_ = json.Unmarshal(params, &p) // a form that cannot be read stays empty, and the server complains
	content := object{}
	for name, field := range p.Requested.Properties {
		if content[name] = g.name; field.Type == "boolean" {
			content[name] = true
		}
	}
	return content
}

// Call implements dragoman.Peer: a legacy client is asked.
func (g *guest) Call(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	if req.Method() == protocol.MethodPing {
		return req.Reply(nil)
	}
	if g.modern() {
		return nil, fmt.Errorf("a modern client was asked for %s", req.Method())
	}
	answer, err := g.answer(ctx, req.Method(), req.Params())
	if err != nil {
		return nil, err
	}
	return req.Reply(answer)
}

// Notify implements dragoman.Peer.
func (g *guest) Notify(_ context.Context, note *dragoman.Message) error {
	g.mu.Lock()
	g.heard = append(g.heard, note)
	g.mu.Unlock()
	select {
	case g.news <- struct{}{}:
	default:
	}
	return nil
}

// begin begins a new chapter: word is what questions must have in them from now
// on, and what was heard before does not count.
func (g *guest) begin(word string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.word, g.heard = word, nil
}

// notes returns what was heard of a method.
func (g *guest) notes(method string) (found []*dragoman.Message) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, n := range g.heard {
		if n.Method() == method {
			found = append(found, n)
		}
	}
	return found
}

// hears waits until a notification of a method has come.
func (g *guest) hears(ctx context.Context, method string) error {
	for len(g.notes(method)) == 0 {
		select {
		case <-g.news:
		case <-ctx.Done():
			return fmt.Errorf("%s never heard %s", g.name, method)
		}
	}
	return nil
}

// says calls a tool and returns its text.
func (g *guest) says(ctx context.Context, tool string, arguments object) (string, error) {
	resp, err := g.request(ctx, protocol.MethodCallTool, object{"name": tool, "arguments": arguments})
	if err != nil {
		return "", fmt.Errorf("%s: %w", tool, err)
	}
	var blocks []struct{ Text string }
	if err := json.Unmarshal(resp.Get("content"), &blocks); err != nil || len(blocks) != 1 {
		return "", fmt.Errorf("%s: a result of another kind: %.200s", tool, resp.Bytes())
	}
	return blocks[0].Text, nil
}

// text returns the string that JSON text is, or "".
func text(value json.RawMessage) (s string) {
	_ = json.Unmarshal(value, &s) // what is no string has no text
	return s
}
