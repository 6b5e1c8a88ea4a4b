// Package toollist keeps the lists of tools of a server, one per caller: which tools there
// are, the schemas of their arguments, and which arguments HTTP headers repeat. The transports
// streamable and toolhttp use it.
package toollist

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/syncs"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// fresh is how long a list is valid if the server does not say.
	fresh = 30 * time.Second

	// MaxAge is how long a list is valid at most, whatever the server says.
	MaxAge = time.Hour

	// minAge is how old a list is at least when a newer one is fetched because something does
	// not fit it.
	minAge = time.Second

	// fetchTimeout is how long the fetching of a list may take.
	fetchTimeout = 5 * time.Second

	// maxCallers is of how many callers, and maxBytes how much of their lists is
	// kept. Beyond that all are forgotten.
	maxCallers = 1024
	maxBytes   = 64 << 20
)

// A Fetch asks the server, in the name of the caller who wants a list.
type Fetch func(ctx context.Context, req *dragoman.Message) (*dragoman.Message, error)

// A Lister is a Peer that keeps the list of tools itself, as that of the gateway does. A Cache in front of one keeps nothing.
type Lister interface {
	// ToolList returns the list of a caller; nil stands for that in ctx. meta is the _meta of its request, and may be nil.
	// name is the tool that is needed, of which alone the list may be; "" stands for all. A list is asked for again if it
	// is than, unless the peer is notified of changes.
	ToolList(ctx context.Context, caller *dragoman.Caller, meta json.RawMessage, name string, than *List) (*List, error)
}

// ListerOf returns what p, or a peer that it wraps, has as a Lister, or nil. p may be nil.
func ListerOf(p dragoman.Peer) Lister {
	l, _ := dragoman.PeerAs[Lister](p)
	return l
}

// A Cache keeps the lists of tools of one server: one for each caller, since
// callers may see different tools, and one for all if the server says that it is.
// Any number of goroutines may use it; of those who want the list of one caller
// one fetches it, and the others wait. The zero value is ready to use.
type Cache struct {
	// Lister, if not nil, has the lists.
	Lister Lister

	// Detached fetches on a goroutine of its own, so that the caller who wants the
	// list first need not stay until it comes. It ends with the fetch, after five
	// seconds at most. Else that caller's goroutine fetches.
	Detached bool

	// MaxList is how many bytes a list may have. Zero means no limit.
	MaxList int

	// Fresh is how long a list counts if the server does not say, an hour at most.
	// Zero means 30 seconds.
	Fresh time.Duration

	// FailedFor is how long nobody asks again for a list that the server has
	// refused, and LostFor for one that got no answer from the server itself.
	FailedFor, LostFor time.Duration

	mu      sync.Mutex // not held while a list is fetched
	shared  *entry
	callers map[string]*entry
	size    int                              // bytes of callers
	flights map[string]*syncs.Flight[*entry] // of callers whose lists are being fetched
}

// An entry is what is known of a list. It does not change.
type entry struct {
	list  *List // nil if there is none
	err   error // why there is none, or none that is newer
	until time.Time
}

// Get returns the list for a caller, and fetches it if it is not cached. name is the tool that is needed, of
// which alone the list may be; "" stands for all.
// meta is the _meta of the request for it; nil stands for that of a client of the
// newest revision without capabilities. If a list that was known cannot be had
// again, it counts for an hour in all.
func (c *Cache) Get(ctx context.Context, caller *dragoman.Caller, name string, meta json.RawMessage, fetch Fetch) (*List, error) {
	if c.Lister != nil {
		return c.Lister.ToolList(ctx, caller, meta, name, nil)
	}
	view := viewOf(caller)
	e := c.current(view)
	if e == nil {
		e = c.renew(asked(ctx, caller), view, nil, meta, fetch)
	}
	if e.list != nil {
		return e.list, nil
	}
	return nil, e.err
}

// Newer returns a newer list than one that something does not fit, unless that is
// less than a second old, or there is none.
func (c *Cache) Newer(ctx context.Context, caller *dragoman.Caller, name string, than *List, meta json.RawMessage, fetch Fetch) *List {
	if time.Since(than.fetched) < minAge {
		return than
	}
	if c.Lister != nil {
		if list, err := c.Lister.ToolList(ctx, caller, meta, name, than); err == nil {
			return list
		}
		return than
	}
	view := viewOf(caller)
	e := c.current(view)
	if e == nil || e.list == than {
		e = c.renew(asked(ctx, caller), view, e, meta, fetch)
	}
	if e.list == nil {
		return than
	}
	return e.list
}

// Valid returns a list that still holds by what the server says, which is for no
// time if it says nothing, or why there is none.
func (c *Cache) Valid(ctx context.Context, caller *dragoman.Caller, meta json.RawMessage, fetch Fetch) (*List, error) {
	if c.Lister != nil {
		list, err := c.Lister.ToolList(ctx, caller, meta, "", nil)
		if err == nil && time.Since(list.fetched) >= list.ttl {
			return c.Lister.ToolList(ctx, caller, meta, "", list)
		}
		return list, err
	}
	view := viewOf(caller)
	e := c.current(view)
	if e == nil || e.err != nil || time.Since(e.list.fetched) >= e.list.ttl {
		e = c.renew(asked(ctx, caller), view, e, meta, fetch)
	}
	if e.err != nil {
		return nil, e.err
	}
	return e.list, nil
}

// Known returns the list that a caller was given in the last hour, or nil.
func (c *Cache) Known(caller *dragoman.Caller) *List {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stale(viewOf(caller), time.Now())
}

