package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// The server starts no goroutines, so none may be left.
func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	deadline := time.Now().Add(5 * time.Second)
	for code == 0 && runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			fmt.Fprintf(os.Stderr, "goroutines were left:\n%s\n", stacks[:runtime.Stack(stacks, true)])
			code = 1
		}
		time.Sleep(time.Millisecond)
	}
	os.Exit(code)
}

type object = map[string]any

// canAll is what a client with every capability declares.
var canAll = object{"sampling": object{}, "roots": object{}, "elicitation": object{"form": object{}, "url": object{}}}

// A testClient is a client in a conversation of one revision. Its methods hide the
// era: envelopes are added and input rounds are run.
type testClient struct {
	t    *testing.T
	rev  protocol.Revision
	caps object
	conn dragoman.Conn

	// answer answers questions, in either era. If nil, there are none.
	answer func(method string, params object) any

	// level is the log level that requests of the modern era ask for.
	level string

	mu     sync.Mutex
	notes  []*dragoman.Message // within calls
	apart  []*dragoman.Message // outside of calls
	rounds int                 // input rounds of the modern era
	ids    int64
}

// open begins a conversation. A legacy one is initialized.
func open(t *testing.T, s *builtin.Server, rev protocol.Revision, caps object) *testClient {
	t.Helper()
	d := dial(t, s, rev, caps)
	if rev.HasSessions() {
		d.want("initialize", object{
			"protocolVersion": rev.String(), "capabilities": caps, "clientInfo": object{"name": "test", "version": "1"},
		})
		d.notify(protocol.NoteInitialized)
	}
	return d
}

