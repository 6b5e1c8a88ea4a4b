package aggregate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/internal/gateway/aggregate"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
)

type object = map[string]any

const patience = 20 * time.Second

// A server is a member.
type server struct {
	name   string
	peer   dragoman.Peer
	prefix *string

	mu       sync.Mutex
	onChange map[int]func(string)
	count    int
	calls    []*dragoman.Message
}

func (s *server) Name() string            { return s.name }
func (s *server) Requests() dragoman.Peer { return s }
func (s *server) Prefix() *string         { return s.prefix }

func (s *server) OnChange(f func(string)) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.onChange == nil {
		s.onChange = make(map[int]func(string))
	}
	s.count++
	n := s.count
	s.onChange[n] = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.onChange, n)
	}
}

func (s *server) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	s.mu.Lock()
	s.calls = append(s.calls, req)
	peer := s.peer
	s.mu.Unlock()
	return peer.Call(ctx, req, from)
}

// becomes has another peer answer from now on.
func (s *server) becomes(peer dragoman.Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peer = peer
}

func (s *server) Notify(context.Context, *dragoman.Message) error { return nil }

// registered returns how many want to be told of changes.
func (s *server) registered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.onChange)
}

// changed tells of a change.
func (s *server) changed(note string) {
	s.mu.Lock()
	onChange := slices.Collect(maps.Values(s.onChange))
	s.mu.Unlock()
	for _, f := range onChange {
		f(note)
	}
}

// saw returns how often it was asked for a method.
func (s *server) saw(method string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.calls {
		if m.Method() == method {
			n++
		}
	}
	return n
}

// real is a member that is the built-in server behind package era, in the newest
// revision of an era.
func real(t *testing.T, name string, e protocol.Era, opts builtin.Options) *server {
	t.Helper()
	opts.Revisions = []protocol.Revision{protocol.Latest}
	if e == protocol.Legacy {
		opts.Revisions[0] = protocol.LatestLegacy
	}
	bridge := &era.Server{Dialer: dragoman.Local(builtin.New(&opts)), Era: &e}
	s := &server{name: name, peer: bridge.Requests()}
	ctx, cancel := context.WithCancel(context.Background())
	req := request(t, protocol.MethodListen, nil, object{"notifications": object{
		"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
	}})
	acked := make(chan struct{})
	var over sync.WaitGroup
	// Ends with cancel.
	over.Go(func() {
		_, _ = s.peer.Call(dragoman.WithCaller(ctx, &dragoman.Caller{Principal: "manager"}), req, dragoman.Funcs{OnNotify: func(_ context.Context, note *dragoman.Message) error {
			if note.Method() == protocol.NoteAcknowledged {
				close(acked)
				return nil
			}
			s.changed(note.Method())
			return nil
		}})
	})
	t.Cleanup(func() {
		cancel()
		over.Wait()
		if err := bridge.Close(); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-acked:
	case <-time.After(patience):
		t.Fatal("no acknowledgement")
	}
	return s
}

// fake is a member with tools of these names, that answer by what they were asked.
func fake(name string, tools ...string) *server {
	var list []object
	for _, t := range tools {
		list = append(list, object{"name": t, "inputSchema": object{"type": "object"}})
	}
	return &server{name: name, peer: answers(map[string]any{
		protocol.MethodListTools: object{"tools": list, "ttlMs": 1000, "cacheScope": "public"},
		protocol.MethodCallTool: func(req *dragoman.Message) any {
			return object{"content": []object{{"type": "text", "text": name + "/" + req.Name()}}}
		},
	})}
}

// answers is a peer that answers methods by results, errors, or functions of the
// request that return one.
func answers(by map[string]any) dragoman.Peer {
	return dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		v, ok := by[req.Method()]
		if f, is := v.(func(*dragoman.Message) any); is {
			v = f(req)
		}
		switch v := v.(type) {
		case *dragoman.Error:
			return req.Fail(v), nil
		case error:
			return nil, v
		case string:
			return req.Reply([]byte(v))
		}
		if !ok {
			return req.Fail(&dragoman.Error{Code: protocol.CodeMethodNotFound, Message: "no"}), nil
		}
		return req.Reply(v)
	}}
}

