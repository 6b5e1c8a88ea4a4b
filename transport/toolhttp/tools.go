package toolhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/toollist"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// listFailed is how long a list of tools that could not be fetched is not fetched again.
// Calls go unchecked meanwhile: the server checks them too.
const listFailed = 5 * time.Second

// tool returns what the server says of a tool, and whether that is known. It is nil
// if there is no such tool.
func (s *Server) tool(ctx context.Context, caller, name string) (tool *toollist.Tool, known bool) {
	list, err := s.tools.Get(ctx, caller, nil, s.list)
	if err != nil {
		return nil, false
	}
	if tool = list.Tool(name); tool == nil {
		tool = s.tools.Newer(ctx, caller, list, nil, s.list).Tool(name)
	}
	return tool, true
}

// list asks the server for its tools.
func (s *Server) list(ctx context.Context, req *dragoman.Message) (*dragoman.Message, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.door.Aborted(), cancel)()
	return s.ask(ctx, req, nil), nil
}

// getTools answers with all tools.
func (s *Server) getTools(x *httpx.Exchange) error {
	r := x.R
	if len(r.Header["Accept"]) > 0 && !httpx.Accepts(r, jsonType) {
		return httpx.Refuse(http.StatusNotAcceptable, "Accept must admit %s", jsonType)
	}
	list, err := s.tools.Valid(r.Context(), httpx.CallerKey(r), nil, s.list)
	if err != nil {
		req, _ := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodListTools, nil) // nothing in it can fail
		e := toolError(protocol.Failure(req, err)).RPCError()
		return &httpx.Refusal{Status: statusOf(e.Code), Code: e.Code, Message: e.Message, Data: e.Data}
	}
	x.JSON(http.StatusOK, list.Body())
	return nil
}
