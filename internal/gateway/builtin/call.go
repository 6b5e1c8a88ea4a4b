package builtin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// An object is a JSON object.
type object = map[string]any

// A call is one request while it is served, of either era.
type call struct {
	server  *Server
	session *session  // nil in the modern era
	modern  *era.Call // nil in the legacy era
	req     *dragoman.Message
	from    dragoman.Peer // may be nil
	rev     protocol.Revision
	can     protocol.Abilities // of the client
}

// A handler serves a method. What it returns is encoded as the result. An error
// that is a *dragoman.Error is the answer as it stands.
type handler func(ctx context.Context, c *call) (any, error)

// handlers are those of methods that both eras have.
var handlers = map[string]handler{
	protocol.MethodListTools:     listTools,
	protocol.MethodCallTool:      callTool,
	protocol.MethodListPrompts:   listPrompts,
	protocol.MethodGetPrompt:     getPrompt,
	protocol.MethodListResources: listResources,
	protocol.MethodListTemplates: listTemplates,
	protocol.MethodReadResource:  readResource,
	protocol.MethodComplete:      complete,
}

// modern returns a handler as a function of [era.FromMethods].
func (s *Server) modern(h handler) func(context.Context, *dragoman.Message, dragoman.Peer) (any, error) {
	return func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (any, error) {
		c := era.CallOf(ctx)
		return h(ctx, &call{server: s, modern: c, req: req, from: from, rev: c.Revision, can: c.Can})
	}
}

// progress reports how far the call is, if the caller asked for it.
func (c *call) progress(ctx context.Context, done, total float64, message string) {
	if c.modern != nil {
		c.modern.Progress(ctx, done, total, message)
		return
	}
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
	logger := c.server.opts.Name
	if c.modern != nil {
		c.modern.Log(ctx, level, logger, data)
	} else if protocol.LogLevel(level) >= c.session.logLevel() {
		c.notify(ctx, protocol.NoteMessage, object{"level": level, "logger": logger, "data": data})
	}
}

// notify sends a legacy client a notification that belongs to this call.
func (c *call) notify(ctx context.Context, method string, params any) {
	if c.from == nil {
		return
	}
	note, err := dragoman.NewNotification(method, params)
	if err != nil {
		return // these params always encode
	}
	// If it fails, the caller is gone and ctx ends.
	_ = c.from.Notify(ctx, note)
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
