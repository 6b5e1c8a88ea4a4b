package adapt

import (
	"crypto/rand"
	"fmt"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// ServerRequest returns what a server asks (elicitation/create,
// sampling/createMessage, roots/list) as the client's revision has it. The error
// says why it cannot be asked: the code is "method not found" if the client's
// revision has no such question, and "invalid params" if it has, but not in
// this form.
//
// For a modern client it has what belongs into an input_required result: no
// _meta, no id of an elicitation, no task.
func (r Route) ServerRequest(q *dragoman.Message) (*dragoman.Message, *dragoman.Error) {
	if r.Same() {
		return q, nil
	}
	e := q.Edit()
	if r.down() {
		e.Drop("_meta")
	}
	if !r.Client.HasCoreTasks() {
		e.Drop("task")
	}
	var refusal *dragoman.Error
	switch method := q.Method(); method {
	case protocol.MethodElicit:
		refusal = r.elicit(e, q)
	case protocol.MethodCreateMessage:
		refusal = r.sample(e, q)
	case protocol.MethodListRoots:
	default:
		if !r.Client.ServerMayAsk() {
			return nil, r.unsupported(protocol.CodeMethodNotFound, "be asked %q", method)
		}
	}
	if refusal != nil {
		return nil, refusal
	}
	changed, err := e.Message()
	if err != nil {
		return nil, &dragoman.Error{Code: protocol.CodeInternal, Message: "adapt: the question cannot be put to a client of " + r.Client.String() + ": " + err.Error()}
	}
	return changed, nil
}

// elicit adapts a question to the user.
func (r Route) elicit(e *dragoman.Edit, q *dragoman.Message) *dragoman.Error {
	if !r.Client.HasElicitation() {
		return r.unsupported(protocol.CodeMethodNotFound, "ask its user (%s)", protocol.MethodElicit)
	}
	switch mode, _ := dragoman.Text(q.Get("mode")); {
	case mode == "url":
		return r.urlElicitation(e, q)
	case mode != "form" && q.Get("mode") != nil:
		return r.unsupported(protocol.CodeInvalidParams, "ask its user in mode %.40s", q.Get("mode"))
	}
	if !r.Client.HasURLElicitation() {
		e.Drop("mode") // there was only one
	}
	if !r.Client.HasRichForms() {
		return r.form(e, q.Get("requestedSchema"))
	}
	return nil
}

// urlElicitation adapts a question that sends the user to a URL. The legacy era has an id
// for it, the modern one does not.
func (r Route) urlElicitation(e *dragoman.Edit, q *dragoman.Message) *dragoman.Error {
	switch {
	case !r.Client.HasURLElicitation():
		return r.unsupported(protocol.CodeInvalidParams, "send its user to a URL (elicitation in mode url)")
	case !r.announcesURLs():
		e.Drop("elicitationId")
	case q.Get("elicitationId") == nil:
		e.Set("elicitationId", dragoman.Quote(rand.Text()))
	}
	return nil
}

// unsupported returns the error that says what the client cannot do.
func (r Route) unsupported(code int, format string, args ...any) *dragoman.Error {
	return &dragoman.Error{Code: code, Message: "the client speaks " + r.Client.String() + " and cannot " + fmt.Sprintf(format, args...)}
}
