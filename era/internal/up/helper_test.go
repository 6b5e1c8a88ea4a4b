package up_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/up"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// patience is how long a test waits for what must come.
const patience = 10 * time.Second

var legacy = []protocol.Revision{protocol.V20241105, protocol.V20250326, protocol.V20250618, protocol.V20251125}

// modern returns the built-in server, which knows nothing of the legacy era.
func modern(t *testing.T) *builtin.Server {
	t.Helper()
	s := builtin.New(&builtin.Options{Revisions: []protocol.Revision{protocol.V20260728}})
	t.Cleanup(func() { s.Close() })
	return s
}

// serve returns a Server for link that is closed with the test.
func serve(t *testing.T, link dragoman.Peer, opts *up.Options) *up.Server {
	t.Helper()
	s := up.New(link, opts)
	t.Cleanup(func() { s.Close() })
	return s
}

// A client is a legacy client.
type client struct {
	t     *testing.T
	conn  dragoman.Conn
	notes chan *dragoman.Message // told outside of any request

	mu      sync.Mutex
	answers map[string]string // results of questions by method; an error if "!"
	asked   []*dragoman.Message
	told    []*dragoman.Message // inside of requests
	ask     func(ctx context.Context, req *dragoman.Message) (*dragoman.Message, error)
}

// everyCapability is what a client can be that has all there is.
const everyCapability = `{"roots":{"listChanged":true},"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}},"tasks":{"list":{}},"experimental":{"x":1}}`

// dial connects a client without a handshake.
func dial(t *testing.T, s *up.Server) *client {
	t.Helper()
	c := &client{t: t, notes: make(chan *dragoman.Message, 4096), answers: map[string]string{
		protocol.MethodElicit:        `{"action":"accept","content":{"name":"Ada","ok":true,"color":"red","username":"u","email":"e@x"}}`,
		protocol.MethodCreateMessage: `{"role":"assistant","model":"m","content":{"type":"text","text":"Hi"}}`,
		protocol.MethodListRoots:     `{"roots":[{"uri":"file:///home"}]}`,
	}}
	conn, err := dragoman.Local(s).Dial(t.Context(), dragoman.Funcs{OnNotify: func(_ context.Context, note *dragoman.Message) error {
		c.notes <- note
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	c.conn = conn
	t.Cleanup(func() { conn.Close() })
	return c
}

// connect connects a client with its handshake.
func connect(t *testing.T, s *up.Server, rev protocol.Revision) *client {
	t.Helper()
	c := dial(t, s)
	c.must(fmt.Sprintf(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"old","version":"1.50"}}}`,
		rev, everyCapability))
	c.tell(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func parse(t *testing.T, text string) *dragoman.Message {
	t.Helper()
	m, err := dragoman.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}

// Call is the client as asked inside of a request.
func (c *client) Call(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	c.mu.Lock()
	c.asked = append(c.asked, req)
	answer, ask := c.answers[req.Method()], c.ask
	c.mu.Unlock()
	if ask != nil {
		return ask(ctx, req)
	}
	if answer == "!" {
		return req.Fail(&dragoman.Error{Code: -1, Message: "the user says no"}), nil
	}
	return req.Reply(json.RawMessage(answer))
}

// Notify is the client as told inside of a request.
func (c *client) Notify(_ context.Context, note *dragoman.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = append(c.told, note)
	return nil
}

// heard returns what the client was told inside of requests, and forgets it.
func (c *client) heard() []*dragoman.Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	told := c.told
	c.told = nil
	return told
}

func (c *client) questions() []*dragoman.Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// call sends a request and returns the response, whatever it is.
func (c *client) call(text string) *dragoman.Message {
	c.t.Helper()
	req := parse(c.t, text)
	resp, err := c.conn.Call(c.t.Context(), req, c)
	if err != nil {
		c.t.Fatalf("%s: %v", text, err)
	}
	if resp.ID() != req.ID() {
		c.t.Fatalf("%s: the answer has id %v: %s", text, resp.ID(), resp)
	}
	return resp
}

// must is call for a request that has a result.
func (c *client) must(text string) *dragoman.Message {
	c.t.Helper()
	resp := c.call(text)
	if resp.IsError() {
		c.t.Fatalf("%s: %s", text, resp)
	}
	for _, name := range []string{"resultType", "ttlMs", "cacheScope"} {
		if resp.Get(name) != nil {
			c.t.Errorf("%s: %s of the modern era is left: %.300s", text, name, resp)
		}
	}
	if resp.Meta(protocol.MetaServerInfo) != nil {
		c.t.Errorf("%s: serverInfo is left: %.300s", text, resp)
	}
	return resp
}

// fails is call for a request that has an error of that code.
func (c *client) fails(text string, code int) *dragoman.Error {
	c.t.Helper()
	resp := c.call(text)
	if e := resp.RPCError(); e != nil && e.Code == code {
		return e
	}
	c.t.Fatalf("%s: got %.300s, want error %d", text, resp, code)
	return nil
}

// tool calls a tool.
func (c *client) tool(name, arguments string) *dragoman.Message {
	c.t.Helper()
	return c.call(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"progressToken":"p"}}}`, name, arguments))
}