// Learn takes an answer to tools/list that passes by, if it is a whole list.
func (c *Cache) Learn(caller *dragoman.Caller, req, resp *dragoman.Message) {
	if c.Lister != nil || resp.IsError() || req.Get("cursor") != nil || resp.Get("nextCursor") != nil {
		return
	}
	list := newList()
	if list.add(resp, c.MaxList) == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.keep(viewOf(caller), list, nil)
	}
}

// Forget makes the list of a caller be fetched when it is next needed.
func (c *Cache) Forget(caller *dragoman.Caller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(viewOf(caller))
	c.shared = nil
}

// Len returns of how many callers lists are kept.
func (c *Cache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.callers)
}

// viewOf returns the key under which the list of a caller is cached. All nil callers share one.
func viewOf(caller *dragoman.Caller) string {
	if caller == nil {
		return ""
	}
	return caller.View()
}

// asked returns the context in which the server is asked on behalf of a caller.
func asked(ctx context.Context, caller *dragoman.Caller) context.Context {
	if caller == nil {
		return ctx
	}
	return dragoman.WithCaller(ctx, caller)
}

// current returns what counts for a caller, or nil.
func (c *Cache) current(caller string) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.get(caller, time.Now())
}

func (c *Cache) get(caller string, now time.Time) *entry {
	for _, e := range []*entry{c.callers[caller], c.shared} {
		if e != nil && now.Before(e.until) {
			return e
		}
	}
	return nil
}

// renew returns something newer than old, which may be nil. Who has to wait does
// so until ctx ends.
func (c *Cache) renew(ctx context.Context, caller string, old *entry, meta json.RawMessage, fetch Fetch) *entry {
	c.mu.Lock()
	if e := c.get(caller, time.Now()); e != nil && e != old {
		c.mu.Unlock()
		return e
	}
	f := c.flights[caller]
	if f == nil {
		f = new(syncs.Flight[*entry])
		if c.flights == nil {
			c.flights = make(map[string]*syncs.Flight[*entry])
		}
		c.flights[caller] = f
	}
	c.mu.Unlock()
	start := syncs.OnCaller
	if c.Detached {
		start = func(f func()) bool { go f(); return true }
	}
	e, err := f.Get(ctx, start, func() (*entry, error) {
		// The others must not lose the list because this caller leaves.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
		defer cancel()
		list, err := c.fetch(ctx, meta, fetch)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.flights, caller)
		return c.keep(caller, list, err), nil
	})
	if err != nil {
		return &entry{err: err}
	}
	return e
}

// fetch asks for all tools, page by page.
func (c *Cache) fetch(ctx context.Context, meta json.RawMessage, fetch Fetch) (*List, error) {
	req, err := Request(meta)
	if err != nil {
		return nil, err
	}
	list := newList()
	for page, err := range protocol.Pages(req, func(req *dragoman.Message) (*dragoman.Message, error) { return fetch(ctx, req) }) {
		if err == nil {
			err = list.add(page, c.MaxList)
		}
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Request returns a request for the tools with a _meta; nil stands for that of a client of the
// newest revision without capabilities.
func Request(meta json.RawMessage) (*dragoman.Message, error) {
	var own any = meta
	if len(meta) == 0 {
		own = map[string]any{protocol.MetaProtocolVersion: protocol.Latest.String(), protocol.MetaClientCapabilities: struct{}{}}
	}
	req, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodListTools, map[string]any{"_meta": own})
	if err != nil {
		return nil, err
	}
	return req.Edit().DropMeta(protocol.MetaProgressToken).Message()
}

// keep notes what has come of a fetch. mu is held.
func (c *Cache) keep(caller string, list *List, err error) *entry {
	now := time.Now()
	e := &entry{list: list, err: err}
	if err != nil {
		e.list, e.until = c.stale(caller, now), now.Add(c.failedFor(err))
	} else {
		list.fetched = now
		e.until = now.Add(cmp.Or(list.ttl, min(c.Fresh, MaxAge), fresh))
	}
	c.drop(caller)
	if err == nil && list.public {
		c.shared = e
		return e
	}
	size := e.size()
	if len(c.callers) >= maxCallers || c.size+size > maxBytes {
		c.callers, c.size = nil, 0
	}
	if c.callers == nil {
		c.callers = make(map[string]*entry)
	}
	c.callers[caller] = e
	c.size += size
	return e
}

// failedFor returns how long a failure counts. That the conversation which one caller
// asked in is over says nothing of the list.
func (c *Cache) failedFor(err error) time.Duration {
	if errors.Is(err, dragoman.ErrClosed) {
		return 0
	}
	if e, ok := errors.AsType[*dragoman.Error](err); ok && !protocol.IsGatewayError(e) {
		return c.FailedFor
	}
	return c.LostFor
}

// stale returns the list that counts because there is no newer one, or nil. mu is
// held.
func (c *Cache) stale(caller string, now time.Time) *List {
	for _, e := range []*entry{c.callers[caller], c.shared} {
		if e != nil && e.list != nil && now.Sub(e.list.fetched) < MaxAge {
			return e.list
		}
	}
	return nil
}

// drop forgets the list of a caller. mu is held.
func (c *Cache) drop(caller string) {
	if old := c.callers[caller]; old != nil {
		c.size -= old.size()
		delete(c.callers, caller)
	}
}

func (e *entry) size() int {
	if e.list == nil {
		return 0
	}
	return e.list.size
}
