package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// canAll is what a client with every capability declares.
var canAll = object{
	"sampling":    object{},
	"roots":       object{"listChanged": true},
	"elicitation": object{"form": object{}, "url": object{}},
}

// A dragomanClient is a client of this module, most often of a foreign server in a child process. As a Peer it
// takes the notifications and requests of the server, within calls and apart from them.
type dragomanClient struct {
	*session
	t     *testing.T
	conn  dragoman.Conn
	name  string // of the client
	caps  object
	level string // of log messages that requests of the modern era ask for
	ids   atomic.Int64

	// answer answers what the server asks, if not as everybody here does.
	answer func(ctx context.Context, method string, params object) (object, error)

	mu    sync.Mutex
	asked map[string]int // questions by method; guarded by mu
}

// dial reaches a server, or starts it, and says nothing.
func dial(t *testing.T, server dragoman.Dialer) *dragomanClient {
	t.Helper()
	c := &dragomanClient{session: &session{notes: newNotifications()}, t: t, name: "dragoman", caps: canAll, asked: make(map[string]int)}
	c.sdkClient = c
	conn, err := server.Dial(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	c.conn = conn
	t.Cleanup(func() {
		conn.Close()
		if child, ok := conn.(*stdio.Conn); ok && t.Failed() {
			t.Logf("the server wrote to stderr:\n%.4000s", child.Stderr())
		}
	})
	return c
}

// begin reaches a server, or starts it, and begins a conversation in a revision. It returns the
// result with which the server introduces itself.
func begin(t *testing.T, server dragoman.Dialer, rev protocol.Revision) (*dragomanClient, object) {
	t.Helper()
	c := dial(t, server)
	hello := c.begin(rev)
	return c, hello
}

// begin begins the conversation in a revision.
func (c *dragomanClient) begin(rev protocol.Revision) object {
	c.t.Helper()
	c.rev = rev
	if rev.HasSessions() {
		return c.initialize()
	}
	return c.want(protocol.MethodDiscover, object{})
}

// initialize makes the handshake of the legacy era.
func (c *dragomanClient) initialize() object {
	c.t.Helper()
	result := c.want(protocol.MethodInitialize, object{
		"protocolVersion": c.rev.String(), "capabilities": c.caps,
		"clientInfo": object{"name": c.name, "version": "1"},
	})
	if result["protocolVersion"] != c.rev.String() {
		c.t.Fatalf("asked for %s, the server speaks %v", c.rev, result["protocolVersion"])
	}
	c.tell(protocol.NoteInitialized, nil)
	return result
}

// Call answers a question of the server.
func (c *dragomanClient) Call(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	var params object
	if err := req.Decode(&params); err != nil {
		return nil, err
	}
	result, err := c.reply(ctx, req.Method(), params)
	if err != nil {
		return nil, &dragoman.Error{Code: protocol.CodeMethodNotFound, Message: err.Error()}
	}
	return req.Reply(result)
}

// reply answers a question in either era.
func (c *dragomanClient) reply(ctx context.Context, method string, params object) (object, error) {
	c.mu.Lock()
	c.asked[method]++
	c.mu.Unlock()
	if c.answer != nil {
		return c.answer(ctx, method, params)
	}
	return answer(method, params)
}

// Notify takes what the server tells.
func (c *dragomanClient) Notify(_ context.Context, note *dragoman.Message) error {
	c.notes.add(note.Method(), note.Params())
	return nil
}

// questions returns how often the server asked a method.
func (c *dragomanClient) questions(method string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked[method]
}

func (c *dragomanClient) tell(method string, params any) {
	c.t.Helper()
	note, err := dragoman.NewNotification(method, params)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.conn.Notify(c.t.Context(), note); err != nil {
		c.t.Fatal(err)
	}
}

// request makes a request of the conversation's era.
func (c *dragomanClient) request(method string, params object) *dragoman.Message {
	c.t.Helper()
	params = maps.Clone(params)
	if !c.rev.HasSessions() {
		meta := object{
			protocol.MetaProtocolVersion:    c.rev.String(),
			protocol.MetaClientCapabilities: c.caps,
			protocol.MetaClientInfo:         object{"name": c.name, "version": "1"},
		}
		if c.level != "" {
			meta[protocol.MetaLogLevel] = c.level
		}
		if given, ok := params["_meta"].(object); ok {
			maps.Copy(meta, given)
		}
		params["_meta"] = meta
	}
	// Ids of both kinds, so that the servers see both.
	n := c.ids.Add(1)
	id := dragoman.IntID(n)
	if n%2 == 0 {
		id = dragoman.StringID(fmt.Sprintf("request %d", n))
	}
	req, err := dragoman.NewRequest(id, method, params)
	if err != nil {
		c.t.Fatal(err)
	}
	return req
}

// send sends one request and returns its response.
func (c *dragomanClient) send(ctx context.Context, method string, params object) (*dragoman.Message, error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 3*patience)
	defer cancel()
	req := c.request(method, params)
	resp, err := c.conn.Call(ctx, req, c)
	if err == nil && resp.ID() != req.ID() {
		c.t.Errorf("%s: the response has id %s, want %s", method, resp.ID(), req.ID())
	}
	return resp, err
}

