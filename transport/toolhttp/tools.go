package toolhttp

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/flight"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// listFresh is how long a list of tools counts for checks if the server does
	// not say, listMost how long at most, listFailed how long nobody asks for one
	// that could not be had, and listAgain how soon another is asked for because
	// a tool is not in it.
	listFresh  = 30 * time.Second
	listMost   = time.Hour
	listFailed = 5 * time.Second
	listAgain  = time.Second

	// maxCallers is of how many callers, and maxListBytes how much of their
	// lists is kept.
	maxCallers   = 1024
	maxListBytes = 64 << 20
)

// A toolList is what a server has told of its tools. It does not change.
type toolList struct {
	body   []byte                     // {"tools":[…]}
	tools  map[string]json.RawMessage // inputSchema by name
	public bool                       // for all callers
	ttl    time.Duration              // for which the server says that it holds
	failed *dragoman.Message          // why there is none; the rest is empty then

	fetched time.Time
	until   time.Time // it counts for checks
}

// verdict is what a list says of a tool.
type verdict int

const (
	unlisted verdict = iota // there is no list
	missing
	listed
)

// A book keeps lists of tools.
type book struct {
	mu      sync.Mutex // not held while a list is fetched
	shared  *toolList
	callers map[string]*toolList
	size    int                                  // bytes of callers
	flights map[string]*flight.Flight[*toolList] // of callers whose lists are being fetched
}

// find looks a tool up. It asks the server if nobody has for a while, and once
// more if the tool is not in the list.
func (b *book) find(ctx context.Context, s *Server, caller, name string) (json.RawMessage, verdict) {
	now := time.Now()
	list := b.current(caller, now)
	if list == nil {
		list = b.fetch(ctx, s, caller, nil)
	}
	schema, ok := list.tools[name]
	if !ok && list.failed == nil && now.Sub(list.fetched) >= listAgain {
		list = b.fetch(ctx, s, caller, list)
		schema, ok = list.tools[name]
	}
	switch {
	case ok:
		return schema, listed
	case list.failed != nil:
		return nil, unlisted
	}
	return nil, missing
}

// current returns the list that counts for a caller, or nil.
func (b *book) current(caller string, now time.Time) *toolList {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.get(caller, now)
}

func (b *book) get(caller string, now time.Time) *toolList {
	if list := b.callers[caller]; list != nil && now.Before(list.until) {
		return list
	}
	if b.shared != nil && now.Before(b.shared.until) {
		return b.shared
	}
	return nil
}

// fetch returns a newer list than old, which may be nil. One goroutine for each
// caller fetches, its own; the others wait for it, until ctx ends.
func (b *book) fetch(ctx context.Context, s *Server, caller string, old *toolList) *toolList {
	b.mu.Lock()
	if list := b.get(caller, time.Now()); list != nil && list != old {
		b.mu.Unlock()
		return list
	}
	f := b.flights[caller]
	if f == nil {
		f = new(flight.Flight[*toolList])
		if b.flights == nil {
			b.flights = make(map[string]*flight.Flight[*toolList])
		}
		b.flights[caller] = f
	}
	b.mu.Unlock()
	list, err := f.Get(ctx, flight.Here, func() (*toolList, error) {
		// The others must not lose the list because this caller leaves.
		list := s.list(context.WithoutCancel(ctx))
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.flights, caller)
		return b.keep(caller, list), nil
	})
	if err != nil {
		return &toolList{failed: protocol.Failure(listRequest(), err)}
	}
	return list
}

// keep notes a list that was fetched, and returns the one that counts. b.mu is
// locked.
func (b *book) keep(caller string, list *toolList) *toolList {
	now := time.Now()
	list.fetched = now
	switch {
	case list.failed != nil:
		list.until = now.Add(listFailed)
	case list.ttl > 0:
		list.until = now.Add(min(list.ttl, listMost))
	default:
		list.until = now.Add(listFresh)
	}
	if list.public {
		b.shared = list
		b.drop(caller)
		return list
	}
	b.drop(caller)
	if len(b.callers) >= maxCallers || b.size+len(list.body) > maxListBytes {
		b.callers, b.size = nil, 0
	}
	if b.callers == nil {
		b.callers = make(map[string]*toolList)
	}
	b.callers[caller] = list
	b.size += len(list.body)
	return list
}

func (b *book) drop(caller string) {
	if old := b.callers[caller]; old != nil {
		b.size -= len(old.body)
		delete(b.callers, caller)
	}
}

// getTools answers with all tools.
func (s *Server) getTools(x *httpx.Exchange) error {
	r := x.R
	if len(r.Header["Accept"]) > 0 && !httpx.Accepts(r, jsonType) {
		return httpx.Refuse(http.StatusNotAcceptable, "Accept must admit %s", jsonType)
	}
	caller, now := httpx.Key(r), time.Now()
	list := s.tools.current(caller, now)
	// Checks make do with a list for longer than the server says that it holds.
	if list == nil || list.failed != nil || now.Sub(list.fetched) >= list.ttl {
		list = s.tools.fetch(r.Context(), s, caller, list)
	}
	if list.failed != nil {
		e := toolError(list.failed).RPCError()
		return &httpx.Refusal{Status: statusOf(e.Code), Code: e.Code, Message: e.Message, Data: e.Data}
	}
	x.JSON(http.StatusOK, list.body)
	return nil
}
