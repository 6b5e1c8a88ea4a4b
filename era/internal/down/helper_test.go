package down_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/down"
	"github.com/dragoman-mcp/dragoman/era/internal/pool"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

type object = map[string]any

const patience = 10 * time.Second

var canAll = object{"sampling": object{}, "roots": object{}, "elicitation": object{"form": object{}, "url": object{}}}

type callerKey struct{}

// as returns a context of somebody's requests.
func as(ctx context.Context, who string) context.Context {
	return context.WithValue(ctx, callerKey{}, who)
}

func callerOf(ctx context.Context) string {
	who, _ := ctx.Value(callerKey{}).(string)
	return who
}

// A dialler counts the conversations that it opens and can end them.
type dialler struct {
	open dragoman.Dialer
	wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn

	mu    sync.Mutex
	conns []dragoman.Conn
	fails error
}

func (d *dialler) dial(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
	d.mu.Lock()
	fails := d.fails
	d.mu.Unlock()
	if fails != nil {
		return nil, fails
	}
	conn, err := d.open.Dial(ctx, local)
	if err != nil {
		return nil, err
	}
	if d.wrap != nil {
		conn = d.wrap(conn, local)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns = append(d.conns, conn)
	return conn, nil
}

func (d *dialler) opened() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.conns)
}

// living returns the conversations that are open.
func (d *dialler) living() (conns []dragoman.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns {
		if c.Err() == nil {
			conns = append(conns, c)
		}
	}
	return conns
}

// cut ends all conversations, as a server does that dies.
func (d *dialler) cut() {
	for _, c := range d.living() {
		_ = c.Close()
	}
}

func (d *dialler) failWith(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails = err
}

// confused is a conversation that does not say what questions and log messages
// belong to, as on a pipe.
type confused struct {
	dragoman.Conn
	local dragoman.Peer
	calls atomic.Int64 // in flight
}

func confuse(c dragoman.Conn, local dragoman.Peer) dragoman.Conn {
	return &confused{Conn: c, local: local}
}

func (c *confused) Correlates() bool { return false }

func (c *confused) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	// Like a pipe, it hands on answers to questions that come too late.
	asking, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	c.calls.Add(1)
	defer c.calls.Add(-1)
	return c.Conn.Call(ctx, req, dragoman.Funcs{
		OnCall: func(ctx context.Context, q *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			stop := context.AfterFunc(ctx, cancel)
			defer stop()
			return c.local.Call(asking, q, nil)
		},
		OnNotify: func(ctx context.Context, note *dragoman.Message) error {
			// Like a pipe, it knows whose a log message is while there is one call.
			known := note.Method() == protocol.NoteProgress || note.Method() == protocol.NoteMessage && c.calls.Load() == 1
			if known && from != nil {
				return from.Notify(ctx, note)
			}
			return c.local.Notify(ctx, note)
		},
	})
}

// A rig is a legacy server behind the modern endpoint.
type rig struct {
	t    *testing.T
	dial *dialler
	s    *down.Server
	ids  atomic.Int64
}

func newRig(t *testing.T, server dragoman.Dialer, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn, opts *down.Options) *rig {
	t.Helper()
	if opts == nil {
		opts = &down.Options{}
	}
	if opts.Owner == nil {
		opts.Owner = func(ctx context.Context) pool.Key { return pool.Key{Caller: callerOf(ctx)} }
	}
	d := &dialler{open: server, wrap: wrap}
	r := &rig{t: t, dial: d, s: down.New(d.dial, opts)}
	t.Cleanup(func() {
		if err := r.s.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// legacy returns the server of everything in one legacy revision.
func legacy(rev protocol.Revision, opts builtin.Options) dragoman.Dialer {
	opts.Revisions = []protocol.Revision{rev}
	return dragoman.Local(builtin.New(&opts))
}

// both runs a test with conversations that say what a question belongs to, and
// with those that do not.
func both(t *testing.T, f func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn)) {
	t.Run("correlated", func(t *testing.T) {
		peertest.NoLeak(t)
		f(t, nil)
	})
	t.Run("confused", func(t *testing.T) {
		peertest.NoLeak(t)
		f(t, confuse)
	})
}

func legacyRevisions() (revs []protocol.Revision) {
	for _, rev := range protocol.Revisions() {
		if rev.HasSessions() {
			revs = append(revs, rev)
		}
	}
	return revs
}

// request makes a modern request. params may have a _meta, which wins.
func request(t testing.TB, id any, method string, caps, params object) *dragoman.Message {
	t.Helper()
	if caps == nil {
		caps = object{}
	}
	meta := object{
		protocol.MetaProtocolVersion:    protocol.Latest.String(),
		protocol.MetaClientCapabilities: caps,
		protocol.MetaClientInfo:         object{"name": "test", "version": "1"},
	}
	full := object{"_meta": meta}
	for name, value := range params {
		if name == "_meta" {
			for name, value := range value.(object) {
				if meta[name] = value; value == nil {
					delete(meta, name)
				}
			}
			continue
		}
		full[name] = value
	}
	text, err := json.Marshal(object{"jsonrpc": "2.0", "id": id, "method": method, "params": full})
	if err != nil {
		t.Fatal(err)
	}
	msg, err := dragoman.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

func (r *rig) request(method string, caps, params object) *dragoman.Message {
	r.t.Helper()
	return request(r.t, r.ids.Add(1), method, caps, params)
}

// An outcome is what a call came to.
type outcome struct {
	req, resp *dragoman.Message
	err       error
}

// start calls on a goroutine of its own.
func (r *rig) start(ctx context.Context, req *dragoman.Message, from dragoman.Peer) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		resp, err := r.s.Call(ctx, req, from)
		done <- outcome{req, resp, err}
	}()
	return done
}

func receive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("timed out waiting: %s", what)
		panic("unreachable")
	}
}

