package toolhttp

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/wire/toollist"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A call is one tool call while it is served.
type call struct {
	server     *Server
	x          *httpserver.Exchange
	req        *dragoman.Message
	id         dragoman.ID // of errors that are no events
	resultOnly bool        // the answer is the result without the response around it
	stream     bool        // the answer is an event stream
}

// refuse is an error that comes before there is an answer.
func (c *call) refuse(status int, e *dragoman.Error) *httpserver.Refusal {
	return &httpserver.Refusal{Status: status, Code: e.Code, Message: e.Message, Data: e.Data, ID: c.id}
}

// serve makes the call and answers.
func (c *call) serve() error {
	s := c.server
	ctx, cancel := c.x.CallContext()
	defer cancel(nil)
	list := s.listWith(ctx, c.x.Caller, c.req.Name())
	var tool *toollist.Tool
	if list != nil {
		tool = list.Tool(c.req.Name())
	}
	if tool != nil {
		if err := c.check(tool); err != nil {
			return err
		}
	}
	if s.CallTimeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, s.CallTimeout)
		defer stop()
	}
	ask := func(from dragoman.Peer) *dragoman.Message { return s.ask(ctx, c.req, from) }
	if list != nil && tool == nil {
		// The server refuses it, and whoever watches what is asked for sees that.
		resp := ask(nil)
		if isUnknown(resp) {
			return c.unknown(ctx, list)
		}
		ask = func(dragoman.Peer) *dragoman.Message { return resp }
	}
	if c.stream {
		return c.serveStream(ask, cancel)
	}
	resp := ask(nil)
	if c.x.R.Context().Err() != nil {
		return nil // the caller is gone
	}
	c.write(toolAnswer(c.req, resp))
	return nil
}

// unknown refuses a tool that is not in the list.
func (c *call) unknown(ctx context.Context, list *toollist.List) error {
	if all, err := c.server.tools.Get(ctx, c.x.Caller, "", nil, c.server.list); err == nil {
		list = all
	}
	text := "unknown tool: " + redact.Clip(c.req.Name())
	if hint := humanize.SuggestHint(c.req.Name(), list.Names()); hint != "" {
		text += "; " + hint
	}
	return c.refuse(http.StatusNotFound, &dragoman.Error{Code: protocol.CodeInvalidParams, Message: text + "; the list of tools names those there are"})
}

// isUnknown reports whether an answer to a call of a tool that is in no list can be that
// there is none. A result is that of a tool, also if it says that it has failed: its text
// belongs to the caller.
func isUnknown(resp *dragoman.Message) bool {
	if !resp.IsError() {
		return false
	}
	switch resp.RPCError().Code {
	case protocol.CodeInvalidParams, protocol.CodeMethodNotFound:
		return true
	}
	return false
}

// check refuses arguments that do not fit a tool, as far as that is known.
func (c *call) check(tool *toollist.Tool) error {
	s := c.server
	if tool.Schema == nil || s.Check == nil {
		return nil
	}
	err := s.Check(tool.Schema, c.req.Get("arguments"))
	if err == nil {
		return nil
	}
	e := &dragoman.Error{Code: protocol.CodeInvalidParams, Message: "Invalid params: " + err.Error()}
	if at, ok := err.(interface { //nolint:errorlint // Check returns it as it is
		Path() string
		Reason() string
	}); ok {
		e.Data = errorData(at.Path(), at.Reason())
	}
	return c.refuse(http.StatusBadRequest, e)
}

// ask asks the peer behind the server. The answer is never nil.
func (s *Server) ask(ctx context.Context, req *dragoman.Message, from dragoman.Peer) *dragoman.Message {
	resp := jsonrpc.Serve(ctx, s.Requests, req, from, s.base.Log)
	if resp == nil {
		return protocol.Failure(req, dragoman.ErrCancelled) // the caller is gone
	}
	if resp.ID() != req.ID() {
		resp = resp.WithID(req.ID())
	}
	return resp
}

// write answers with JSON.
func (c *call) write(resp *dragoman.Message, status int) {
	var body []byte
	switch {
	case c.resultOnly && resp.IsError():
		body = resp.WithID(c.id).Bytes()
	case c.resultOnly:
		body = resp.Result()
	default:
		body = resp.Bytes()
	}
	if status == http.StatusForbidden {
		c.x.Challenge(resp.RPCError())
	}
	c.x.JSON(status, body)
}

// listFailed is how long a list of tools that could not be fetched is not fetched again.
// Calls go unchecked meanwhile: the server checks them too.
const listFailed = 5 * time.Second

