package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// patience is how long anything may take.
const patience = 20 * time.Second

// A testClient is the client of one cell. It hides which era it speaks: it lists,
// calls and listens, and answers what it is asked.
type testClient struct {
	t        *testing.T
	revision protocol.Revision
	conn     dragoman.Conn
	journal  string // of the server
	ctx      context.Context
	lastID   int64
	gatewaytest.Notifications

	mu     sync.Mutex
	action string   // what it does with a form or a page
	asked  []string // questions, by method
}

type object = gatewaytest.Object

func newGuest(t *testing.T, client, server side) *testClient {
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	t.Cleanup(cancel)
	g := &testClient{
		t: t, revision: client.revision, journal: filepath.Join(t.TempDir(), "journal"),
		ctx: ctx, action: "accept",
	}
	g.conn = client.through(t, server, g.journal, g)
	if g.modern() {
		return g
	}
	resp, err := g.request(protocol.MethodInitialize, object{
		"protocolVersion": g.revision.String(), "capabilities": g.capabilities(),
		"clientInfo": object{"name": "matrix", "version": "1"},
	})
	if err != nil {
		t.Fatalf("initialize: %v", err)
	}
	if got := gatewaytest.Text(resp.Get("protocolVersion")); got != g.revision.String() {
		t.Fatalf("initialize asked for %s and got %q", g.revision, got)
	}
	note, err := dragoman.NewNotification(protocol.NoteInitialized, nil)
	if err == nil {
		err = g.conn.Notify(ctx, note)
	}
	if err != nil {
		t.Fatalf("initialized: %v", err)
	}
	return g
}

func (g *testClient) modern() bool { return g.revision.Era() == protocol.Modern }

// capabilities are all that the revision has.
func (g *testClient) capabilities() object {
	caps := object{"sampling": object{}, "roots": object{}}
	switch {
	case g.revision.HasURLElicitation():
		caps["elicitation"] = object{"form": object{}, "url": object{}}
	case g.revision.HasElicitation():
		caps["elicitation"] = object{}
	}
	return caps
}

// request sends a request and returns the result, after as many rounds as the
// server wants.
func (g *testClient) request(method string, params object) (*dragoman.Message, error) {
	for range 10 {
		req, err := g.message(method, params)
		if err != nil {
			return nil, err
		}
		resp, err := g.conn.Call(g.ctx, req, g)
		switch {
		case err != nil:
			return nil, err
		case resp.IsError():
			return nil, resp.RPCError()
		case g.modern() && gatewaytest.Text(resp.Get("resultType")) == "":
			return nil, fmt.Errorf("a result without resultType: %.200s", resp.Bytes())
		case !g.modern() && (resp.Get("resultType") != nil || resp.Get("ttlMs") != nil):
			return nil, fmt.Errorf("a result with members of another era: %.200s", resp.Bytes())
		case !gatewaytest.NeedsInput(resp):
			return resp, nil
		}
		if params, err = gatewaytest.NextRound(params, resp, g.answer); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("the server asks for ever")
}

// message makes a request. Every one has a progress token, which no other client
// need know of.
func (g *testClient) message(method string, params object) (*dragoman.Message, error) {
	g.lastID++
	params, meta := maps.Clone(params), object{}
	if method != protocol.MethodInitialize && method != protocol.MethodListen {
		meta[protocol.MetaProgressToken] = g.lastID
	}
	if g.modern() {
		meta[protocol.MetaProtocolVersion] = g.revision.String()
		meta[protocol.MetaClientCapabilities] = g.capabilities()
		meta[protocol.MetaClientInfo] = object{"name": "matrix", "version": "1"}
		if method == protocol.MethodCallTool {
			meta[protocol.MetaLogLevel] = "info"
		}
	}
	if len(meta) > 0 {
		params["_meta"] = meta
	}
	return dragoman.NewRequest(dragoman.IntID(g.lastID), method, params)
}

// answer is what this client says to a question.
func (g *testClient) answer(method string, params json.RawMessage) (object, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, method)
	switch method {
	case protocol.MethodListRoots:
		return object{"roots": []object{{"uri": "file:///srv/a", "name": "a"}, {"uri": "file:///srv/b"}}}, nil
	case protocol.MethodCreateMessage:
		return object{"role": "assistant", "model": "m", "stopReason": "endTurn", "content": object{"type": "text", "text": "Paris"}}, nil
	case protocol.MethodElicit:
		return g.elicited(params)
	case protocol.MethodPing:
		return object{}, nil
	}
	return nil, fmt.Errorf("asked for %s", method)
}

