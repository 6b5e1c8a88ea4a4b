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

// listTimeout is how long the fetching of a list may take.
const listTimeout = 5 * time.Second

// listRequest asks for the tools.
func listRequest() *dragoman.Message {
	req, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodListTools, map[string]any{"_meta": map[string]any{
		protocol.MetaProtocolVersion: protocol.Latest.String(), protocol.MetaClientCapabilities: struct{}{},
	}})
	if err != nil {
		panic(err) // strings always encode
	}
	return req
}

// list fetches all tools, page by page.
func (s *Server) list(ctx context.Context) *toolList {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	defer context.AfterFunc(s.door.Aborted(), cancel)()
	l := &toolList{body: []byte(`{"tools":[`), tools: make(map[string]json.RawMessage), public: true, ttl: listMost}
	req := listRequest()
	for page, err := range protocol.Pages(req, func(req *dragoman.Message) (*dragoman.Message, error) { return s.ask(ctx, req, nil), nil }) {
		if err == nil {
			err = l.add(page, s.door.Limits.Message())
		}
		if err != nil {
			return &toolList{failed: protocol.Failure(req, err)}
		}
	}
	l.body = append(l.body, "]}"...)
	return l
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
