package ws

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/mux"
	"github.com/dragoman-mcp/dragoman/protocol"
)

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
type toolConn struct{ *mux.Conn }

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