// dial begins a conversation and leaves it at that.
func dial(t *testing.T, s *builtin.Server, rev protocol.Revision, caps object) *testClient {
	t.Helper()
	d := &testClient{t: t, rev: rev, caps: caps}
	conn, err := dragoman.Local(s).Dial(t.Context(), dragoman.Funcs{
		OnNotify: func(_ context.Context, note *dragoman.Message) error {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.apart = append(d.apart, note)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	d.conn = conn
	return d
}

// in makes the endpoint report to a subtest.
func (d *testClient) in(t *testing.T) *testClient {
	d.t = t
	return d
}

// eachRevision runs a test in every revision, against a server of all.
func eachRevision(t *testing.T, f func(t *testing.T, rev protocol.Revision)) {
	for _, rev := range protocol.Revisions() {
		t.Run(rev.String(), func(t *testing.T) { f(t, rev) })
	}
}

// Call answers a question of the server.
func (d *testClient) Call(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	if d.answer == nil || d.rev.HasInputRounds() {
		d.t.Errorf("the server asked %s", req)
		return req.Fail(&dragoman.Error{Code: protocol.CodeMethodNotFound, Message: "not asked for"}), nil
	}
	var params object
	if err := req.Decode(&params); err != nil {
		return nil, err
	}
	got := d.answer(req.Method(), params)
	if e, ok := got.(*dragoman.Error); ok {
		return req.Fail(e), nil
	}
	return req.Reply(got)
}

// Notify takes what belongs to a call.
func (d *testClient) Notify(_ context.Context, note *dragoman.Message) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notes = append(d.notes, note)
	return nil
}

// received returns what belonged to calls, and forgets it.
func (d *testClient) received() []*dragoman.Message {
	d.mu.Lock()
	defer d.mu.Unlock()
	notes := d.notes
	d.notes = nil
	return notes
}

// receivedOutsideCalls returns what belonged to no call, and forgets it.
func (d *testClient) receivedOutsideCalls() []*dragoman.Message {
	d.mu.Lock()
	defer d.mu.Unlock()
	notes := d.apart
	d.apart = nil
	return notes
}

func (d *testClient) notify(method string) {
	d.t.Helper()
	note, err := dragoman.NewNotification(method, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	if err := d.conn.Notify(d.t.Context(), note); err != nil {
		d.t.Fatal(err)
	}
}

// request makes a request of the endpoint's era.
func (d *testClient) request(method string, params object) *dragoman.Message {
	d.t.Helper()
	d.mu.Lock()
	d.ids++
	id := dragoman.IntID(d.ids)
	d.mu.Unlock()
	if d.rev.Era() == protocol.Modern {
		params = withEnvelope(d.rev, d.caps, params)
		if d.level != "" {
			params["_meta"].(object)[protocol.MetaLogLevel] = d.level
		}
	}
	var body any // stays nil for params that are left out
	if params != nil {
		body = params
	}
	req, err := dragoman.NewRequest(id, method, body)
	if err != nil {
		d.t.Fatal(err)
	}
	return req
}

// withEnvelope returns params with the _meta of the modern era.
func withEnvelope(rev protocol.Revision, caps, params object) object {
	if caps == nil {
		caps = object{}
	}
	meta := object{
		protocol.MetaProtocolVersion:    rev.String(),
		protocol.MetaClientCapabilities: caps,
		protocol.MetaClientInfo:         object{"name": "test", "version": "1"},
	}
	full := object{}
	for name, value := range params {
		full[name] = value
	}
	if old, ok := full["_meta"].(object); ok {
		for name, value := range old {
			meta[name] = value
		}
	}
	full["_meta"] = meta
	return full
}

// send sends one request and returns its response.
func (d *testClient) send(method string, params object) *dragoman.Message {
	d.t.Helper()
	req := d.request(method, params)
	resp, err := d.conn.Call(d.t.Context(), req, d)
	if err != nil {
		d.t.Fatalf("%s: %v", method, err)
	}
	if resp.ID() != req.ID() {
		d.t.Errorf("%s: the response has id %s, want %s", method, resp.ID(), req.ID())
	}
	return resp
}

// call sends a request and answers what the server asks by rounds.
func (d *testClient) call(method string, params object) *dragoman.Message {
	d.t.Helper()
	for range 5 {
		resp := d.send(method, params)
		if d.answer == nil || string(resp.Get("resultType")) != `"input_required"` {
			return resp
		}
		d.rounds++
		var asked struct {
			InputRequests map[string]struct {
				Method string `json:"method"`
				Params object `json:"params"`
			} `json:"inputRequests"`
			RequestState *string `json:"requestState"`
		}
		if err := resp.Decode(&asked); err != nil {
			d.t.Fatal(err)
		}
		next := object{"inputResponses": object{}}
		for name, value := range params {
			if name != "inputResponses" && name != "requestState" {
				next[name] = value
			}
		}
		for key, q := range asked.InputRequests {
			next["inputResponses"].(object)[key] = d.answer(q.Method, q.Params)
		}
		if asked.RequestState != nil {
			next["requestState"] = *asked.RequestState
		}
		params = next
	}
	d.t.Fatalf("%s does not end", method)
	return nil
}

// want is call for requests that succeed. It returns the result.
func (d *testClient) want(method string, params object) object {
	d.t.Helper()
	resp := d.call(method, params)
	if resp.IsError() {
		d.t.Fatalf("%s: %v", method, resp.RPCError())
	}
	var result object
	if err := resp.Decode(&result); err != nil {
		d.t.Fatal(err)
	}
	return result
}

// wantError is call for requests that fail.
func (d *testClient) wantError(code int, method string, params object) *dragoman.Error {
	d.t.Helper()
	resp := d.call(method, params)
	e := resp.RPCError()
	if e == nil {
		d.t.Fatalf("%s: got %s, want error %d", method, resp, code)
	}
	if e.Code != code {
		d.t.Fatalf("%s: got %v, want error %d", method, e, code)
	}
	if err := protocol.CheckToolError(resp); err != nil {
		d.t.Error(err)
	}
	return e
}

// tool calls a tool and returns its result.
func (d *testClient) tool(name string, args object) object {
	d.t.Helper()
	params := object{"name": name}
	if args != nil {
		params["arguments"] = args
	}
	return d.want(protocol.MethodCallTool, params)
}

// toolText calls a tool and returns the text of its result.
func (d *testClient) toolText(name string, args object) string {
	d.t.Helper()
	return textOf(d.t, d.tool(name, args))
}

// textOf returns the text of a tool result with one block of text.
func textOf(t *testing.T, result object) string {
	t.Helper()
	content, _ := result["content"].([]any)
	if len(content) != 1 {
		t.Fatalf("the result is %v, want one block", result)
	}
	s, ok := content[0].(object)["text"].(string)
	if !ok {
		t.Fatalf("the result is %v, want text", result)
	}
	return s
}

// methods returns the methods of notifications, in order.
func methods(notes []*dragoman.Message) string {
	var all []string
	for _, n := range notes {
		all = append(all, strings.TrimPrefix(n.Method(), "notifications/"))
	}
	return strings.Join(all, " ")
}

// wantJSON fails the test unless a value is encoded like the JSON text.
func wantJSON(t *testing.T, what string, got any, want string) {
	t.Helper()
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var g, w any
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(g, w) {
		t.Errorf("%s: got %s, want %s", what, text, want)
	}
}
