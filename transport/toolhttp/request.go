package toolhttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/wire/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const jsonType = "application/json"

// toolOf returns the tool that a path names, or "" for the base.
func toolOf(u *url.URL) (tool string, err error) {
	if u.Path == "" || u.Path == "/" {
		return "", nil
	}
	name := strings.TrimPrefix(u.EscapedPath(), "/")
	if tool, err = url.PathUnescape(name); err != nil || strings.Contains(name, "/") || !utf8.ValidString(tool) {
		return "", httpserver.Refuse(http.StatusNotFound, "there is nothing here; a tool is one segment of the path, with slashes in its name as %%2F")
	}
	return tool, nil
}

// wantsStream reports whether the answer is to be an event stream: if Accept names
// that, with whatever weight, or admits nothing else.
func wantsStream(r *http.Request) (bool, error) {
	values := r.Header["Accept"]
	if len(values) == 0 || len(values) == 1 && (values[0] == jsonType || values[0] == "*/*") {
		return false, nil
	}
	plain, stream := httpserver.Accepts(r, jsonType), httpserver.Accepts(r, sse.ContentType)
	switch {
	case !plain && !stream:
		return false, httpserver.Refuse(http.StatusNotAcceptable, "Accept must admit %s or %s", jsonType, sse.ContentType)
	case !plain:
		return true, nil
	}
	return stream && strings.Contains(strings.ToLower(strings.Join(values, ",")), sse.ContentType), nil
}

// postRequest takes a JSON-RPC request.
func (s *Server) postRequest(x *httpserver.Exchange) error {
	stream, err := wantsStream(x.R)
	if err != nil {
		return err
	}
	body, err := x.Body()
	if err != nil {
		return err
	}
	req, err := s.base.Limits.Parse(body)
	if err != nil {
		return httpserver.Unreadable(err)
	}
	if err := protocol.CheckToolRequest(req); err != nil {
		if jsonrpc.LacksID(req) {
			_ = jsonrpc.RefuseNoID(x.Context(), s.Requests, req, s.base.Log) // the refusal below says more
		}
		return refuseNotToolCall(req, err)
	}
	c := &call{server: s, x: x, id: req.ID(), stream: stream}
	if c.req, err = s.withEnvelope(req, stream); err != nil {
		return c.refuse(http.StatusBadRequest, &dragoman.Error{Code: protocol.CodeInvalidParams, Message: "Invalid params: " + err.Error()})
	}
	return c.serve()
}

// refuseNotToolCall refuses a message that is something else than a tool request.
func refuseNotToolCall(m *dragoman.Message, err error) error {
	refusal := httpserver.Refuse(http.StatusBadRequest, "%v", err)
	var wrong *protocol.CheckError
	if errors.As(err, &wrong) {
		refusal.Message = "Invalid request: " + wrong.Path + " " + wrong.Reason
		refusal.Data = errorData(wrong.Path, wrong.Reason)
	}
	if m.Kind() != dragoman.Request {
		return refusal
	}
	refusal.ID = m.ID()
	switch {
	case m.Method() != protocol.MethodCallTool:
		refusal.Code = protocol.CodeMethodNotFound
	default:
		refusal.Code = protocol.CodeInvalidParams
	}
	return refusal
}

// errorData is the data of an error that says what is wrong with a request.
func errorData(path, reason string) json.RawMessage {
	data, _ := json.Marshal(struct {
		Path   string `json:"path"`
		Reason string `json:"reason"`
	}{path, reason}) // strings always encode
	return data
}

var (
	latest      = []byte(strconv.Quote(protocol.Latest.String()))
	emptyObject = []byte("{}")
)

// withEnvelope returns the request as one of the newest revision: with what is missing
// of its envelope, and with a progress token if the caller wants a stream.
func (s *Server) withEnvelope(req *dragoman.Message, stream bool) (*dragoman.Message, error) {
	edit := req.Edit()
	hasEnvelope := false // the caller brings a part of the envelope
	for _, part := range [...]struct {
		key   string
		value []byte
	}{{protocol.MetaProtocolVersion, latest}, {protocol.MetaClientCapabilities, emptyObject}} {
		if req.Meta(part.key) == nil {
			edit.SetMeta(part.key, part.value)
		} else {
			hasEnvelope = true
		}
	}
	if _, ok := dragoman.ParseID(req.Meta(protocol.MetaProgressToken)); !ok && stream {
		edit.SetMeta(protocol.MetaProgressToken, strconv.AppendInt(nil, s.lastID.Add(1), 10))
	}
	if args := req.Get("arguments"); args != nil && args[0] != '{' {
		edit.Drop("arguments") // null
	}
	edited, err := edit.Message()
	if err == nil && (hasEnvelope || req.Meta(protocol.MetaClientInfo) != nil || req.Meta(protocol.MetaLogLevel) != nil) {
		_, err = protocol.ReadEnvelope(edited)
	}
	return edited, err
}

// postTool takes the arguments of a tool.
func (s *Server) postTool(x *httpserver.Exchange, tool string) error {
	r := x.R
	stream, err := wantsStream(r)
	if err != nil {
		return err
	}
	var args []byte
	// A client that sends nothing need not say what it is.
	if r.ContentLength != 0 || r.Header["Content-Type"] != nil || r.Header["Content-Encoding"] != nil {
		if args, err = x.Body(); err != nil {
			return err
		}
	}
	c := &call{server: s, x: x, resultOnly: true, id: dragoman.NullID, stream: stream}
	if c.req, err = s.build(tool, args, stream); err != nil {
		return err
	}
	return c.serve()
}

// build makes the request that calls a tool with these arguments. The error is
// a refusal.
func (s *Server) build(tool string, args []byte, stream bool) (*dragoman.Message, error) {
	args = bytes.TrimSpace(args)
	if len(args) == 0 {
		args = emptyObject
	}
	// The arguments must be one value and no more, or the rest of them would be
	// members of params.
	var one json.RawMessage
	if err := json.Unmarshal(args, &one); err != nil {
		return nil, &httpserver.Refusal{Status: http.StatusBadRequest, Code: protocol.CodeParse, Message: "Parse error: " + err.Error()}
	}
	if args[0] != '{' {
		const reason = "is not an object"
		return nil, &httpserver.Refusal{
			Status: http.StatusBadRequest, Code: protocol.CodeInvalidParams,
			Message: "Invalid params: arguments " + reason, Data: errorData("arguments", reason),
		}
	}
	params := fmt.Appendf(nil, `{"name":%s,"arguments":%s}`, dragoman.Quote(tool), args)
	req, err := dragoman.NewRequest(dragoman.IntID(s.lastID.Add(1)), protocol.MethodCallTool, params)
	if err == nil {
		req, err = s.withEnvelope(req, stream)
	}
	if err == nil {
		return req, nil
	}
	refusal := httpserver.Refuse(http.StatusBadRequest, "Invalid request: %v", err)
	var p *dragoman.ParseError
	if errors.As(err, &p) {
		// The place is one in our text, not in the caller's.
		refusal.Code, refusal.Message = p.Code, "Invalid request: "+p.Reason
	}
	return nil, refusal
}
