package manager

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/walk"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// request makes a request of our own.
func (u *Upstream) request(method string, params map[string]any) (*dragoman.Message, error) {
	if params == nil {
		params = make(map[string]any)
	}
	opts := u.manager.opts
	params["_meta"] = map[string]any{
		protocol.MetaProtocolVersion:    protocol.Latest.String(),
		protocol.MetaClientCapabilities: struct{}{},
		protocol.MetaClientInfo:         map[string]string{"name": opts.Name, "version": opts.Version},
	}
	return dragoman.NewRequest(dragoman.IntID(u.ids.Add(1)), method, params)
}

// refresh fetches the lists that are wanted, and tells others of those that may have
// changed.
func (u *Upstream) refresh(ctx context.Context, server dragoman.Peer) {
	wanted := u.lists.take()
	if len(wanted) == 0 {
		return
	}
	for _, k := range kinds {
		if _, ok := wanted[k.note]; !ok {
			continue
		}
		if err := u.fetch(ctx, server, k); err != nil && ctx.Err() == nil {
			u.log.Warn("a list cannot be had", "method", k.method, "error", u.clean(nil, err))
		}
	}
	if ctx.Err() != nil {
		return
	}
	u.save()
	for _, note := range []string{protocol.NoteToolsChanged, protocol.NotePromptsChanged, protocol.NoteResourcesChanged} {
		if wanted[note] {
			u.announce(note)
		}
	}
}

// fetch gets all pages of a list.
func (u *Upstream) fetch(ctx context.Context, server dragoman.Peer, k kind) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var (
		first  *dragoman.Message
		merged = []byte("[")
		count  int
		params map[string]any
		seen   = make(map[string]bool)
	)
	for page := 0; ; page++ {
		req, err := u.request(k.method, params)
		if err != nil {
			return err
		}
		resp, err := server.Call(ctx, req, nil)
		switch {
		case err != nil:
			return err
		case resp.IsError() && resp.RPCError().Code == protocol.CodeMethodNotFound:
			return nil // it has no such list
		case resp.IsError():
			return resp.RPCError()
		}
		if first == nil {
			first = resp
		}
		elements := resp.Get(k.member)
		for start, end := range walk.Elements(elements) {
			if count++; count > 1 {
				merged = append(merged, ',')
			}
			merged = append(merged, elements[start:end]...)
		}
		cursor := resp.Get("nextCursor")
		if len(cursor) == 0 || string(cursor) == "null" || string(cursor) == `""` {
			break
		}
		if page+1 >= MaxPages || len(merged) > MaxListBytes || seen[string(cursor)] {
			return errors.New("manager: the list has too many pages, or they go in a circle")
		}
		seen[string(cursor)] = true
		params = map[string]any{"cursor": json.RawMessage(bytes.Clone(cursor))}
	}
	whole, err := first.Edit().Set(k.member, append(merged, ']')).Drop("nextCursor").Message()
	if err != nil {
		return fmt.Errorf("manager: the list cannot be read: %w", err)
	}
	u.lists.mu.Lock()
	defer u.lists.mu.Unlock()
	u.lists.put(k.method, whole.Result(), count, first)
	return nil
}
