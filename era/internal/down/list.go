package down

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/pool"
)

// A cursor is what the cursors that clients are given hold: a server's cursor is
// good in its own session only.
type cursor struct {
	Session string          `json:"s"`
	Method  string          `json:"m"`
	Theirs  json.RawMessage `json:"t"`
}

// principal is whom cursors and states are sealed for.
func (r *request) principal() string { return strconv.Quote(r.owner.Caller) + r.owner.Session }

// list passes a request for a list on: one with a cursor to the session that the
// cursor belongs to. With a session for each request cursors cannot be kept apart, so
// they pass as they are.
func (s *Server) list(ctx context.Context, r *request) (*dragoman.Message, error) {
	token := r.Get("cursor")
	if s.opts.PerRequest || token == nil || string(token) == `""` || string(token) == "null" {
		return s.forward(ctx, r)
	}
	var c cursor
	sealed, _ := dragoman.Text(token)
	if err := s.seal.Open(sealed, "cursor", r.principal(), &c); err != nil || c.Method != r.Method() {
		return r.Fail(invalid("params.cursor is not one that this list gave; start over without a cursor")), nil //nolint:nilerr // that is the answer
	}
	gone := invalid("params.cursor is of a session with the server that is over; start over without a cursor")
	e := s.pool.Find(r.owner, func(item pool.Item) bool {
		ss, ok := item.(*session)
		return ok && ss.handle == c.Session
	})
	if e == nil {
		return r.Fail(gone), nil
	}
	ss := e.Item.(*session)
	msg, err := r.Edit().Set("cursor", c.Theirs).Message()
	var resp *dragoman.Message
	if err == nil {
		resp, err = ss.pass(ctx, r, msg)
	}
	s.pool.Release(e)
	switch {
	case err == nil:
		return s.answer(r, ss, resp, 0)
	case errors.Is(err, dragoman.ErrClosed) && ctx.Err() == nil:
		return r.Fail(gone), nil
	}
	return s.failed(ctx, r, err)
}

// page gives a list the cursor for its next page, and says how long it is good
// for.
func (s *Server) page(r *request, ss *session, resp *dragoman.Message) (*dragoman.Message, error) {
	edit, changed := resp.Edit(), false
	if next := resp.Get("nextCursor"); len(next) > 0 && next[0] == '"' && !s.opts.PerRequest {
		text := s.seal.Seal("cursor", r.principal(), cursor{ss.handle, r.Method(), next})
		edit, changed = edit.Set("nextCursor", strconv.AppendQuote(nil, text)), true
	}
	if ttl := s.opts.TTL.Milliseconds(); ttl > 0 {
		edit, changed = edit.Set("ttlMs", strconv.AppendInt(nil, ttl, 10)), true
	}
	if !changed {
		return resp, nil
	}
	return edit.Message()
}
