package ws

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// frameShape is part of the error for a tool frame that is refused.
const frameShape = `a tool frame is {"id":1,"name":"tool","arguments":{}}`

// A toolSource is a socket whose other side sends tool frames: to the
// conversation they are requests. Answers are the same on both sides.
type toolSource struct{ *socket }

// Read implements mux.Stream.
func (s toolSource) Read() ([]byte, error) {
	for {
		frame, err := s.socket.Read()
		if err != nil {
			return nil, err
		}
		if req, err := toolRequest(frame); req != nil || err != nil {
			return req, err
		}
	}
}

// requestPrefix stands in front of a tool frame to have it read as params, by the same
// strict rules.
const requestPrefix = `{"jsonrpc":"2.0","id":0,"method":"tools/call","params":`

const space = " \t\r\n" // of JSON

// asParams reads a frame as the params of a request.
func asParams(frame []byte) (*dragoman.Message, error) {
	text := make([]byte, 0, len(requestPrefix)+len(frame)+1)
	text = append(text, requestPrefix...)
	text = append(text, frame...)
	m, err := dragoman.Limits{MaxMessage: -1}.Parse(append(text, '}'))
	var p *dragoman.ParseError
	if errors.As(err, &p) {
		p.Offset, p.Kind, p.ID = max(0, p.Offset-len(requestPrefix)), dragoman.Request, dragoman.ID{}
		return nil, p
	}
	if err == nil && len(m.Params()) != len(bytes.Trim(frame, space)) {
		return nil, &dragoman.ParseError{Code: protocol.CodeParse, Offset: len(m.Params()), Reason: "more text behind the frame"}
	}
	return m, err
}

// toolRequest turns a tool frame into a request of the newest revision. Both
// results are nil if the frame is none and asks for nothing: clients may send
// pings and notifications of their own. What else is wrong with a frame whose
// id can be read is checked by toolPeer.
func toolRequest(frame []byte) ([]byte, error) {
	m, err := asParams(frame)
	var p *dragoman.ParseError
	if errors.As(err, &p) {
		if p.Code != protocol.CodeParse && !dragoman.IsObject(bytes.TrimLeft(frame, space)) {
			p.Reason, p.Offset = frameShape, 0
		} else if p.Code != protocol.CodeParse {
			p.ID = lenientID(frame)
		}
	}
	if err != nil {
		return nil, &jsonrpc.BadFrame{Err: err}
	}
	name, args, id := m.Get("name"), m.Get("arguments"), m.Get("id")
	if name == nil && (m.Get("type") != nil || id == nil && m.Get("method") != nil) {
		return nil, nil
	}
	if id == nil {
		return nil, badID("a tool frame needs an id to be answered under; " + frameShape)
	}
	if _, ok := dragoman.ParseID(id); !ok {
		return nil, badID("the id must be a string or an integer; " + frameShape)
	}
	req := make([]byte, 0, len(frame)+len(envelope())+96)
	req = append(req, `{"jsonrpc":"2.0","id":`...)
	req = append(req, id...)
	req = append(req, `,"method":"`+protocol.MethodCallTool+`","params":{`...)
	if name != nil {
		req = append(append(append(req, `"name":`...), name...), ',')
	}
	if args != nil && args[0] != 'n' { // null is absent
		req = append(append(append(req, `"arguments":`...), args...), ',')
	}
	req = append(append(req, `"_meta":`...), envelope()...)
	return append(req, "}}"...), nil
}

func badID(reason string) error {
	return &jsonrpc.BadFrame{Err: &dragoman.ParseError{Code: protocol.CodeInvalidRequest, Kind: dragoman.Request, Reason: reason}}
}

// lenientID reads the id of a frame that is JSON but refused, for the answer.
func lenientID(frame []byte) dragoman.ID {
	var f struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(frame, &f) != nil {
		return dragoman.ID{}
	}
	id, _ := dragoman.ParseID(f.ID)
	return id
}

// envelope is the _meta of requests that are made of tool frames.
var envelope = sync.OnceValue(func() json.RawMessage {
	req, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodCallTool, nil)
	if err == nil {
		e := protocol.Envelope{
			Version: protocol.Latest.String(),
			Client:  []byte(`{"name":"dragoman-ws","version":` + strconv.Quote(dragoman.Version) + `}`),
		}
		req, err = e.Put(req)
	}
	if err != nil {
		panic(err) // nothing that varies is in it
	}
	return req.Get("_meta")
})