// exchange sends a request, and sends it again with answers as long as the
// server wants input.
func (c *dragomanClient) exchange(ctx context.Context, method string, params object) (*dragoman.Message, error) {
	c.t.Helper()
	for range 5 {
		resp, err := c.send(ctx, method, params)
		if err != nil || string(resp.Get("resultType")) != `"`+protocol.ResultInputRequired+`"` {
			return resp, err
		}
		params = c.nextRound(resp, params)
	}
	return nil, fmt.Errorf("%s asks again and again", method)
}

// nextRound returns params with the input that a response asks for.
func (c *dragomanClient) nextRound(resp *dragoman.Message, params object) object {
	c.t.Helper()
	asked := decode[struct {
		InputRequests map[string]struct {
			Method string `json:"method"`
			Params object `json:"params"`
		} `json:"inputRequests"`
		RequestState *string `json:"requestState"`
	}](c.t, resp.Result())
	answers := object{}
	for key, q := range asked.InputRequests {
		result, err := c.reply(c.t.Context(), q.Method, q.Params)
		if err != nil {
			c.t.Fatal(err)
		}
		answers[key] = result
	}
	next := maps.Clone(params)
	next["inputResponses"] = answers
	delete(next, "requestState")
	if asked.RequestState != nil {
		next["requestState"] = *asked.RequestState
	}
	return next
}

// want is exchange for requests that succeed. It returns the result.
func (c *dragomanClient) want(method string, params object) object {
	c.t.Helper()
	resp, err := c.exchange(c.t.Context(), method, params)
	if err == nil && resp.IsError() {
		err = resp.RPCError()
	}
	if err != nil {
		c.t.Fatalf("%s %v: %v", method, params, err)
	}
	return decode[object](c.t, resp.Result())
}

// wantError is exchange for requests that fail.
func (c *dragomanClient) wantError(code int, method string, params object) {
	c.t.Helper()
	resp, err := c.exchange(c.t.Context(), method, params)
	if err != nil {
		c.t.Fatalf("%s %v: %v", method, params, err)
	}
	if e := resp.RPCError(); e == nil || e.Code != code {
		c.t.Errorf("%s %v: got %s, want error %d", method, params, resp, code)
	}
}

// list returns the entries of all pages of a list.
func (c *dragomanClient) list(method, member string) []object {
	c.t.Helper()
	var all []object
	params := object{}
	for range 100 {
		result := c.want(method, params)
		all = append(all, decode[[]object](c.t, result[member])...)
		cursor, ok := result["nextCursor"]
		if !ok || cursor == "" {
			return all
		}
		params = object{"cursor": cursor}
	}
	c.t.Fatalf("%s has no end", method)
	return nil
}

func (c *dragomanClient) tools(context.Context) ([]string, error) {
	c.t.Helper()
	var names []string
	for _, tool := range c.list(protocol.MethodListTools, "tools") {
		names = append(names, tool["name"].(string))
	}
	return names, nil
}

func (c *dragomanClient) call(ctx context.Context, name string, args object, token string) (any, error) {
	c.t.Helper()
	params := object{"name": name}
	if args != nil {
		params["arguments"] = args
	}
	if token != "" {
		params["_meta"] = object{protocol.MetaProgressToken: token}
	}
	resp, err := c.exchange(ctx, protocol.MethodCallTool, params)
	switch {
	case err != nil:
		return nil, err
	case resp.IsError():
		return nil, resp.RPCError()
	}
	return resp.Result(), nil
}

// methods are the names in the specification of what clients are called with.
var methods = map[string]string{
	"ping": protocol.MethodPing, "setLoggingLevel": protocol.MethodSetLevel, "complete": protocol.MethodComplete,
	"listResources": protocol.MethodListResources, "listResourceTemplates": protocol.MethodListTemplates, "readResource": protocol.MethodReadResource,
	"listPrompts": protocol.MethodListPrompts, "getPrompt": protocol.MethodGetPrompt,
	"subscribeResource": protocol.MethodSubscribe, "unsubscribeResource": protocol.MethodUnsubscribe,
}

