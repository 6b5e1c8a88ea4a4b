package catalog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/syncs"
	"github.com/dragoman-mcp/dragoman/internal/wire/toollist"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// fresh is how long the gateway itself goes by a caller's own list, at least.
	fresh = 30 * time.Second

	// refusedFor is how long the server is not asked again for a list that it has refused.
	refusedFor = time.Second

	// rememberFor is how long a name that a call gives is compared with those of an old list.
	rememberFor = time.Hour

	// ownTimeout bounds the fetching of a caller's own list.
	ownTimeout = 5 * time.Second

	// MaxCallers is the number of callers whose own lists are kept. Beyond that all are forgotten,
	// and fetched again.
	MaxCallers = 1024

	// MaxCallerBytes is the size of these lists in all, likewise.
	MaxCallerBytes = 64 << 20
)

// A key identifies the lists of a caller.
type key struct {
	caller, method, extensions string
	session                    bool
}

// An own is a list of a caller's own. It does not change.
type own struct {
	list  *List // nil if the server has refused it
	err   error
	at    time.Time // it was received
	until time.Time // it may be returned to the caller as a response
	fresh time.Time // the gateway goes by it
	size  int       // bytes that are kept for it alone
}

// A View is whose lists are looked up.
type View struct {
	Caller  *dragoman.Caller
	Meta    json.RawMessage // of the caller's request, with the extensions of its client; may be nil
	Session bool            // the caller has a session of the legacy era with the server, which may list other tools to it
}

// callerKey identifies a caller that may have sessions of its own with the server.
func callerKey(c *dragoman.Caller) string { return c.Key() + "\x00" + c.Session }

func (v *View) key(k *Kind) key {
	capabilities := dragoman.Member(v.Meta, metaCapabilities)
	extensions, kept := extensionsOf(capabilities)
	if !kept {
		sum := sha256.Sum256(dragoman.Member(capabilities, "extensions"))
		extensions = string(sum[:])
	}
	return key{callerKey(v.Caller), k.Method, extensions, v.Session}
}

// KnownTools returns the list of tools that a caller has had in the last hour, or nil.
func (c *Catalog) KnownTools(v View) *List {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.sharedFor(&v, kinds[0]); e != nil {
		return e.list
	}
	if o := c.callers[v.key(kinds[0])]; o != nil && o.list != nil && time.Since(o.at) < rememberFor {
		return o.list
	}
	return nil
}

// sharedFor returns the shared list that is a caller's too, or nil. The caller holds mu.
func (c *Catalog) sharedFor(v *View, k *Kind) *entry {
	e := c.shared[k.Method]
	if e == nil || v.Session || e.private || len(c.changed) > 0 && c.changed[callerKey(v.Caller)][k.Note] {
		return nil
	}
	switch extensions, kept := extensionsOf(dragoman.Member(v.Meta, metaCapabilities)); {
	case !kept:
		return nil
	case extensions == "":
		return e
	default:
		if set := c.sets[extensions]; set != nil && set.lists[k.Method] != nil && set.lists[k.Method].entry != nil && !set.lists[k.Method].private {
			return set.lists[k.Method].entry
		}
		return nil
	}
}

// Tools returns the list of tools that a caller gets. If it is not known, server is asked for it. A list of the
// caller's own that is than is fetched again.
func (c *Catalog) Tools(ctx context.Context, v View, than *List, server dragoman.Peer) (*List, error) {
	c.mu.Lock()
	if e := c.sharedFor(&v, kinds[0]); e != nil {
		old := e.known && time.Now().After(e.until)
		c.mu.Unlock()
		if old {
			c.want(kinds[0].Note, false)
		}
		return e.list, nil
	}
	id := v.key(kinds[0])
	if o := c.callers[id]; o != nil && (than == nil || o.list != than) && time.Now().Before(o.fresh) {
		c.mu.Unlock()
		return o.list, o.err
	}
	f := c.flights[id]
	if f == nil {
		f = new(syncs.Flight[*List])
		c.flights[id] = f
	}
	c.mu.Unlock()
	return f.Get(ctx, syncs.OnCaller, func() (*List, error) {
		// The others must not lose the list because this caller leaves.
		ctx, cancel := context.WithTimeout(dragoman.WithCaller(context.WithoutCancel(ctx), v.Caller), ownTimeout)
		defer cancel()
		changes := c.changes.Load()
		result, err := askFor(ctx, v.Meta, server)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.flights, id)
		if e := c.sharedFor(&v, kinds[0]); e != nil && err == nil {
			return e.list, nil // the server has come up meanwhile
		}
		if err == nil && c.changes.Load() != changes {
			return newList(kinds[0], result), nil // it may be an old one already
		}
		return c.keepOwn(id, result, err)
	})
}