// send calls and returns the response.
func (r *rig) send(ctx context.Context, req *dragoman.Message, from dragoman.Peer) *dragoman.Message {
	r.t.Helper()
	return r.finish(r.start(ctx, req, from))
}

func (r *rig) finish(done <-chan outcome) *dragoman.Message {
	r.t.Helper()
	o := receive(r.t, done, "a call returns")
	if o.err != nil {
		r.t.Fatalf("%s: the Go error %v", o.req, o.err)
	}
	if o.resp.ID() != o.req.ID() {
		r.t.Fatalf("%s: the answer has another id: %s", o.req, o.resp)
	}
	return o.resp
}

// want is send for requests that succeed.
func (r *rig) want(ctx context.Context, method string, caps, params object) object {
	r.t.Helper()
	return result(r.t, r.send(ctx, r.request(method, caps, params), nil))
}

// refused is send for requests that do not. why is in the message.
func (r *rig) refused(ctx context.Context, req *dragoman.Message, code int, why string) *dragoman.Error {
	r.t.Helper()
	return wantError(r.t, r.send(ctx, req, nil), code, why)
}

func wantError(t testing.TB, resp *dragoman.Message, code int, why string) *dragoman.Error {
	t.Helper()
	e := resp.RPCError()
	if e == nil || e.Code != code || !strings.Contains(e.Message, why) {
		t.Fatalf("got %s\nwant error %d with %q", resp, code, why)
	}
	return e
}

func result(t testing.TB, resp *dragoman.Message) object {
	t.Helper()
	var got object
	if resp.IsError() {
		t.Fatalf("got %s, want a result", resp)
	}
	if err := resp.Decode(&got); err != nil {
		t.Fatal(err)
	}
	return got
}

// complete is result for those that are complete, and have all tags.
func complete(t testing.TB, resp *dragoman.Message) object {
	t.Helper()
	got := result(t, resp)
	if got["resultType"] != "complete" {
		t.Fatalf("got %s, want a complete result", resp)
	}
	return got
}

// said returns the text of a tool's result.
func said(t testing.TB, got object) string {
	t.Helper()
	content, _ := got["content"].([]any)
	if len(content) != 1 {
		t.Fatalf("no text: %v", got)
	}
	text, _ := content[0].(object)["text"].(string)
	return text
}

func callParams(name string, args object) object {
	params := object{"name": name}
	if args != nil {
		params["arguments"] = args
	}
	return params
}

// asked returns the questions of an input_required result and its state.
func asked(t testing.TB, resp *dragoman.Message) (questions map[string]object, state string) {
	t.Helper()
	got := result(t, resp)
	state, _ = got["requestState"].(string)
	all, _ := got["inputRequests"].(object)
	if got["resultType"] != "input_required" || state == "" || len(all) == 0 {
		t.Fatalf("got %s, want questions", resp)
	}
	if strings.Trim(state, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		t.Errorf("the state is not base64url: %s", state)
	}
	questions = make(map[string]object)
	for key, q := range all {
		questions[key] = q.(object)
	}
	return questions, state
}

// with returns params of a retry.
func with(params object, state string, answers object) object {
	full := object{"requestState": state}
	for k, v := range params {
		full[k] = v
	}
	if answers != nil {
		full["inputResponses"] = answers
	}
	return full
}

// obliging answers every question the way a friendly user would.
func obliging(q object) object {
	params, _ := q["params"].(object)
	switch q["method"] {
	case protocol.MethodCreateMessage:
		return object{"role": "assistant", "content": object{"type": "text", "text": "Hi!"}, "model": "m"}
	case protocol.MethodListRoots:
		return object{"roots": []any{object{"uri": "file:///a"}, object{"uri": "file:///b"}}}
	}
	if params["mode"] == "url" {
		return object{"action": "accept"}
	}
	content := object{}
	for name, field := range params["requestedSchema"].(object)["properties"].(object) {
		switch f := field.(object); f["type"] {
		case "string":
			content[name] = "Ada"
		case "boolean":
			content[name] = true
		default:
			content[name] = 7
		}
	}
	return object{"action": "accept", "content": content}
}

