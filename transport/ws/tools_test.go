package ws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// toolEcho answers with the tool's name and arguments.
var toolEcho = dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	said, err := json.Marshal(req.Name() + " " + string(req.Get("arguments")))
	if err != nil {
		return nil, err
	}
	return req.Reply([]byte(`{"content":[{"type":"text","text":` + string(said) + `}]}`))
}}

func TestA04_A26_ToolFramesAreAnsweredUnderTheirID(t *testing.T) {
	r := rawDial(t, serve(t, &Server{Requests: toolEcho}))
	for _, id := range []string{`1`, `"1"`, `0`, `-5`, `12345678901234567890123`, `""`, `"a\u0062\"é"`, `"\ud83d\ude00"`} {
		r.sendText(`{"id":` + id + `,"name":"n","arguments":{}}`)
		r.want(`{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":"n {}"}]}}`)
	}
}

func TestA01_A26_ToolFrameIsARequestOfTheNewestRevision(t *testing.T) {
	got := make(chan *dragoman.Message, 1)
	r := rawDial(t, serve(t, &Server{Requests: dragoman.Funcs{
		OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			if from != nil {
				t.Error("the callee is given a caller that cannot be asked")
			}
			got <- req
			return toolEcho.OnCall(ctx, req, nil)
		},
	}}))
	r.sendText(`{"type":"call","id":"x","name":"n","arguments":{"a":[1.0,2e3]},"timeout":5}`)
	req := peertest.Receive(t, got, "the request")
	if err := protocol.CheckToolRequest(req); err != nil {
		t.Error(err)
	}
	e, err := protocol.ReadEnvelope(req)
	if err != nil || e.Version != protocol.Latest.String() || string(e.Client) != `{"name":"dragoman-ws","version":"`+dragoman.Version+`"}` {
		t.Errorf("envelope %+v, error %v", e, err)
	}
	if args := string(req.Get("arguments")); args != `{"a":[1.0,2e3]}` {
		t.Errorf("arguments %s", args)
	}
	if req.Get("timeout") != nil || req.Get("id") != nil {
		t.Errorf("params have members of the frame: %s", req.Params())
	}
}

func TestA03_A30_BadToolFramesGetErrorsAndTheSocketContinues(t *testing.T) {
	r := rawDial(t, serve(t, &Server{Requests: toolEcho}))
	r.sendText(`{"id":0,"name":"first"}`)
	_ = r.message()
	for _, c := range []struct{ name, frame, id, says string }{
		{"no id", `{"name":"n"}`, `null`, "needs an id"},
		{"id null", `{"id":null,"name":"n"}`, `null`, "string or an integer"},
		{"id a fraction", `{"id":1.5,"name":"n"}`, `null`, "string or an integer"},
		{"id an object", `{"id":{},"name":"n"}`, `null`, "string or an integer"},
		{"no name", `{"id":1}`, `1`, "name is missing"},
		{"name a number", `{"id":1,"name":2}`, `1`, "name is a number"},
		{"name empty", `{"id":1,"name":""}`, `1`, "name is empty"},
		{"arguments an array", `{"id":1,"name":"n","arguments":[]}`, `1`, "arguments is an array"},
		{"arguments text", `{"id":"1","name":"n","arguments":"{}"}`, `"1"`, "arguments is a string"},
		{"JSON-RPC", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `1`, "tool frame is"},
		{"name twice", `{"id":1,"name":"n","name":"m"}`, `1`, "duplicate"},
		{"empty object", `{}`, `null`, "needs an id"},
		{"array", `[{"id":1,"name":"n"}]`, `null`, "tool frame is"},
		{"text", `"n"`, `null`, "tool frame is"},
		{"no JSON", `{"id":1,"name":`, `null`, "Parse error"},
		{"nothing", ``, `null`, "Parse error"},
		{"space", `  `, `null`, "Parse error"},
		{"more behind it", `{"id":1,"name":"n"}{}`, `null`, "Parse error"},
		{"members behind it", `{"id":1,"name":"n"},"x":{}`, `null`, "behind the frame"},
		{"too deep", `{"id":1,"name":"n","arguments":{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}}`, `1`, "deep"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.TB = t
			r.sendText(c.frame)
			got := peertest.Parse(t, r.message())
			if err := protocol.CheckToolError(got); err != nil || got.ID().String() != c.id || !strings.Contains(got.RPCError().Message, c.says) {
				t.Errorf("got %s (%v)\nwant an error with id %s that says %q", got, err, c.id, c.says)
			}
			r.sendText(`{"id":9,"name":"n","arguments":null}`)
			r.want(`{"jsonrpc":"2.0","id":9,"result":{"content":[{"type":"text","text":"n "}]}}`)
		})
	}
}

func TestA28_FramesThatAskForNothingAreIgnored(t *testing.T) {
	r := rawDial(t, serve(t, &Server{Requests: toolEcho}))
	r.sendText(`{"id":0,"name":"first"}`)
	_ = r.message()
	for _, frame := range []string{
		`{"type":"ping"}`, `{"type":"ping","id":3}`, `{"type":"notification","method":"x","params":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
	} {
		r.sendText(frame)
	}
	r.sendText(`{"id":1,"name":"n"}`)
	r.want(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"n "}]}}`)
}

