package sessions

import (
	"context"
	"encoding/base32"
	"errors"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// maxNamed is how long the ids of the requests that a stream answers may be together,
// for the stream to carry them in its name.
const maxNamed = 256

var (
	errRestarted = errors.New("the gateway was restarted while the request was in flight")

	nameCode = base32.StdEncoding.WithPadding(base32.NoPadding)
)

// NameRequests returns the part of a stream's name that says which requests are to be
// answered on it. So whoever replays the stream after its server is gone knows which of
// them have no answer, and nothing has to be written down for that.
func NameRequests(requests []*dragoman.Message) string {
	var text strings.Builder
	for _, m := range requests {
		if m.Kind() == dragoman.Request {
			text.WriteString(m.ID().String())
			text.WriteByte('\n')
		}
	}
	if text.Len() > maxNamed {
		return ""
	}
	return "." + nameCode.EncodeToString([]byte(text.String()))
}

// RequestsOf returns the ids of the requests that are to be answered on a stream, by
// their keys.
func RequestsOf(name string) map[dragoman.ID]dragoman.ID {
	_, code, ok := strings.Cut(name, ".")
	text, err := nameCode.DecodeString(code)
	if !ok || err != nil || len(text) > maxNamed {
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

// Settle ends a stream in the log whose server is gone: with an error for each of its
// requests that has no answer. Its client has seen it up to position.
func Settle(ctx context.Context, log eventlog.Log, stream string, position int64, requests map[dragoman.ID]dragoman.ID) error {
	missed, err := log.After(ctx, stream, position)
	if err != nil {
		return err
	}
	last := position + int64(len(missed))
	// An answer may be the very event that the client has seen last.
	events, err := log.After(ctx, stream, 0)
	if err != nil {
		events, err = log.After(ctx, stream, position-1)
	}
	if err != nil {
		return err
	}
	for _, data := range events {
		if m, err := dragoman.Parse(data); err == nil && m.Kind() == dragoman.Response {
			delete(requests, m.ID().Key())
		}
	}
	for _, id := range requests {
		req, err := dragoman.NewRequest(id, protocol.MethodPing, nil) // for its id
		if err != nil {
			continue
		}
		answer := protocol.Failure(req, dragoman.Closed(errRestarted))
		if last, err = log.Append(ctx, stream, last, answer.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