// elicited fills in a form with whatever its schema allows.
func (g *testClient) elicited(params json.RawMessage) (object, error) {
	var p struct {
		Mode      string `json:"mode"`
		URL       string `json:"url"`
		ID        string `json:"elicitationId"`
		Requested struct {
			Properties map[string]struct {
				Type    string            `json:"type"`
				Enum    []string          `json:"enum"`
				OneOf   []json.RawMessage `json:"oneOf"`
				Default json.RawMessage   `json:"default"`
			} `json:"properties"`
		} `json:"requestedSchema"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
	if g.action != "accept" {
		return object{"action": g.action}, nil
	}
	if p.Mode == "url" {
		if p.URL == "" || !g.modern() && p.ID == "" {
			return nil, fmt.Errorf("a page to visit without its URL or id: %s", params)
		}
		return object{"action": "accept"}, nil
	}
	content := object{}
	for name, field := range p.Requested.Properties {
		switch {
		case field.OneOf != nil && !g.revision.HasRichForms():
			return nil, fmt.Errorf("a form that the revision does not have: %s", params)
		case field.Enum != nil:
			content[name] = field.Enum[0]
		case field.Type == "boolean":
			content[name] = true
		case field.Type == "integer", field.Type == "number":
			content[name] = 7
		case field.Type == "string":
			content[name] = "ann"
		}
	}
	return object{"action": "accept", "content": content}, nil
}

// Call implements dragoman.Peer: a server of the legacy era asks.
func (g *testClient) Call(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	if g.modern() {
		return nil, fmt.Errorf("a modern client was asked for %s", req.Method())
	}
	answer, err := g.answer(req.Method(), req.Params())
	if err != nil {
		return req.Fail(&dragoman.Error{Code: protocol.CodeInternal, Message: err.Error()}), nil //nolint:nilerr // that is the answer
	}
	return req.Reply(answer)
}

// forget begins a new chapter: what was heard and asked before does not count.
func (g *testClient) forget() {
	g.Forget()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = nil
}

// hears waits until enough notifications of a method have come, and returns
// them.
func (g *testClient) hears(method string, enough int) ([]*dragoman.Message, error) {
	ctx, cancel := context.WithTimeout(g.ctx, patience)
	defer cancel()
	return g.HearAll(ctx, method, enough)
}

// call calls a tool.
func (g *testClient) call(tool string, arguments any) (*dragoman.Message, error) {
	return g.request(protocol.MethodCallTool, object{"name": tool, "arguments": arguments})
}

// says calls a tool and returns its text.
func (g *testClient) says(tool string, arguments any) (string, error) {
	resp, err := g.call(tool, arguments)
	if err != nil {
		return "", fmt.Errorf("%s: %w", tool, err)
	}
	return textOf(resp), nil
}

// textOf puts the texts of a result together.
func textOf(resp *dragoman.Message) string {
	var texts []string
	for _, b := range blocksOf(resp) {
		if b.Type == "text" {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, "\n")
}

type block struct {
	Type, Text, Data, MimeType, URI string
	Resource                        struct{ URI, Blob, Text string }
}

func blocksOf(resp *dragoman.Message) (blocks []block) {
	_ = json.Unmarshal(resp.Get("content"), &blocks) // what cannot be read has no blocks
	return blocks
}
