package toolhttp

import (
	"context"
	"net/http"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/rpc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A call is one tool call while it is served.
type call struct {
	server     *Server
	x          *httpx.Exchange
	req        *dragoman.Message
	id         dragoman.ID // of errors that are no events
	resultOnly bool        // the answer is the result without the response around it
	stream     bool        // the answer is an event stream
}

// refuse is an error that comes before there is an answer.
func (c *call) refuse(status int, e *dragoman.Error) *httpx.Refusal {
	return &httpx.Refusal{Status: status, Code: e.Code, Message: e.Message, Data: e.Data, ID: c.id}
}

// serve makes the call and answers.
func (c *call) serve() error {
	s := c.server
	ctx, cancel := c.x.CallContext()
	defer cancel(nil)
	if err := c.check(ctx); err != nil {
		return err
	}
	if s.CallTimeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, s.CallTimeout)
		defer stop()
	}
	if c.stream {
		return c.serveStream(ctx, cancel)
	}
	resp := s.ask(ctx, c.req, nil)
	if c.x.R.Context().Err() != nil {
		return nil // the caller is gone
	}
	c.write(toolAnswer(c.req, resp))
	return nil
}

// check refuses a tool that does not exist, and arguments that do not fit it, as
// far as that is known.
func (c *call) check(ctx context.Context) error {
	s := c.server
	tool, known := s.tool(ctx, httpx.CallerKey(c.x.R), c.req.Name())
	switch {
	case known && tool == nil:
		return c.refuse(http.StatusNotFound, &dragoman.Error{
			Code:    protocol.CodeInvalidParams,
			Message: "unknown tool: " + c.req.Name() + "; the list of tools names those there are",
		})
	case !known || tool.Schema == nil || s.Check == nil:
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
	resp := rpc.Serve(ctx, s.Requests, req, from, s.door.Log)
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
	c.x.JSON(status, body)
}