func (c *client) tell(text string) {
	c.t.Helper()
	if err := c.conn.Notify(c.t.Context(), parse(c.t, text)); err != nil {
		c.t.Fatal(err)
	}
}

// next waits for the next notification outside of requests.
func (c *client) next() *dragoman.Message {
	c.t.Helper()
	select {
	case note := <-c.notes:
		return note
	case <-time.After(patience):
		c.t.Fatal("no notification came")
		return nil
	}
}

// says returns the text of a tool's result.
func says(t *testing.T, resp *dragoman.Message) string {
	t.Helper()
	var result struct {
		Content []struct{ Type, Text string }
	}
	if err := resp.Decode(&result); err != nil || len(result.Content) == 0 {
		t.Fatalf("no content in %s", resp)
	}
	return result.Content[0].Text
}

// wants fails the test unless text contains part.
func wants(t *testing.T, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("got %.400s, want %q in it", text, part)
	}
}

// A script is a modern server that does as the test says. Methods without a
// handler get an empty result.
type script struct {
	mu       sync.Mutex
	caps     string // of discover
	rest     string // of discover's result
	handlers map[string]handler
	seen     []*dragoman.Message
}

type handler func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (string, error)

func scripted(handlers map[string]handler) *script {
	return &script{
		handlers: handlers,
		caps:     `{"tools":{},"logging":{},"resources":{"subscribe":true},"extensions":{"io.modelcontextprotocol/tasks":{}}}`,
		rest:     `"ttlMs":3600000,"cacheScope":"public"`,
	}
}

func (s *script) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	s.mu.Lock()
	s.seen = append(s.seen, req)
	h := s.handlers[req.Method()]
	discovered := `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":` + s.caps + `,` + s.rest + `}`
	s.mu.Unlock()
	text := `{"resultType":"complete"}`
	switch {
	case h != nil:
		var err error
		if text, err = h(ctx, req, from); err != nil {
			var rpc *dragoman.Error
			if errors.As(err, &rpc) {
				return req.Fail(rpc), nil
			}
			return nil, err
		}
	case req.Method() == protocol.MethodDiscover:
		text = discovered
	}
	return req.Reply(json.RawMessage(text))
}

func (s *script) Notify(context.Context, *dragoman.Message) error { return nil }

// requests returns the requests of a method that have come.
func (s *script) requests(method string) []*dragoman.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*dragoman.Message
	for _, req := range s.seen {
		if req.Method() == method {
			list = append(list, req)
		}
	}
	return list
}

// inTurn returns a handler that gives one answer after the other, and then the
// last one forever.
func inTurn(answers ...string) handler {
	var mu sync.Mutex
	return func(context.Context, *dragoman.Message, dragoman.Peer) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		answer := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		return answer, nil
	}
}
