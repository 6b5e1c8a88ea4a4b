package aggregate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// named passes a request on to the member that has the tool or prompt that it names.
// Whatever belongs to it passes as it is, and so do rounds of input: the retry names
// the same.
func (a *Aggregate) named(ctx context.Context, r *request, k kind) (*dragoman.Message, error) {
	name := r.Name()
	if name == "" {
		return r.Fail(invalid("params.name must be a string that is not empty; %s names those there are", lists[k].method)), nil
	}
	t, err := a.find(ctx, r, k, name)
	if err != nil {
		return refused(r, err)
	}
	return t.pass(ctx, r)
}

// pass asks the member, with the name that it knows.
func (t target) pass(ctx context.Context, r *request) (*dragoman.Message, error) {
	req := r.Message
	if name := req.Name(); name != "" && t.own != name {
		var err error
		if req, err = req.Edit().Set("name", dragoman.Quote(t.own)).Message(); err != nil {
			return nil, err
		}
	}
	resp, err := t.Requests().Call(ctx, req, r.from)
	if err != nil || resp == nil {
		return resp, err
	}
	return t.ours(resp)
}

// find returns what a name means to a caller. If it is not known, those members are
// asked that may have it. The error is a *dragoman.Error if the name means nothing.
func (a *Aggregate) find(ctx context.Context, r *request, k kind, name string) (target, error) {
	g := r.group
	v := r.view(ctx)
	if t, ok := v.indexed(k).byName[name]; ok {
		return t, nil
	}
	may := slices.DeleteFunc(slices.Clone(g.members), func(m *member) bool { return !g.mayHave(m, k, name) })
	if err := a.refresh(ctx, v, r, may, k); err != nil {
		return target{}, err
	}
	x := v.indexed(k)
	if t, ok := x.byName[name]; ok {
		return t, nil
	}
	silent := v.missing(may, k)
	if len(silent) == 1 {
		if t, ok := g.guessOwner(silent[0], k, name); ok {
			return t, nil
		}
	}
	if len(silent) > 0 {
		return target{}, away(lists[k].noun, name, silent)
	}
	return target{}, unknown(k, name, x)
}

// away is the error for something that a member may have that does not answer.
func away(noun, name string, silent []*member) *dragoman.Error {
	names := make([]string, len(silent))
	for i, m := range silent {
		names[i] = m.Name()
	}
	return protocol.Unavailable(fmt.Errorf("there is no answer from %s, which may have the %s %.200q; try again later",
		strings.Join(names, ", "), noun, name))
}

// unknown is the error for a name that means nothing.
func unknown(k kind, name string, x *index) *dragoman.Error {
	hint := humanize.SuggestHint(name, maps.Keys(x.byName))
	if hint != "" {
		hint = "; " + hint
	}
	const longest = 200
	if len(name) > longest {
		name = strings.ToValidUTF8(name[:longest], "") + "…"
	}
	return invalid("unknown %s: %q%s; %s names those there are", lists[k].noun, name, hint, lists[k].method)
}

// refused returns the answer to a request about something that means nothing, or the
// error itself if it is another one.
func refused(r *request, err error) (*dragoman.Message, error) {
	if e, ok := errors.AsType[*dragoman.Error](err); ok {
		return r.Fail(e), nil
	}
	return nil, err
}

// complete passes a request for completions on to the member whose prompt or
// resource it is about.
func (a *Aggregate) complete(ctx context.Context, r *request, _ kind) (*dragoman.Message, error) {
	ref := r.Get("ref")
	switch dragoman.MemberText(ref, "type") {
	case "ref/prompt":
		name := dragoman.MemberText(ref, "name")
		t, err := a.find(ctx, r, prompts, name)
		if err != nil {
			return refused(r, err)
		}
		req := r.Message
		if t.own != name {
			if req, err = req.Edit().Set("ref", dragoman.WithMember(ref, "name", dragoman.Quote(t.own))).Message(); err != nil {
				return nil, err
			}
		}
		return t.complete(ctx, r, req)
	case "ref/resource":
		uri := dragoman.MemberText(ref, "uri")
		m, err := a.completer(ctx, r, uri)
		if err != nil {
			return refused(r, err)
		}
		return m.complete(ctx, r, r.Message)
	}
	return r.Fail(invalid("params.ref.type must be ref/prompt or ref/resource")), nil
}

// complete asks the member for completions. One that completes nothing has none: other
// members are why the capability is advertised.
func (m *member) complete(ctx context.Context, r *request, req *dragoman.Message) (*dragoman.Message, error) {
	resp, err := m.Requests().Call(ctx, req, r.from)
	if err != nil || resp == nil || !resp.IsError() || resp.RPCError().Code != protocol.CodeMethodNotFound {
		return resp, err
	}
	return r.Reply([]byte(`{"resultType":"` + protocol.ResultComplete + `","completion":{"values":[],"total":0,"hasMore":false}}`))
}

// completer returns the member with a resource template, or with a resource.
func (a *Aggregate) completer(ctx context.Context, r *request, uri string) (*member, error) {
	v := r.view(ctx)
	if t, ok := v.indexed(templates).byName[uri]; ok {
		return t.member, nil
	}
	if err := a.refresh(ctx, v, r, r.group.members, templates); err != nil {
		return nil, err
	}
	if t, ok := v.indexed(templates).byName[uri]; ok {
		return t.member, nil
	}
	may, sure, err := a.candidates(ctx, v, r, uri)
	if err != nil {
		return nil, err
	}
	if silent := v.missing(r.group.members, resources, templates); !sure && len(silent) > 0 {
		return nil, away("resource template", uri, silent)
	}
	if len(may) > 0 {
		return may[0], nil
	}
	return nil, noResource(uri)
}

// taskMark stands between a member's name and its id of a task. Names of servers do
// not have it.
const taskMark = ":"

// ours returns an answer in which the id of a task says whose it is.
func (m *member) ours(resp *dragoman.Message) (*dragoman.Message, error) {
	kind, _ := dragoman.Text(resp.Get("resultType"))
	if kind != protocol.ResultTask {
		return resp, nil
	}
	return m.mark(resp)
}

// mark gives the task that a message is about an id of ours.
func (m *member) mark(msg *dragoman.Message) (*dragoman.Message, error) {
	id, ok := dragoman.Text(msg.Get("taskId"))
	if !ok {
		return msg, nil
	}
	return msg.Edit().Set("taskId", dragoman.Quote(m.Name()+taskMark+id)).Message()
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
func (a *Aggregate) task(ctx context.Context, r *request, _ kind) (*dragoman.Message, error) {
	id, _ := dragoman.Text(r.Get("taskId"))
	m, own := r.group.taskOf(id)
	if m == nil {
		return r.Fail(invalid("unknown task: %.200q", id)), nil
	}
	req, err := r.Edit().Set("taskId", dragoman.Quote(own)).Message()
	if err != nil {
		return nil, err
	}
	resp, err := m.Requests().Call(ctx, req, r.from)
	if err != nil || resp == nil || resp.IsError() {
		return resp, err
	}
	return m.mark(resp)
}
