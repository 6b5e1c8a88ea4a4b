package gatewaytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// An Object is a JSON object.
type Object = map[string]any

// A Client is a client of one revision. It numbers its requests from 1 on, as all
// others do, answers every question with its name, and remembers what it is told.
// The fields before Conn may be set before Open.
type Client struct {
	Name     string
	Revision protocol.Revision

	// Alike makes all requests of all such clients have the same id and the same
	// progress token.
	Alike bool

	// Asked, if not nil, is called before a question is answered. An error takes the
	// answer's place.
	Asked func(ctx context.Context, method string, params json.RawMessage) error

	// Answer, if not nil, answers questions in place of the name.
	Answer func(ctx context.Context, method string, params json.RawMessage) (Object, error)

	// Capabilities, if not nil, are declared in place of those for all questions.
	Capabilities Object

	Conn dragoman.Conn // set by Open
	Notifications
	next atomic.Int64
}

// Dial opens the conversation of a client that speaks the newest revision of an era.
func Dial(ctx context.Context, d dragoman.Dialer, name string, era protocol.Era) (*Client, error) {
	c := &Client{Name: name, Revision: protocol.Latest}
	if era == protocol.Legacy {
		c.Revision = protocol.LatestLegacy
	}
	if err := c.Open(ctx, d); err != nil {
		return nil, err
	}
	return c, nil
}

// Open opens the client's conversation.
func (c *Client) Open(ctx context.Context, d dragoman.Dialer) (err error) {
	if c.Conn, err = d.Dial(ctx, c); err != nil {
		return fmt.Errorf("%s cannot connect: %w", c.Name, err)
	}
	if c.Modern() {
		return nil
	}
	if err := c.greet(ctx); err != nil {
		_ = c.Conn.Close()
		return fmt.Errorf("%s, initialize: %w", c.Name, err)
	}
	return nil
}

// greet is the handshake of the legacy era.
func (c *Client) greet(ctx context.Context) error {
	resp, err := c.Request(ctx, protocol.MethodInitialize, Object{
		"protocolVersion": c.Revision.String(), "capabilities": c.capabilities(), "clientInfo": Object{"name": c.Name, "version": "1"},
	})
	if err != nil {
		return err
	}
	if got := Text(resp.Get("protocolVersion")); got != c.Revision.String() {
		return fmt.Errorf("asked for %s and got %q", c.Revision, got)
	}
	note, err := dragoman.NewNotification(protocol.NoteInitialized, nil)
	if err != nil {
		return err
	}
	return c.Conn.Notify(ctx, note)
}

// Modern reports whether the client is of the modern era.
func (c *Client) Modern() bool { return c.Revision.Era() == protocol.Modern }

func (c *Client) capabilities() Object {
	if c.Capabilities != nil {
		return c.Capabilities
	}
	return Object{"sampling": Object{}, "roots": Object{}, "elicitation": Object{}}
}

// Message makes a request of this client.
func (c *Client) Message(method string, params Object) (*dragoman.Message, error) {
	id := c.next.Add(1)
	if c.Alike {
		id = 1
	}
	params, meta := maps.Clone(params), Object{}
	if params == nil {
		params = Object{}
	}
	if method == protocol.MethodCallTool || c.Alike && method != protocol.MethodInitialize && method != protocol.MethodListen {
		meta[protocol.MetaProgressToken] = fmt.Sprintf("t%d", id)
	}
	if c.Modern() {
		meta[protocol.MetaProtocolVersion] = c.Revision.String()
		meta[protocol.MetaClientCapabilities] = c.capabilities()
		meta[protocol.MetaClientInfo] = Object{"name": c.Name, "version": "1"}
		if method == protocol.MethodCallTool {
			meta[protocol.MetaLogLevel] = "info"
		}
	}
	if len(meta) > 0 {
		params["_meta"] = meta
	}
	return dragoman.NewRequest(dragoman.IntID(id), method, params)
}

