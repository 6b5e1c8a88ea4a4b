package builtin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// An object is a JSON object.
type object = map[string]any

// A call is one request while it is served, of either era.
type call struct {
	server  *Server
	session *session // nil in the modern era
	req     *dragoman.Message
	from    dragoman.Peer // may be nil
	rev     protocol.Revision
	caps    capabilities // of the client
	level   int          // severity from which on log messages are wanted
	args    members      // of a tool, checked
	rounds  rounds       // what earlier rounds of this call brought; modern era
}

// A handler serves a method. What it returns is encoded as the result. An error
// that is a *dragoman.Error is the answer as it stands.
type handler func(ctx context.Context, c *call) (any, error)

// methodOf returns the handler of a method in an era, or nil.
func methodOf(method string, era protocol.Era) handler {
	switch method {
	case protocol.MethodListTools:
		return listTools
	case protocol.MethodCallTool:
		return callTool
	case protocol.MethodListPrompts:
		return listPrompts
	case protocol.MethodGetPrompt:
		return getPrompt
	case protocol.MethodListResources:
		return listResources
	case protocol.MethodListTemplates:
		return listTemplates
	case protocol.MethodReadResource:
		return readResource
	case protocol.MethodComplete:
		return complete
	}
	if era == protocol.Modern {
		switch method {
		case protocol.MethodDiscover:
			return discover
		case protocol.MethodListen:
			return subscribe
		}
		return nil
	}
	switch method {
	case protocol.MethodInitialize:
		return initialize
	case protocol.MethodPing:
		return ping
	case protocol.MethodSetLevel:
		return setLevel
	case protocol.MethodSubscribe:
		return subscribeLegacy
	case protocol.MethodUnsubscribe:
		return unsubscribeLegacy
	}
	return nil
}

// noMethod is the answer to a method that does not exist.
func noMethod(req *dragoman.Message) *dragoman.Message {
	return req.Fail(failure(protocol.CodeMethodNotFound, nil,
		"method not found: %s; see the capabilities for what is served", req.Method()))
}

// run lets a handler serve the call and returns its result or the error
// response.
func (c *call) run(ctx context.Context, h handler) (*dragoman.Message, error) {
	result, err := h(ctx, c)
	if err != nil {
		var input *needInput
		if errors.As(err, &input) {
			result, err = input.result(c)
		}
	}
	if err == nil {
		return c.req.Reply(result)
	}
	if ctx.Err() != nil {
		// The caller does not wait for an answer any more.
		return nil, context.Cause(ctx)
	}
	return c.req.Fail(c.answerTo(err)), nil
}

// answerTo returns the error response for an error of a handler.
func (c *call) answerTo(err error) *dragoman.Error {
	var (
		rpc  *dragoman.Error
		lack *missingCapability
	)
	switch {
	case errors.As(err, &rpc):
		return rpc
	case errors.As(err, &lack) && lack.need != nil:
		return failure(protocol.CodeMissingCapability, object{"requiredCapabilities": lack.need}, "%v", err)
	case errors.As(err, &lack):
		return failure(protocol.CodeInvalidRequest, nil, "%v", err)
	}
	return failure(protocol.CodeInternal, nil, "%v", err)
}

// notify sends the caller a notification that belongs to this call.
func (c *call) notify(ctx context.Context, method string, params any) {
	if c.from == nil {
		return
	}
	note, err := dragoman.NewNotification(method, params)
	if err != nil {
		return // params are ours, so this cannot happen
	}
	// If it fails, the caller is gone and ctx ends.
	_ = c.from.Notify(ctx, note)
}

// progress reports how far the call is, if the caller asked for it.
func (c *call) progress(ctx context.Context, done, total float64, message string) {
	token := c.req.Meta(protocol.MetaProgressToken)
	if _, ok := dragoman.ParseID(token); !ok {
		return
	}
	params := object{"progressToken": token, "progress": done, "total": total}
	if c.rev.HasProgressMessage() {
		params["message"] = message
	}
	c.notify(ctx, protocol.NoteProgress, params)
}

// log sends a log message, if the caller wants messages of that level.
func (c *call) log(ctx context.Context, level string, data any) {
	if protocol.LogLevel(level) < c.level {
		return
	}
	c.notify(ctx, protocol.NoteMessage, object{"level": level, "logger": c.server.opts.Name, "data": data})
}

// levelOf reads the name of a log level from JSON text.
func levelOf(text json.RawMessage) (int, error) {
	var name string
	if json.Unmarshal(text, &name) == nil {
		if level := protocol.LogLevel(name); level >= 0 {
			return level, nil
		}
	}
	return 0, failure(protocol.CodeInvalidParams, nil, "unknown log level %s; use one of %q", text, protocol.LogLevels)
}

// failure makes a JSON-RPC error. data may be nil.
func failure(code int, data any, format string, args ...any) *dragoman.Error {
	e := &dragoman.Error{Code: code, Message: fmt.Sprintf(format, args...)}
	if data != nil {
		// data are maps and strings of ours, which always encode.
		e.Data, _ = json.Marshal(data)
	}
	return e
}

// invalid says what is wrong with the params of a request.
func invalid(format string, args ...any) *dragoman.Error {
	return failure(protocol.CodeInvalidParams, nil, format, args...)
}

// page returns the result of a list: the page that the request's cursor points
// to, under the name of its kind, and the cursor of the next page if there is
// one.
func page[T any](c *call, kind string, all []T) (any, error) {
	start := 0
	if text := c.req.Get("cursor"); text != nil {
		var ok bool
		if start, ok = parseCursor(kind, text); !ok || start > len(all) {
			return nil, invalid("cursor %s is not one of this list; begin without a cursor", text)
		}
	}
	end := len(all)
	if size := c.server.opts.PageSize; size > 0 && end-start > size {
		end = start + size
	}
	result := object{kind: append([]T{}, all[start:end]...)}
	if end < len(all) {
		result["nextCursor"] = cursor(kind, end)
	}
	return result, nil
}

// A cursor is the number of entries before the page, with the kind of list, so
// that it does not pass for that of another.
func cursor(kind string, at int) string {
	return base64.RawURLEncoding.EncodeToString([]byte(kind + " " + strconv.Itoa(at)))
}

func parseCursor(kind string, text json.RawMessage) (at int, ok bool) {
	var s string
	if json.Unmarshal(text, &s) != nil {
		return 0, false
	}
	if s == "" {
		return 0, true // a cursor like any other: that of the first page
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return 0, false
	}
	number, ok := strings.CutPrefix(string(b), kind+" ")
	if !ok {
		return 0, false
	}
	at, err = strconv.Atoi(number)
	return at, err == nil && at > 0
}