// rounds calls, answers what is asked, and returns the complete result and how
// often it was asked.
func (r *rig) rounds(ctx context.Context, method string, caps, params object, answer func(object) object) (*dragoman.Message, int) {
	r.t.Helper()
	resp := r.send(ctx, r.request(method, caps, params), nil)
	for n := 0; ; n++ {
		if resp.IsError() || string(resp.Get("resultType")) != `"input_required"` {
			return resp, n
		}
		questions, state := asked(r.t, resp)
		answers := object{}
		for key, q := range questions {
			answers[key] = answer(q)
		}
		resp = r.send(ctx, r.request(method, caps, with(params, state, answers)), nil)
	}
}

// A hearer notes what it is told during one call.
type hearer struct {
	t     testing.TB
	notes chan *dragoman.Message
	over  atomic.Bool
}

func hear(t testing.TB) *hearer { return &hearer{t: t, notes: make(chan *dragoman.Message, 1000)} }

func (h *hearer) Call(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	h.t.Errorf("a modern client was asked %s", req)
	return nil, errors.New("not to be asked")
}

func (h *hearer) Notify(_ context.Context, note *dragoman.Message) error {
	if h.over.Load() {
		h.t.Errorf("told after the end of the call: %s", note)
	}
	h.notes <- note
	return nil
}

func (h *hearer) next() *dragoman.Message {
	h.t.Helper()
	return receive(h.t, h.notes, "a notification")
}

// all returns what it was told and forgets it.
func (h *hearer) all() (notes []*dragoman.Message) {
	for {
		select {
		case n := <-h.notes:
			notes = append(notes, n)
		default:
			return notes
		}
	}
}

// A journal counts how often tools were run.
type journal struct {
	mu   sync.Mutex
	runs map[string]int
}

func (j *journal) note(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.runs == nil {
		j.runs = make(map[string]int)
	}
	j.runs[what]++
}

func (j *journal) wantOnce(t testing.TB, what string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.runs[what] != 1 {
		t.Errorf("%q ran %d times, want once", what, j.runs[what])
	}
}

// A script is a legacy server made of functions by method.
type script struct {
	rev  protocol.Revision
	caps object
	on   map[string]func(ctx context.Context, c *scripted, req *dragoman.Message, from dragoman.Peer) (any, error)
	note func(c *scripted, note *dragoman.Message)

	inits atomic.Int64
	asks  atomic.Int64
}

// scripted is one conversation with a script.
type scripted struct {
	script *script
	client dragoman.Conn
	number int
	hello  *dragoman.Message
}

func (s *script) Accept(_ context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	return &scripted{script: s, client: client, number: int(s.inits.Add(1))}, nil
}

func (c *scripted) Notify(_ context.Context, note *dragoman.Message) error {
	if c.script.note != nil {
		c.script.note(c, note)
	}
	return nil
}

func (c *scripted) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	f := c.script.on[req.Method()]
	switch {
	case f != nil:
	case req.Method() == protocol.MethodInitialize:
		c.hello = req
		caps := c.script.caps
		if caps == nil {
			caps = object{}
		}
		return req.Reply(object{"protocolVersion": c.script.rev.String(), "capabilities": caps, "serverInfo": object{"name": "script", "version": "1"}})
	default:
		return dragoman.NoPeer.Call(ctx, req, from)
	}
	got, err := f(ctx, c, req, from)
	var rpc *dragoman.Error
	switch {
	case errors.As(err, &rpc):
		return req.Fail(rpc), nil
	case err != nil:
		return nil, err
	}
	return req.Reply(got)
}

// ask asks the client, and returns the answer's result as text or its error.
func (c *scripted) ask(ctx context.Context, from dragoman.Peer, method string, params any) (string, error) {
	req, err := dragoman.NewRequest(dragoman.IntID(c.script.asks.Add(1)), method, params)
	if err != nil {
		return "", err
	}
	resp, err := from.Call(ctx, req, nil)
	switch {
	case err != nil:
		return "", err
	case resp.ID() != req.ID():
		return "", fmt.Errorf("the answer has the id %v, want %v", resp.ID(), req.ID())
	case resp.IsError():
		return "", resp.RPCError()
	}
	return string(resp.Result()), nil
}

func text(s string) object { return object{"content": []any{object{"type": "text", "text": s}}} }

func confirmForm(message string) object {
	return object{"message": message, "requestedSchema": object{"type": "object", "properties": object{"ok": object{"type": "boolean"}}}}
}