// of returns an Aggregate of members. Unless opts say otherwise it is patient with
// them, since the machine may be slow.
func of(t *testing.T, opts *aggregate.Options, members ...*server) *aggregate.Aggregate {
	t.Helper()
	var full aggregate.Options
	if opts != nil {
		full = *opts
	}
	if full.PerMember == 0 {
		full.PerMember = patience
	}
	a := aggregate.New(&full)
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	a.Set(list(members...))
	return a
}

func list(members ...*server) (all []aggregate.Member) {
	for _, m := range members {
		all = append(all, m)
	}
	return all
}

var ids struct {
	sync.Mutex
	last int64
}

// request makes a modern request.
func request(t *testing.T, method string, caps any, params object) *dragoman.Message {
	t.Helper()
	ids.Lock()
	ids.last++
	id := dragoman.IntID(ids.last)
	ids.Unlock()
	if params == nil {
		params = object{}
	}
	req, err := dragoman.NewRequest(id, method, params)
	if err != nil {
		t.Fatal(err)
	}
	env := protocol.Envelope{Version: protocol.Latest.String(), Client: json.RawMessage(`{"name":"c","version":"1"}`)}
	if caps != nil {
		if env.Capabilities, err = json.Marshal(caps); err != nil {
			t.Fatal(err)
		}
	}
	env.LogLevel = req.Meta(protocol.MetaLogLevel)
	if req, err = env.Put(req); err != nil {
		t.Fatal(err)
	}
	return req
}

// ask asks, and wants an answer.
func ask(t *testing.T, p dragoman.Peer, method string, params object) *dragoman.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req := request(t, method, nil, params)
	resp, err := p.Call(ctx, req, nil)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	if resp.ID() != req.ID() {
		t.Fatalf("%s: id %s, want %s", method, resp.ID(), req.ID())
	}
	return resp
}

// must asks, and wants a result.
func must(t *testing.T, p dragoman.Peer, method string, params object) object {
	t.Helper()
	resp := ask(t, p, method, params)
	if resp.IsError() {
		t.Fatalf("%s %v: %v", method, params, resp.RPCError())
	}
	return decoded(t, resp)
}

func decoded(t *testing.T, resp *dragoman.Message) (result object) {
	t.Helper()
	if err := resp.Decode(&result); err != nil {
		t.Fatal(err)
	}
	return result
}

// refusal asks, and wants an error.
func refusal(t *testing.T, p dragoman.Peer, method string, params object) *dragoman.Error {
	t.Helper()
	resp := ask(t, p, method, params)
	if !resp.IsError() {
		t.Fatalf("%s %v: got %s, want an error", method, params, resp.Bytes())
	}
	return resp.RPCError()
}

func call(name string, args object) object {
	return object{"name": name, "arguments": args}
}

// texts returns a member of each element of a list.
func texts(result object, array, key string) (all []string) {
	elements, _ := result[array].([]any)
	for _, e := range elements {
		s, _ := e.(object)[key].(string)
		all = append(all, s)
	}
	return all
}

// said returns the text of a result of a tool.
func said(result object) string {
	var all []string
	content, _ := result["content"].([]any)
	for _, c := range content {
		s, _ := c.(object)["text"].(string)
		all = append(all, s)
	}
	return strings.Join(all, " ")
}

func names(t *testing.T, p dragoman.Peer) []string {
	t.Helper()
	return texts(must(t, p, protocol.MethodListTools, nil), "tools", "name")
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for limit := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("timed out waiting for: %s", what)
		}
	}
}

// A client has all capabilities. It talks through the endpoints of a Front to an
// Aggregate, in the newest revision of its era.
type client struct {
	t     *testing.T
	era   protocol.Era
	front *era.Frontend
	peer  dragoman.Peer // that answers it

	mu    sync.Mutex
	heard []*dragoman.Message
}

var canAll = object{"sampling": object{}, "roots": object{}, "elicitation": object{"form": object{}, "url": object{}}}