func TestA02_AnswersToToolFramesAreToolResponses(t *testing.T) {
	r := rawDial(t, serve(t, &Server{Requests: dragoman.Funcs{
		OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			var args struct {
				Result json.RawMessage
				Panic  bool
				Fault  bool
			}
			if err := json.Unmarshal(req.Get("arguments"), &args); err != nil {
				return nil, err
			}
			switch {
			case args.Panic:
				panic("ws: this panic is part of the test")
			case args.Fault:
				return nil, errors.New("out of paper")
			}
			return req.Reply(args.Result)
		},
	}}))
	const filled = `"content":[{"type":"text","text":""}]`
	for _, c := range []struct{ name, args, want string }{
		{"whole", `{"result":{"content":[{"type":"text","text":"x"}],"isError":true,"structuredContent":{"a":1.0},"_meta":{"m":1}}}`,
			`"result":{"content":[{"type":"text","text":"x"}],"isError":true,"structuredContent":{"a":1.0},"_meta":{"m":1}}}`},
		{"no content", `{"result":{"structuredContent":1}}`, `"result":{` + filled + `,"structuredContent":1}}`},
		{"empty content", `{"result":{"content":[ ],"x":1}}`, `"result":{` + filled + `,"x":1}}`},
		{"content null", `{"result":{"content":null}}`, `"result":{` + filled + `}}`},
		{"empty result", `{"result":{}}`, `"result":{` + filled + `}}`},
		{"asks for input", `{"result":{"resultType":"input_required","inputRequests":{}}}`, `cannot be asked`},
		{"no object", `{"result":[]}`, `"message":"the tool's answer is no tool response: result is an array, not an object"`},
		{"content no array", `{"result":{"content":{}}}`, `no tool response: result.content is an object`},
		{"item without type", `{"result":{"content":[{}]}}`, `no tool response: result.content[0].type is missing`},
		{"fault", `{"fault":true}`, `"code":-32603,"message":"Internal error: out of paper"`},
		{"panic", `{"panic":true}`, `"code":-32603`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.TB = t
			r.sendText(`{"id":"i","name":"n","arguments":` + c.args + `}`)
			got := r.message()
			if !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":"i",`) || !strings.Contains(got, c.want) {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
			m := peertest.Parse(t, got)
			if protocol.CheckToolResponse(m) != nil && protocol.CheckToolError(m) != nil {
				t.Errorf("neither a tool response nor a tool error: %s", got)
			}
		})
	}
}

// blockingPeer is a peer whose calls wait to be let go, or for their contexts.
type blockingPeer struct {
	began chan string // ids
	let   chan struct{}
	ended chan error
}

func newBlockingPeer() *blockingPeer {
	return &blockingPeer{make(chan string, 2048), make(chan struct{}), make(chan error, 2048)}
}

func (h *blockingPeer) Call(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	if req.Name() == "quick" || req.Method() == "ping" {
		return req.Reply([]byte(`{"content":[{"type":"text","text":"quick"}]}`))
	}
	h.began <- req.ID().String()
	select {
	case <-h.let:
		return req.Reply([]byte(`{"content":[{"type":"text","text":"let"}]}`))
	case <-ctx.Done():
		h.ended <- context.Cause(ctx)
		return nil, context.Cause(ctx)
	}
}

func (h *blockingPeer) Notify(context.Context, *dragoman.Message) error { return nil }

func TestS20_ToolFramesRunSideBySideAndAnIDInUseIsRefused(t *testing.T) {
	h := newBlockingPeer()
	r := rawDial(t, serve(t, &Server{Requests: h}))
	r.sendText(`{"id":1,"name":"slow"}`)
	r.sendText(`{"id":"1","name":"slow"}`) // another id
	peertest.Receive(t, h.began, "the first call")
	peertest.Receive(t, h.began, "the second call")
	r.sendText(`{"id":1,"name":"slow"}`)
	if got := peertest.Parse(t, r.message()); got.ID().String() != "1" || !got.IsError() || !strings.Contains(got.RPCError().Message, "in use") {
		t.Errorf("the second call with id 1 got %s", got)
	}
	r.sendText(`{"id":2,"name":"quick"}`)
	r.want(`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"quick"}]}}`)
	close(h.let)
	for range 2 {
		if got := peertest.Parse(t, r.message()); got.IsError() {
			t.Errorf("got %s", got)
		}
	}
}

func TestToolFramesOverTheLimitAreRefused(t *testing.T) {
	h := newBlockingPeer()
	r := rawDial(t, serve(t, &Server{Requests: h}))
	for i := range 1025 {
		r.sendText(fmt.Sprintf(`{"id":%d,"name":"slow"}`, i))
	}
	if got := peertest.Parse(t, r.message()); !got.IsError() || got.RPCError().Code != protocol.CodeOverloaded || got.ID().String() != "1024" {
		t.Errorf("call 1,025 got %s", got)
	}
	close(h.let)
	for range 1024 {
		if got := peertest.Parse(t, r.message()); got.IsError() {
			t.Fatalf("got %s", got)
		}
	}
}

func TestS20_TheEndOfTheSocketCancelsCalls(t *testing.T) {
	for name, end := range map[string]func(r *raw){
		"close": func(r *raw) { r.send(bye, closing(1000, "")) },
		"drop":  func(r *raw) { _ = r.Close() },
	} {
		for dialect, message := range map[string]string{
			"tool frames": `{"id":1,"name":"slow"}`, "JSON-RPC": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}`,
		} {
			t.Run(name+" "+dialect, func(t *testing.T) {
				peertest.NoLeak(t)
				h := newBlockingPeer()
				r := rawDial(t, serve(t, &Server{Requests: h, Acceptor: peertest.Accept(h)}))
				r.sendText(message)
				peertest.Receive(t, h.began, "the call")
				end(r)
				if err := peertest.Receive(t, h.ended, "the end of the call's context"); !errors.Is(err, dragoman.ErrClosed) {
					t.Errorf("the context ended because of %v", err)
				}
			})
		}
	}
}
