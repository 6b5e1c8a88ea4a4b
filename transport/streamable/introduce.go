package streamable

import (
	"context"
	"errors"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// introduce repeats to a new peer what the client said to the one before, and
// returns the answer to the handshake.
func (v *session) introduce(ctx context.Context, m *memo) (*dragoman.Message, error) {
	hello, err := v.server.opts.limits.Parse(m.Hello)
	if err != nil || hello.Kind() != dragoman.Request {
		v.server.forget(v.id)
		return nil, sessionGone()
	}
	resp, err := v.again(ctx, hello)
	switch {
	case err != nil:
		return nil, unavailable(err)
	case resp.IsError():
		return nil, away(resp.RPCError())
	}
	var result struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	if resp.Decode(&result) != nil || result.ProtocolVersion != m.Revision {
		v.server.forget(v.id) // the server is another one now, and the client has to know
		return nil, sessionGone()
	}
	if m.Ready {
		note, err := dragoman.NewNotification(protocol.NoteInitialized, nil)
		if err != nil {
			return nil, unavailable(err)
		}
		if err := v.tell(ctx, note); err != nil {
			return nil, unavailable(err)
		}
	}
	return resp, v.repeat(ctx, m)
}

// repeat sets the log level and the subscriptions. What the server refuses now is
// its business.
func (v *session) repeat(ctx context.Context, m *memo) error {
	type request struct {
		method string
		params map[string]any
	}
	var all []request
	if m.Level != nil {
		all = append(all, request{protocol.MethodSetLevel, map[string]any{"level": m.Level}})
	}
	for _, uri := range m.Subscribed {
		all = append(all, request{protocol.MethodSubscribe, map[string]any{"uri": uri}})
	}
	for _, r := range all {
		req, err := dragoman.NewRequest(dragoman.IntID(0), r.method, r.params)
		if err != nil {
			return unavailable(err)
		}
		resp, err := v.again(ctx, req)
		if err != nil {
			return unavailable(err)
		}
		if resp.IsError() {
			v.server.opts.logger.Info("a session that was taken up lacks something", "method", r.method, "error", resp.RPCError())
		}
	}
	return nil
}

// again sends a request that we make in the client's name, under an id that no
// other has.
func (v *session) again(ctx context.Context, req *dragoman.Message) (*dragoman.Message, error) {
	id := dragoman.StringID("adopt-" + httpx.NewID())
	resp, err := v.peer.Call(ctx, req.WithID(id), nil)
	if err == nil && resp == nil {
		err = errors.New("no answer to " + req.Method())
	}
	return resp, err
}

// announce tells the client what may have changed while nobody listened.
func (v *session) announce(hello *dragoman.Message, m *memo) {
	lost := protocol.ListsOf(hello.Get("capabilities"))
	lost.URIs = m.Subscribed
	for note := range lost.ChangeNotes() {
		if err := v.push.tell(note); err != nil {
			v.server.opts.logger.Debug("a client was not told of a change", "method", note.Method(), "error", err)
		}
	}
}