// A toolSink is a socket whose other side takes tool frames: the requests of the
// conversation are turned into them. Nothing else can be said there.
type toolSink struct{ *socket }

// Write implements mux.Stream.
func (s toolSink) Write(frames []jsonrpc.Frame) error {
	calls := frames[:0:0]
	for _, f := range frames {
		if m := jsonrpc.MessageOf(f); m != nil && m.Kind() == dragoman.Request {
			calls = append(calls, toolFrame{m})
		}
	}
	return s.socket.Write(calls)
}

// A toolFrame is a tools/call request as a tool frame.
type toolFrame struct{ *dragoman.Message }

// AppendTo implements mux.Frame.
func (f toolFrame) AppendTo(dst []byte) []byte {
	dst = append(dst, `{"id":`...)
	dst = append(dst, f.ID().String()...)
	dst = append(dst, `,"name":`...)
	dst = append(dst, f.Get("name")...)
	if args := f.Get("arguments"); args != nil && args[0] != 'n' {
		dst = append(dst, `,"arguments":`...)
		dst = append(dst, args...)
	}
	return append(dst, '}')
}

// A toolPeer answers requests that were tool frames.
type toolPeer struct {
	peer   dragoman.Peer
	caller *dragoman.Caller
}

// Call implements dragoman.Peer.
func (d toolPeer) Call(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	if err := protocol.CheckToolRequest(req); err != nil {
		return req.Fail(&dragoman.Error{Code: protocol.CodeInvalidParams, Message: "Invalid params: " + frameReason(err) + "; " + frameShape}), nil
	}
	if d.peer == nil {
		return req.Fail(&dragoman.Error{
			Code:    protocol.CodeMethodNotFound,
			Message: `tool frames are not served here; speak JSON-RPC, with the subprotocol "` + subprotocol + `"`,
		}), nil
	}
	resp, err := d.peer.Call(dragoman.WithCaller(ctx, d.caller), req, nil)
	if err != nil || resp == nil || resp.IsError() {
		return resp, err
	}
	return toolResponse(req, resp), nil
}

// Notify implements dragoman.Peer. Tool frames have no notifications.
func (toolPeer) Notify(context.Context, *dragoman.Message) error { return nil }

// frameReason says what is wrong with a request in terms of the frame it came as.
func frameReason(err error) string {
	var c *protocol.CheckError
	if errors.As(err, &c) {
		return strings.TrimPrefix(c.Path, "params.") + " " + c.Reason
	}
	return err.Error()
}

// toolResponse makes an answer a tool response, or an error that says why it is
// none.
func toolResponse(req, resp *dragoman.Message) *dragoman.Message {
	var kind string
	if err := json.Unmarshal(resp.Get("resultType"), &kind); err == nil && kind == protocol.ResultInputRequired {
		return req.Fail(&dragoman.Error{
			Code:    protocol.CodeInternal,
			Message: "the tool asks for more input, and callers by tool frames cannot be asked; give all in the arguments, or speak JSON-RPC",
		})
	}
	fit, err := protocol.ToolResponse(resp)
	if err != nil {
		return req.Fail(&dragoman.Error{Code: protocol.CodeInternal, Message: "the tool's answer is no tool response: " + frameReason(err)})
	}
	return fit
}

// A toolConn is a conversation by tool frames, on the calling side. Notifications
// are taken and go nowhere, cancels too; nothing comes before an answer.
type toolConn struct{ *jsonrpc.Conn }

// Call implements dragoman.Peer.
func (c toolConn) Call(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	if err := c.Err(); err != nil {
		return nil, err
	}
	if req.Method() != protocol.MethodCallTool {
		return req.Fail(&dragoman.Error{
			Code:    protocol.CodeMethodNotFound,
			Message: "not sent: this connection speaks tool frames, which know " + protocol.MethodCallTool + " alone, not " + req.Method(),
		}), nil
	}
	if err := protocol.CheckToolRequest(req); err != nil {
		return req.Fail(&dragoman.Error{Code: protocol.CodeInvalidParams, Message: "not sent: " + strings.TrimPrefix(err.Error(), "protocol: ")}), nil
	}
	return c.Conn.Call(ctx, req, nil)
}

// Notify implements dragoman.Peer.
func (c toolConn) Notify(context.Context, *dragoman.Message) error { return c.Err() }
