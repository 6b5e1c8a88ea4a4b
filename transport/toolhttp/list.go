package toolhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// maxListPages is how many pages a list of tools may have.
	maxListPages = 100

	// listTimeout is how long the fetching of a list may take.
	listTimeout = 5 * time.Second
)

// listRequest asks for the tools behind a cursor, which is JSON text or nil.
func listRequest(cursor json.RawMessage) *dragoman.Message {
	b := []byte(`{"jsonrpc":"2.0","id":1,"method":"` + protocol.MethodListTools + `","params":{`)
	if cursor != nil {
		b = append(b, `"cursor":`...)
		b = append(b, cursor...)
		b = append(b, ',')
	}
	b = append(b, `"_meta":{"`+protocol.MetaProtocolVersion+`":`...)
	b = append(b, latest...)
	b = append(b, `,"`+protocol.MetaClientCapabilities+`":{}}}}`...)
	req, err := dragoman.Limits{MaxMessage: -1}.Parse(b)
	if err != nil {
		panic(err) // the cursor was a value of a message
	}
	return req
}

// list fetches all tools, page by page.
func (s *Server) list(ctx context.Context) *toolList {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	defer context.AfterFunc(s.abort, cancel)()
	l := &toolList{body: []byte(`{"tools":[`), tools: make(map[string]json.RawMessage), public: true, ttl: listMost}
	var cursor json.RawMessage
	for range maxListPages {
		req := listRequest(cursor)
		resp := s.ask(ctx, req, nil)
		if resp.IsError() {
			return &toolList{failed: resp}
		}
		if err := l.add(resp, s.opts.limits.Message()); err != nil {
			return &toolList{failed: protocol.Failure(req, err)}
		}
		cursor = resp.Get("nextCursor")
		if cursor == nil || string(cursor) == "null" {
			l.body = append(l.body, "]}"...)
			return l
		}
	}
	return &toolList{failed: protocol.Failure(listRequest(nil), fmt.Errorf("the list of tools has more than %d pages", maxListPages))}
}

// add takes one page.
func (l *toolList) add(page *dragoman.Message, limit int) error {
	text := page.Get("tools")
	if text == nil || text[0] != '[' {
		return errors.New("the server's list of tools has no tools")
	}
	tools, err := dragoman.Elements(text)
	if err != nil {
		return err
	}
	if len(l.body)+len(text) > limit {
		return fmt.Errorf("%w: the list of tools has more than %d bytes", dragoman.ErrTooLarge, limit)
	}
	for _, tool := range tools {
		if l.body[len(l.body)-1] != '[' {
			l.body = append(l.body, ',')
		}
		l.body = append(l.body, tool...)
		var t struct {
			Name        string          `json:"name"`
			InputSchema json.RawMessage `json:"inputSchema"`
		}
		if json.Unmarshal(tool, &t) == nil {
			l.tools[t.Name] = t.InputSchema
		}
	}
	var ms int64
	_ = json.Unmarshal(page.Get("ttlMs"), &ms) // what cannot be read is as good as none
	l.ttl = min(l.ttl, time.Duration(max(0, min(ms, listMost.Milliseconds())))*time.Millisecond)
	l.public = l.public && bytes.Equal(page.Get("cacheScope"), []byte(`"public"`))
	return nil
}
