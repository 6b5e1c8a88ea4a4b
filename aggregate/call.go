package aggregate

import (
	"context"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/walk"
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
	if t.own != req.Name() {
		var err error
		if req, err = req.Edit().Set("name", walk.Quote(t.own)).Message(); err != nil {
			return nil, err
		}
	}
	resp, err := t.Requests().Call(ctx, req, r.from)
	if err != nil || resp == nil {
		return resp, err
	}
	return t.ours(resp)
}

// other passes on a request of a method that we know nothing of, if it names
// something.
func (a *Aggregate) other(ctx context.Context, r *request) (*dragoman.Message, error) {
	no := r.Fail(failure(protocol.CodeMethodNotFound, "method not found: %s", r.Method()))
	if legacy(r.Method()) {
		return no, nil
	}
	b := r.group.book(callerOf(ctx))
	if id, _ := walk.Text(r.Get("taskId")); id != "" {
		return a.task(ctx, r)
	}
	if t, ok := b.indexed(tools).byName[r.Name()]; ok {
		return t.pass(ctx, r)
	}
	if t, ok := b.indexed(resources).byName[r.URI()]; ok {
		return t.Requests().Call(ctx, r.Message, r.from)
	}
	return no, nil
}

// legacy tells whether a method is one that the modern era does not have.
func legacy(method string) bool {
	switch method {
	case protocol.MethodInitialize, protocol.MethodPing, protocol.MethodSetLevel, protocol.MethodSubscribe,
		protocol.MethodUnsubscribe, protocol.MethodTaskResult, protocol.MethodListTasks:
		return true
	}
	return false
}
