package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	*gatewaytest.Client
	journal string // of the server
	ctx     context.Context

	mu     sync.Mutex
	action string   // what it does with a form or a page
	asked  []string // questions, by method
}

type object = gatewaytest.Object

func newGuest(t *testing.T, client, server side) *testClient {
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	t.Cleanup(cancel)
	g := &testClient{journal: filepath.Join(t.TempDir(), "journal"), ctx: ctx, action: "accept"}
	g.Client = &gatewaytest.Client{Name: "matrix", Revision: client.revision, Answer: g.answer, Capabilities: capabilities(client.revision)}
	if err := g.Open(ctx, client.through(t, server, g.journal)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Conn.Close() })
	return g
}

// capabilities are all that a revision has.
func capabilities(r protocol.Revision) object {
	caps := object{"sampling": object{}, "roots": object{}}
	switch {
	case r.HasURLElicitation():
		caps["elicitation"] = object{"form": object{}, "url": object{}}
	case r.HasElicitation():
		caps["elicitation"] = object{}
	}
	return caps
}

// request sends a request and returns the result, after as many rounds as the
// server wants.
func (g *testClient) request(method string, params object) (*dragoman.Message, error) {
	for range 10 {
		resp, err := g.Once(g.ctx, method, params)
		switch {
		case err != nil:
			return nil, err
		case g.Modern() && gatewaytest.Text(resp.Get("resultType")) == "":
			return nil, fmt.Errorf("a result without resultType: %.200s", resp.Bytes())
		case !g.Modern() && (resp.Get("resultType") != nil || resp.Get("ttlMs") != nil):
			return nil, fmt.Errorf("a result with members of another era: %.200s", resp.Bytes())
		case !gatewaytest.NeedsInput(resp):
			return resp, nil
		}
		if params, err = g.NextRound(g.ctx, params, resp); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("the server asks forever")
}

// answer is what this client says to a question.
func (g *testClient) answer(_ context.Context, method string, params json.RawMessage) (object, error) {
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
		if p.URL == "" || !g.Modern() && p.ID == "" {
			return nil, fmt.Errorf("a page to visit without its URL or id: %s", params)
		}
		return object{"action": "accept"}, nil
	}
	content := object{}
	for name, field := range p.Requested.Properties {
		switch {
		case field.OneOf != nil && !g.Revision.HasRichForms():
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
	return g.ReceiveAll(ctx, method, enough)
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
