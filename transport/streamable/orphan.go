package streamable

import (
	"context"
	"encoding/base32"
	"errors"
	"net/http"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// maxStreamCalls is how long the ids of the requests that a stream answers may be
// together, for the stream to carry them in its name.
const maxStreamCalls = 256

var (
	errOrphan = errors.New("the gateway was restarted while the request was under way")

	streamCalls = base32.StdEncoding.WithPadding(base32.NoPadding)
)

// callsName is the part of a stream's name that says which requests are to be
// answered on it. So whoever replays the stream after we are gone knows which of
// them have no answer, and nothing has to be written down for that.
func callsName(requests []*dragoman.Message) string {
	var text strings.Builder
	for _, m := range requests {
		if m.Kind() == dragoman.Request {
			text.WriteString(m.ID().String())
			text.WriteByte('\n')
		}
	}
	if text.Len() > maxStreamCalls {
		return ""
	}
	return "." + streamCalls.EncodeToString([]byte(text.String()))
}

// callsOf returns the ids of the requests that are to be answered on a stream, by
// their keys.
func callsOf(name string) map[dragoman.ID]dragoman.ID {
	_, code, ok := strings.Cut(name, ".")
	text, err := streamCalls.DecodeString(code)
	if !ok || err != nil || len(text) > maxStreamCalls {
		return nil
	}
	ids := make(map[dragoman.ID]dragoman.ID)
	for line := range strings.Lines(string(text)) {
		id, ok := dragoman.ParseID([]byte(strings.TrimSuffix(line, "\n")))
		if !ok {
			return nil
		}
		ids[id.Key()] = id
	}
	return ids
}

// revive returns a stream that the session has here no more: from a Server that
// is about to end, or as far as it has been logged.
func (v *session) revive(ctx context.Context, name string, position int64) (f *feed, err error) {
	if v.server.Store == nil {
		return nil, streamGone()
	}
	if v.server.siblings(v.id, v.owner, func(o *session) bool { f = o.resumable(name); return f != nil }) {
		return f, nil
	}
	calls := callsOf(name)
	if len(calls) == 0 || strings.HasPrefix(name, v.mark) && v.mark != "" {
		return nil, streamGone()
	}
	f = v.server.newFeed()
	f.name, f.key, f.ids, f.orphaned = name, v.key(name), true, calls
	f = v.keep(f)
	if err := f.settle(ctx, position); err != nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.lose(name)
		return nil, err
	}
	return f, nil
}

// settle ends a stream whose Server is gone: with an error for each request that
// has no answer.
func (f *feed) settle(ctx context.Context, position int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.orphaned == nil {
		return nil // done
	}
	if _, err := f.server.opts.log.After(ctx, f.key, position); err != nil {
		return lost(err)
	}
	// An answer may be the very event that the client has seen last.
	events, err := f.server.opts.log.After(ctx, f.key, 0)
	if err != nil {
		events, err = f.server.opts.log.After(ctx, f.key, position-1)
	}
	if err != nil {
		return lost(err)
	}
	for _, data := range events {
		if m, err := dragoman.Parse(data); err == nil && m.Kind() == dragoman.Response {
			delete(f.orphaned, m.ID().Key())
		}
	}
	for _, id := range f.orphaned {
		req, err := dragoman.NewRequest(id, protocol.MethodPing, nil) // for its id
		if err != nil {
			continue
		}
		answer := protocol.Failure(req, dragoman.Closed(errOrphan))
		if _, err := f.server.opts.log.Append(ctx, f.key, answer.Bytes()); err != nil {
			return lost(err)
		}
	}
	f.orphaned, f.ended = nil, true
	return nil
}

func streamGone() error {
	return refuse(http.StatusBadRequest, protocol.CodeServer, "the stream of Last-Event-ID is gone; make the request anew if you need its answer")
}