// NewerTools is Tools for a caller for whom a list has turned out to be old: a shared one is fetched again too.
func (c *Catalog) NewerTools(ctx context.Context, v View, than *List, server dragoman.Peer) (*List, error) {
	c.mu.Lock()
	shared, fetched := c.sharedFor(&v, kinds[0]) != nil, c.fetched
	c.mu.Unlock()
	if !shared {
		return c.Tools(ctx, v, than, server)
	}
	c.want(kinds[0].Note, false)
	late := time.NewTimer(ownTimeout)
	defer late.Stop()
	select {
	case <-fetched:
	case <-late.C:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return c.Tools(ctx, v, nil, server)
}

// askFor requests the tools on behalf of a caller.
func askFor(ctx context.Context, meta json.RawMessage, server dragoman.Peer) (json.RawMessage, error) {
	req, err := toollist.Request(meta)
	if err != nil {
		return nil, err
	}
	return collect(kinds[0], protocol.Pages(req, func(req *dragoman.Message) (*dragoman.Message, error) { return server.Call(ctx, req, nil) }))
}

// Pass takes a response of the server to a caller's own request for a list, if it is the whole list. What is
// used is kept: tools, and what the server declares to be valid for a while. changes is how many notifications there
// had been before the request: the response may be older than one since.
func (c *Catalog) Pass(v View, changes uint64, req, resp *dragoman.Message) {
	k := KindOf(req.Method())
	if k == nil || resp == nil || resp.IsError() || req.Get("cursor") != nil || resp.Get("nextCursor") != nil || resp.Get(k.Array) == nil {
		return
	}
	if k != kinds[0] && ttlOf(resp.Result()) == 0 {
		return
	}
	v.Meta = req.Get("_meta")
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sharedFor(&v, k) == nil && c.changes.Load() == changes {
		_, _ = c.keepOwn(v.key(k), resp.Result(), nil)
	}
}

// keepOwn keeps a caller's own list, or the error of fetching it. The caller holds mu.
func (c *Catalog) keepOwn(id key, result json.RawMessage, err error) (*List, error) {
	now := time.Now()
	before, o := c.callers[id], &own{err: err, at: now, fresh: now.Add(fresh)}
	switch e, refused := errors.AsType[*dragoman.Error](err); {
	case err == nil:
		o.until = now.Add(ttlOf(result))
		if o.until.After(o.fresh) {
			o.fresh = o.until
		}
		c.adopt(o, before, id, result)
	case before != nil && before.list != nil && now.Sub(before.at) < rememberFor:
		return before.list, nil // it is better than none
	case refused && !protocol.IsGatewayError(e):
		o.fresh = now.Add(refusedFor)
	default:
		return nil, err
	}
	c.drop(id)
	if o.size <= MaxBytes {
		if len(c.callers) >= MaxCallers || c.size+o.size > MaxCallerBytes {
			clear(c.callers)
			c.size = 0
		}
		c.callers[id] = o
		c.size += o.size
	}
	return o.list, o.err
}

// adopt sets the list of o: the one before, or the shared one, if that is the same. The caller holds mu.
func (c *Catalog) adopt(o, before *own, id key, result json.RawMessage) {
	if before != nil && before.list.equals(result) {
		o.list, o.size = before.list, before.size
		return
	}
	k := KindOf(id.method)
	if e := c.shared[id.method]; e != nil && !e.private && bytes.Equal(e.list.array(), dragoman.Member(result, k.Array)) {
		o.list = e.list
		return
	}
	o.list, o.size = newList(k, slices.Clone(result)), len(result)
}

// drop forgets a list. The caller holds mu.
func (c *Catalog) drop(id key) {
	if o := c.callers[id]; o != nil {
		c.size -= o.size
		delete(c.callers, id)
	}
}

// forget forgets the lists that a notification is about: those of a caller, or of all if that is nil. The caller holds mu.
func (c *Catalog) forget(whose *dragoman.Caller, note string) {
	for id := range maps.Keys(c.callers) {
		if KindOf(id.method).Note == note && (whose == nil || id.caller == callerKey(whose)) {
			c.drop(id)
		}
	}
}
