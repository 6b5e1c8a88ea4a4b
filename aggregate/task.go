package aggregate

import (
	"context"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/walk"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// taskMark stands between a member's name and its id of a task. Names of servers do
// not have it.
const taskMark = ":"

// ours returns an answer in which the id of a task says whose it is.
func (m *member) ours(resp *dragoman.Message) (*dragoman.Message, error) {
	kind, _ := walk.Text(resp.Get("resultType"))
	if kind != protocol.ResultTask {
		return resp, nil
	}
	return m.mark(resp)
}

// mark gives the task that a message is about an id of ours.
func (m *member) mark(msg *dragoman.Message) (*dragoman.Message, error) {
	id, ok := walk.Text(msg.Get("taskId"))
	if !ok {
		return msg, nil
	}
	return msg.Edit().Set("taskId", walk.Quote(m.Name()+taskMark+id)).Message()
}

// taskOf returns whose task an id of ours is, and its own id. The member is nil if
// there is none.
func (g *group) taskOf(id string) (*member, string) {
	name, own, ok := strings.Cut(id, taskMark)
	if !ok {
		return nil, ""
	}
	return g.byName(name), own
}

// task passes a request about a task on to the member that has it.
func (a *Aggregate) task(ctx context.Context, r *request) (*dragoman.Message, error) {
	id, _ := walk.Text(r.Get("taskId"))
	m, own := r.group.taskOf(id)
	if m == nil {
		return r.Fail(invalid("unknown task: %.200q", id)), nil
	}
	req, err := r.Edit().Set("taskId", walk.Quote(own)).Message()
	if err != nil {
		return nil, err
	}
	resp, err := m.Requests().Call(ctx, req, r.from)
	if err != nil || resp == nil || resp.IsError() {
		return resp, err
	}
	return m.mark(resp)
}
