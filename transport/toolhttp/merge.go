package toolhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// events reads a stream until it brings the answer.
func (x *exchange) events(from dragoman.Peer) (*dragoman.Message, error) {
	limit := x.conn.client.limits.Message()
	r := sse.NewReader(x.resp.Body, limit+1024) // room for the other fields
	m := merge{limit: limit}
	if _, ok := dragoman.ParseID(x.req.Meta(protocol.MetaProgressToken)); ok && from != nil {
		m.token, m.from = x.req.Meta(protocol.MetaProgressToken), from
	}
	for {
		e, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, errNoAnswer
		case err != nil:
			return nil, err
		}
		resp, err := x.event(e, &m)
		if err != nil {
			return nil, err
		}
		if resp != nil {
			x.drain()
			return resp, nil
		}
	}
}

// event takes one event, and returns the answer if it is that.
func (x *exchange) event(e *sse.Event, m *merge) (*dragoman.Message, error) {
	switch e.Name {
	case eventResult:
		m.add(x.ctx, e.Data)
	case eventComplete:
		resp, err := x.parse(e.Data)
		if err != nil {
			return nil, err
		}
		if resp, err = m.complete(resp); err != nil {
			return nil, err
		}
		return checkAnswer(resp)
	case eventError:
		resp, err := x.parse(e.Data)
		if err == nil && !resp.IsError() {
			err = unreadableAnswer("its error event holds a result")
		}
		if err != nil {
			return nil, err
		}
		return toolError(resp), nil
	case "", "message":
		// Servers of MCP end their streams so.
		if resp, err := x.parse(e.Data); err == nil {
			return checkAnswer(resp)
		}
	}
	return nil, nil
}

// drain reads what follows the answer, so that the connection can be used again.
func (x *exchange) drain() {
	t := time.AfterFunc(drainTime, func() { x.cancel(nil) })
	defer t.Stop()
	_, _ = io.CopyN(io.Discard, x.resp.Body, drainBytes)
}

// A merge is the result that the fragments of a stream make up so far.
type merge struct {
	limit   int
	size    int // bytes of the fragments
	content [][]byte
	names   []string // of the other members, in the order in which they came
	members map[string]json.RawMessage

	token json.RawMessage // nil if the caller wants no progress
	from  dragoman.Peer
	count int
}

// add takes a fragment. Content is appended; of all else the last counts.
func (m *merge) add(ctx context.Context, data []byte) {
	part, err := dragoman.NewResult(dragoman.IntID(1), data)
	if err != nil || part.Result()[0] != '{' {
		return // what it was part of is still to come
	}
	m.notify(ctx, part)
	if m.size += len(data); m.size > m.limit {
		return // complete says that it is too much, unless it has everything
	}
	for name, value := range dragoman.Members(part.Result()) {
		switch name {
		case "content":
			for _, item := range dragoman.Items(value) {
				m.content = append(m.content, item)
			}
			continue
		case "_meta": // says how far the call is
			continue
		}
		if m.members == nil {
			m.members = make(map[string]json.RawMessage)
		}
		if _, ok := m.members[name]; !ok {
			m.names = append(m.names, name)
		}
		m.members[name] = value
	}
}

// complete returns the whole response. It replaces what came before, except that
// one without content gets that, and what else it lacks.
func (m *merge) complete(resp *dragoman.Message) (*dragoman.Message, error) {
	if resp.IsError() || resp.Result()[0] != '{' || !protocol.EmptyContent(resp.Get("content")) || m.size == 0 {
		return resp, nil
	}
	if m.size > m.limit {
		return nil, dragoman.ErrTooLarge
	}
	edit := resp.Edit()
	if len(m.content) > 0 {
		edit.Set("content", append(append([]byte{'['}, bytes.Join(m.content, []byte(","))...), ']'))
	}
	for _, name := range m.names {
		if resp.Get(name) == nil {
			edit.Set(name, m.members[name])
		}
	}
	return edit.Message()
}

// notify sends a fragment to the caller, as progress.
func (m *merge) notify(ctx context.Context, f *dragoman.Message) {
	m.count++
	if m.token == nil {
		return
	}
	params := map[string]json.RawMessage{"progressToken": m.token, "progress": strconv.AppendInt(nil, int64(m.count), 10)}
	for _, name := range [...]string{"progress", "total"} {
		var n json.Number
		if v := f.Meta(name); v != nil && v[0] != '"' && json.Unmarshal(v, &n) == nil {
			params[name] = v
		}
	}
	var items []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	_ = json.Unmarshal(f.Get("content"), &items) // what is no content has no text
	var texts []string
	for _, item := range items {
		if item.Type == "text" {
			texts = append(texts, item.Text)
		}
	}
	if len(texts) > 0 {
		params["message"], _ = json.Marshal(strings.Join(texts, "\n")) // strings always encode
	}
	if len(items) != 1 || len(texts) != 1 {
		if content := f.Get("content"); content != nil {
			params["content"] = content
		}
	}
	note, err := dragoman.NewNotification(protocol.NoteProgress, params)
	if err == nil {
		_ = m.from.Notify(ctx, note) // progress may be lost
	}
}

// fragment returns the part of a result that a notification carries, as JSON text,
// or nil if it carries none.
func fragment(note *dragoman.Message) []byte {
	if note.Method() != protocol.NoteProgress {
		return nil
	}
	content, message := note.Get("content"), note.Get("message")
	if message != nil && (message[0] != '"' || string(message) == `""`) {
		message = nil
	}
	var f struct {
		Content json.RawMessage            `json:"content"`
		Meta    map[string]json.RawMessage `json:"_meta,omitempty"`
	}
	f.Meta = make(map[string]json.RawMessage)
	switch {
	case !protocol.EmptyContent(content):
		f.Content = content
		if message != nil {
			f.Meta["message"] = message
		}
	case message != nil:
		f.Content = slices.Concat(json.RawMessage(`[{"type":"text","text":`), message, json.RawMessage(`}]`))
	default:
		return nil
	}
	for _, name := range [...]string{"progress", "total"} {
		if n := note.Get(name); n != nil {
			f.Meta[name] = n
		}
	}
	m, err := dragoman.NewResult(dragoman.IntID(1), f)
	if err != nil || protocol.CheckToolResponse(m) != nil {
		return nil // it would be no fragment of a result
	}
	return m.Result()
}
