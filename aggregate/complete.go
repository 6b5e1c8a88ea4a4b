package aggregate

import (
	"context"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/walk"
)

// complete passes a request for completions on to the member whose prompt or
// resource it is about.
func (a *Aggregate) complete(ctx context.Context, r *request) (*dragoman.Message, error) {
	ref := r.Get("ref")
	switch walk.TextOf(ref, "type") {
	case "ref/prompt":
		name := walk.TextOf(ref, "name")
		t, err := a.find(ctx, r, prompts, name)
		if err != nil {
			return refused(r, err)
		}
		req := r.Message
		if t.own != name {
			if req, err = req.Edit().Set("ref", walk.With(ref, "name", walk.Quote(t.own))).Message(); err != nil {
				return nil, err
			}
		}
		return t.Requests().Call(ctx, req, r.from)
	case "ref/resource":
		uri := walk.TextOf(ref, "uri")
		m, err := a.completer(ctx, r, uri)
		if err != nil {
			return refused(r, err)
		}
		return m.Requests().Call(ctx, r.Message, r.from)
	}
	return r.Fail(invalid("params.ref.type must be ref/prompt or ref/resource")), nil
}

// completer returns the member with a resource template, or with a resource.
func (a *Aggregate) completer(ctx context.Context, r *request, uri string) (*member, error) {
	b := r.group.book(callerOf(ctx))
	if t, ok := b.indexed(templates).byName[uri]; ok {
		return t.member, nil
	}
	if err := a.refresh(ctx, b, r, r.group.members, templates); err != nil {
		return nil, err
	}
	if t, ok := b.indexed(templates).byName[uri]; ok {
		return t.member, nil
	}
	may, _, err := a.holders(ctx, b, r, uri)
	if err != nil {
		return nil, err
	}
	if len(may) > 0 {
		return may[0], nil
	}
	if silent := b.missing(templates, r.group.members); len(silent) > 0 {
		return nil, away("resource template", uri, silent)
	}
	return nil, noResource(uri)
}