func (c *dragomanClient) do(ctx context.Context, method string, params object) (json.RawMessage, error) {
	if method == "listen" {
		c.t.Cleanup(c.listen(params))
		return json.RawMessage("{}"), nil
	}
	resp, err := c.exchange(ctx, methods[method], params)
	switch {
	case err != nil:
		return nil, err
	case resp.IsError():
		return nil, resp.RPCError()
	}
	return resp.Result(), nil
}

// logs asks for log messages of all levels.
func (c *dragomanClient) logs() {
	c.t.Helper()
	if c.rev.HasSessions() {
		c.want(protocol.MethodSetLevel, object{"level": "debug"})
	} else {
		c.level = "debug"
	}
}

// tool calls a tool that succeeds and has no arguments.
func (c *dragomanClient) tool(name string) {
	c.t.Helper()
	c.want(protocol.MethodCallTool, object{"name": name, "arguments": object{}})
}

// callAll calls every tool of a server, with the arguments of its row or such
// as its schema allows.
func (c *dragomanClient) callAll(rows map[string]expected) {
	c.t.Helper()
	tools := c.list(protocol.MethodListTools, "tools")
	for _, tool := range tools {
		name := tool["name"].(string)
		want, ok := rows[name]
		if !ok {
			c.t.Errorf("the tool %s is new: say what is expected of it", name)
			continue
		}
		if want.lost {
			c.callLost(name)
			continue
		}
		if want.args == nil {
			want.args = fill(tool["inputSchema"].(object), false).(object)
		}
		callTool(c.t, c.session, name, want)
	}
	if len(tools) != len(rows) {
		c.t.Errorf("%d tools are listed, want %d", len(tools), len(rows))
	}
}

// callLost calls a tool whose result is lost.
func (c *dragomanClient) callLost(name string) {
	c.t.Helper()
	req, err := dragoman.NewRequest(dragoman.IntID(c.ids.Add(1)), protocol.MethodCallTool, object{"name": name, "arguments": object{}})
	if err != nil {
		c.t.Fatal(err)
	}
	if resp, err := c.conn.Call(c.t.Context(), req, c); !errors.Is(err, streamable.ErrNoResponse) {
		c.t.Errorf("%s: got %v, %v", name, resp, err)
	}
}

// readAll reads all resources that are listed. It returns how many there are.
func (c *dragomanClient) readAll() int {
	c.t.Helper()
	list := c.list(protocol.MethodListResources, "resources")
	for _, r := range list {
		got := c.want(protocol.MethodReadResource, object{"uri": r["uri"]})
		if contents := decode[[]object](c.t, got["contents"]); len(contents) == 0 || contents[0]["uri"] != r["uri"] {
			c.t.Errorf("%s: %v", r["uri"], got)
		}
	}
	return len(list)
}

// promptAll gets all prompts that are listed; known has the arguments that may
// not be just anything. It returns how many there are.
func (c *dragomanClient) promptAll(known object) int {
	c.t.Helper()
	list := c.list(protocol.MethodListPrompts, "prompts")
	for _, p := range list {
		args := object{}
		for _, a := range decode[[]object](c.t, p["arguments"]) {
			name := a["name"].(string)
			args[name] = "some text"
			if v, ok := known[name]; ok {
				args[name] = v
			}
		}
		got := c.want(protocol.MethodGetPrompt, object{"name": p["name"], "arguments": args})
		if messages := decode[[]object](c.t, got["messages"]); len(messages) == 0 || messages[0]["content"] == nil {
			c.t.Errorf("%s: %v", p["name"], got)
		}
	}
	return len(list)
}

// listen opens a subscription of the modern era and waits until it is open. stop
// ends it.
func (c *dragomanClient) listen(filter object) (stop func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	ended := make(chan error, 1)
	req := c.request(protocol.MethodListen, object{"notifications": filter})
	go func() { // ends when ctx does
		_, err := c.conn.Call(ctx, req, c)
		ended <- err
	}()
	c.t.Cleanup(cancel)
	c.notes.wait(c.t, 1, protocol.NoteAcknowledged, strings.Trim(req.ID().String(), `"`))
	return func() {
		c.t.Helper()
		cancel()
		select {
		case <-ended:
		case <-time.After(patience):
			c.t.Fatal("the subscription does not end")
		}
	}
}