// Once sends a request and returns its result, which may ask for input. An error
// that the other side answers is a *dragoman.Error.
func (c *Client) Once(ctx context.Context, method string, params Object) (*dragoman.Message, error) {
	req, err := c.Message(method, params)
	if err != nil {
		return nil, err
	}
	resp, err := c.Conn.Call(ctx, req, c)
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

// Request is Once, as often as the server wants input.
func (c *Client) Request(ctx context.Context, method string, params Object) (*dragoman.Message, error) {
	for range 10 {
		resp, err := c.Once(ctx, method, params)
		if err != nil || !NeedsInput(resp) {
			return resp, err
		}
		if params, err = c.NextRound(ctx, params, resp); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("the server asks forever")
}

// NextRound returns the params of the next round of a request that got a result
// which asks for input.
func (c *Client) NextRound(ctx context.Context, params Object, resp *dragoman.Message) (Object, error) {
	return NextRound(params, resp, func(method string, params json.RawMessage) (Object, error) {
		return c.answer(ctx, method, params)
	})
}

// answer is what this client says to a question: its name.
func (c *Client) answer(ctx context.Context, method string, params json.RawMessage) (Object, error) {
	if c.Asked != nil {
		if err := c.Asked(ctx, method, params); err != nil {
			return nil, err
		}
	}
	if c.Answer != nil {
		return c.Answer(ctx, method, params)
	}
	switch method {
	case protocol.MethodListRoots:
		return Object{"roots": []Object{{"uri": "file:///" + c.Name}}}, nil
	case protocol.MethodCreateMessage:
		return Object{"role": "assistant", "model": "m", "content": Object{"type": "text", "text": c.Name}}, nil
	case protocol.MethodElicit:
		return Object{"action": "accept", "content": c.form(params)}, nil
	}
	return nil, fmt.Errorf("%s was asked for %s", c.Name, method)
}

// form fills in a form.
func (c *Client) form(params json.RawMessage) Object {
	var p struct {
		Requested struct {
			Properties map[string]struct{ Type string } `json:"properties"`
		} `json:"requestedSchema"`
	}
	_ = json.Unmarshal(params, &p) // a form that cannot be read stays empty, and the server complains
	content := Object{}
	for name, field := range p.Requested.Properties {
		if content[name] = c.Name; field.Type == "boolean" {
			content[name] = true
		}
	}
	return content
}

// Call implements dragoman.Peer: a legacy client is asked.
func (c *Client) Call(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	if req.Method() == protocol.MethodPing {
		return req.Reply(nil)
	}
	if c.Modern() {
		return nil, fmt.Errorf("a modern client was asked for %s", req.Method())
	}
	answer, err := c.answer(ctx, req.Method(), req.Params())
	if err != nil {
		return nil, err
	}
	return req.Reply(answer)
}

// Tool calls a tool and returns its text, which is all of its content. A result that says isError is an error.
func (c *Client) Tool(ctx context.Context, name string, arguments Object) (string, error) {
	resp, err := c.Request(ctx, protocol.MethodCallTool, Object{"name": name, "arguments": arguments})
	if err != nil {
		return "", err
	}
	var result struct {
		Content []struct{ Text string }
		IsError bool
	}
	if err := resp.Decode(&result); err != nil || len(result.Content) != 1 {
		return "", fmt.Errorf("%s: a result of another kind: %.200s", name, resp.Bytes())
	}
	if result.IsError {
		return "", &ToolError{name, result.Content[0].Text}
	}
	return result.Content[0].Text, nil
}

// A ToolError is a result that says isError.
type ToolError struct{ Tool, Text string }

// Error implements error.
func (e *ToolError) Error() string { return e.Tool + " fails: " + e.Text }

// Tools returns the names of the tools.
func (c *Client) Tools(ctx context.Context) (names []string, err error) {
	params := Object{}
	for range 100 {
		resp, err := c.Request(ctx, protocol.MethodListTools, params)
		if err != nil {
			return nil, err
		}
		var page struct {
			Tools      []struct{ Name string }
			NextCursor string
		}
		if err := resp.Decode(&page); err != nil {
			return nil, err
		}
		for _, t := range page.Tools {
			names = append(names, t.Name)
		}
		if page.NextCursor == "" {
			return names, nil
		}
		params["cursor"] = page.NextCursor
	}
	return nil, errors.New("the list of tools has no end")
}

// Outcome returns the code of an error that is an answer, and what became of the
// request if the error is Dragoman's own.
func Outcome(err error) (code int, outcome string) {
	rpc, ok := errors.AsType[*dragoman.Error](err)
	if !ok {
		return 0, ""
	}
	var data struct{ Source, Outcome string }
	_ = json.Unmarshal(rpc.Data, &data) // without data there is no outcome
	if data.Source != "gateway" {
		return rpc.Code, ""
	}
	return rpc.Code, data.Outcome
}

// Requests returns how many requests the client has made.
func (c *Client) Requests() int64 { return c.next.Load() }