// listWith returns the list that should have a tool, or nil if none is known.
func (s *Server) listWith(ctx context.Context, caller *dragoman.Caller, name string) *toollist.List {
	list, err := s.tools.Get(ctx, caller, name, nil, s.list)
	if err != nil {
		return nil
	}
	if list.Tool(name) == nil {
		list = s.tools.Newer(ctx, caller, name, list, nil, s.list)
	}
	return list
}

// list asks the server for its tools.
func (s *Server) list(ctx context.Context, req *dragoman.Message) (*dragoman.Message, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.base.Aborted(), cancel)()
	return s.ask(ctx, req, nil), nil
}

// getTools answers with all tools.
func (s *Server) getTools(x *httpserver.Exchange) error {
	r := x.R
	if len(r.Header["Accept"]) > 0 && !httpserver.Accepts(r, jsonType) {
		return httpserver.Refuse(http.StatusNotAcceptable, "Accept must admit %s", jsonType)
	}
	list, err := s.tools.Valid(x.R.Context(), x.Caller, nil, s.list)
	if err != nil {
		req, _ := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodListTools, nil) // nothing in it can fail
		e := toolError(protocol.Failure(req, err)).RPCError()
		return &httpserver.Refusal{Status: statusOf(e), Code: e.Code, Message: e.Message, Data: e.Data}
	}
	x.JSON(http.StatusOK, list.Body())
	return nil
}

// toolAnswer returns what a server's answer becomes: a tool response or a tool
// error, and the status that goes with it.
func toolAnswer(req, resp *dragoman.Message) (*dragoman.Message, int) {
	if resp.IsError() {
		resp = toolError(resp)
		return resp, statusOf(resp.RPCError())
	}
	if why := notFinal(resp); why != "" {
		return req.Fail(&dragoman.Error{Code: protocol.CodeMissingCapability, Message: why}), http.StatusUnprocessableEntity
	}
	fit, err := protocol.ToolResponse(resp)
	if err != nil {
		return req.Fail(&dragoman.Error{
			Code: protocol.CodeInternal, Message: "Internal error: the server's answer is no tool response: " + reasonText(err),
		}), http.StatusBadGateway
	}
	return fit, http.StatusOK
}

// statusOf is the HTTP status that goes with an error.
func statusOf(e *dragoman.Error) int {
	switch e.Code {
	case protocol.CodeParse, protocol.CodeInvalidRequest, protocol.CodeInvalidParams,
		protocol.CodeHeaderMismatch, protocol.CodeUnsupported:
		return http.StatusBadRequest
	case protocol.CodeMethodNotFound:
		return http.StatusNotFound
	case protocol.CodeMissingCapability:
		return http.StatusUnprocessableEntity
	case protocol.CodeUnavailable, protocol.CodeLost, protocol.CodeTooLarge:
		return http.StatusBadGateway
	case protocol.CodeOverloaded, protocol.CodeDraining:
		return cmp.Or(httpserver.RefusedStatus(e), http.StatusServiceUnavailable)
	case protocol.CodeTimeout:
		return http.StatusGatewayTimeout
	case protocol.CodeDenied:
		return http.StatusForbidden
	}
	return http.StatusInternalServerError
}

// notFinal says why a result is none that a plain caller can use, or "".
func notFinal(resp *dragoman.Message) string {
	switch string(resp.Get("resultType")) {
	case `"` + protocol.ResultInputRequired + `"`:
		return "the tool wants to ask its caller, which is not possible over plain HTTP; call it over MCP"
	case `"` + protocol.ResultTask + `"`:
		return "the tool answers later, as a task, which cannot be followed over plain HTTP; call it over MCP"
	}
	return ""
}

// toolError returns an error response as one that passes
// [protocol.CheckToolError].
func toolError(resp *dragoman.Message) *dragoman.Message {
	err := protocol.CheckToolError(resp)
	if err == nil {
		return resp
	}
	e := resp.RPCError()
	if e.Code == 0 {
		e.Code = protocol.CodeInternal
	}
	if strings.TrimSpace(e.Message) == "" {
		e.Message = "the server's error says nothing: " + reasonText(err)
	}
	return dragoman.NewFailure(resp.ID(), e)
}

// reasonText returns the text of a check's error without its package.
func reasonText(err error) string {
	var wrong *protocol.CheckError
	if errors.As(err, &wrong) {
		return wrong.Path + " " + wrong.Reason
	}
	return err.Error()
}