// join connects a client of an era.
func join(t *testing.T, a *aggregate.Aggregate, e protocol.Era) *client {
	t.Helper()
	front := era.NewFrontend(a, nil)
	t.Cleanup(func() {
		if err := front.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &client{t: t, era: e, front: front, peer: front.Requests()}
	if e == protocol.Modern {
		return c
	}
	_, conn := dragoman.Pipe(c, nil)
	t.Cleanup(func() { _ = conn.Close() })
	var err error
	if c.peer, err = front.Accept(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	resp, err := c.call(t.Context(), protocol.MethodInitialize, object{
		"protocolVersion": protocol.LatestLegacy.String(), "capabilities": canAll, "clientInfo": object{"name": "c", "version": "1"},
	})
	if err != nil || resp.IsError() {
		t.Fatalf("initialize: %v %s", err, resp)
	}
	note, err := dragoman.NewNotification(protocol.NoteInitialized, nil)
	if err == nil {
		err = c.peer.Notify(t.Context(), note)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// call asks once.
func (c *client) call(ctx context.Context, method string, params object) (*dragoman.Message, error) {
	c.t.Helper()
	req := request(c.t, method, canAll, params)
	if c.era == protocol.Legacy {
		meta := object{}
		if token := params["_meta"]; token != nil {
			meta = token.(object)
		}
		own := maps.Clone(params)
		if own == nil {
			own = object{}
		}
		own["_meta"] = meta
		var err error
		if req, err = dragoman.NewRequest(req.ID(), method, own); err != nil {
			c.t.Fatal(err)
		}
	}
	return c.peer.Call(ctx, req, c)
}

// rounds asks until there is a result that is complete.
func (c *client) rounds(method string, params object) object {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	for range 10 {
		resp, err := c.call(ctx, method, params)
		if err == nil && resp.IsError() {
			err = resp.RPCError()
		}
		if err != nil {
			c.t.Fatalf("%s %v: %v", method, params, err)
		}
		result := decoded(c.t, resp)
		if result["resultType"] != protocol.ResultInputRequired {
			return result
		}
		params = maps.Clone(params)
		inputs := object{}
		for key, q := range result["inputRequests"].(object) {
			inputs[key] = oblige(q.(object)["method"].(string))
		}
		params["inputResponses"] = inputs
		delete(params, "requestState")
		if s, ok := result["requestState"]; ok {
			params["requestState"] = s
		}
	}
	c.t.Fatal("no end of rounds")
	return nil
}

// oblige answers a question.
func oblige(method string) object {
	switch method {
	case protocol.MethodCreateMessage:
		return object{"role": "assistant", "model": "m", "content": object{"type": "text", "text": "Hi!"}}
	case protocol.MethodListRoots:
		return object{"roots": []object{{"uri": "file:///a"}, {"uri": "file:///b"}}}
	}
	return object{"action": "accept", "content": object{"name": "Ada", "ok": true, "username": "Ada", "email": "Ada", "color": "Ada", "context": "Ada"}}
}

// Call takes a question of a legacy server.
func (c *client) Call(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	return req.Reply(oblige(req.Method()))
}

func (c *client) Notify(_ context.Context, note *dragoman.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = append(c.heard, note)
	return nil
}

// count returns how often it was told of something. uri is "" for any.
func (c *client) count(method, uri string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.heard {
		if m.Method() == method && (uri == "" || m.URI() == uri) {
			n++
		}
	}
	return n
}

// both runs a test with clients of either era and members of either era, called old
// and new.
func both(t *testing.T, opts builtin.Options, f func(t *testing.T, c *client, a *aggregate.Aggregate, member string)) {
	for _, e := range []protocol.Era{protocol.Legacy, protocol.Modern} {
		for _, m := range []string{"old", "new"} {
			t.Run(fmt.Sprintf("%s client, %s server", e, m), func(t *testing.T) {
				a := of(t, nil, real(t, "old", protocol.Legacy, opts), real(t, "new", protocol.Modern, opts))
				f(t, join(t, a, e), a, m)
			})
		}
	}
}
