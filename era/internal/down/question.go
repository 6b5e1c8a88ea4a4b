package down

import (
	"encoding/json"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/adapt"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A question is what the server asked in a call, until it is answered.
type question struct {
	msg    *dragoman.Message // as the server asked
	route  adapt.Route
	key    string // in inputRequests; its own within the call
	method string
	params json.RawMessage        // as the client is asked
	url    bool                   // an elicitation that sends the user to a web site
	tools  bool                   // sampling with tools
	answer chan *dragoman.Message // holds the answer, once
}

// newQuestion makes a question of what a server asks. The error says why it
// cannot be asked.
func newQuestion(route adapt.Route, msg *dragoman.Message) (*question, *dragoman.Error) {
	switch msg.Method() {
	case protocol.MethodElicit, protocol.MethodCreateMessage, protocol.MethodListRoots:
	default:
		return nil, failure(protocol.CodeMethodNotFound, nil, "method not found: %s", msg.Method())
	}
	asked, refusal := route.Question(msg)
	if refusal != nil {
		return nil, refusal
	}
	q := &question{msg: msg, route: route, method: msg.Method(), params: asked.Params(), answer: make(chan *dragoman.Message, 1)}
	if q.params == nil {
		q.params = json.RawMessage("{}") // some clients take none for an error
	}
	var mode string
	q.url = json.Unmarshal(asked.Get("mode"), &mode) == nil && mode == "url"
	q.tools = asked.Get("tools") != nil || asked.Get("toolChoice") != nil
	return q, nil
}

// settle answers the question. Who calls it has taken the question out of its
// call, so that nobody else does.
func (q *question) settle(resp *dragoman.Message) { q.answer <- resp }

// answered returns the server's answer out of the client's, a bare result.
func (q *question) answered(result json.RawMessage) *dragoman.Message {
	resp, err := q.msg.Reply(result)
	if err == nil {
		resp, err = q.route.Answer(q.method, resp)
	}
	if err != nil {
		return q.msg.Fail(failure(protocol.CodeInternal, nil, "the client's answer cannot be passed on: %v", err))
	}
	return resp
}

// refusal is the answer to what the client did not say it can be asked.
func (q *question) refusal() *dragoman.Message {
	if q.method == protocol.MethodElicit {
		return q.elicited("decline")
	}
	return q.msg.Fail(failure(protocol.CodeMethodNotFound, nil, "the client of this call does not support %s as it was asked", q.method))
}

// lapse is the answer to what the client will not be asked any more, because of
// why.
func (q *question) lapse(why string) *dragoman.Message {
	if q.method == protocol.MethodElicit {
		return q.elicited("cancel")
	}
	return q.failed(why)
}

func (q *question) failed(why string) *dragoman.Message {
	return q.msg.Fail(failure(protocol.CodeInternal, nil, "the client cannot be asked: %s", why))
}

func (q *question) elicited(action string) *dragoman.Message {
	resp, err := q.msg.Reply(map[string]string{"action": action})
	if err != nil {
		return q.failed(err.Error())
	}
	return resp
}
