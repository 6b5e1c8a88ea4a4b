package toolhttp

import (
	"errors"
	"net/http"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// toolAnswer returns what a server's answer becomes: a tool response or a tool
// error, and the status that goes with it.
func toolAnswer(req, resp *dragoman.Message) (*dragoman.Message, int) {
	if resp.IsError() {
		resp = toolError(resp)
		return resp, statusOf(resp.RPCError().Code)
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
func statusOf(code int) int {
	switch code {
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
		return http.StatusServiceUnavailable
	case protocol.CodeTimeout:
		return http.StatusGatewayTimeout
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
