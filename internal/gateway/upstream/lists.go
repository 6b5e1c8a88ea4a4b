package upstream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/gateway/catalog"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/internal/wire/toollist"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// newCatalog makes the catalog of the server's lists.
func (u *Upstream) newCatalog(process bool) *catalog.Catalog {
	o := &u.manager.opts
	return catalog.New(&catalog.Options{
		Process: process, Pages: u.pages, Ask: u.askExtended, Start: u.startFetch, Announce: func(note string) { u.service.changes.Publish(subscription.ListChanged(note)) },
		Name: o.Name, Version: o.Version, Store: o.Store, Key: u.name + "-" + u.digest, Log: u.log, Redact: u.redactError,
	})
}

// pages requests a list on the supervisor's connection. An error that says why there is no response is without
// the words of our client.
func (u *Upstream) pages(ctx context.Context, method string) iter.Seq2[*dragoman.Message, error] {
	return func(yield func(*dragoman.Message, error) bool) {
		for resp, err := range u.supervisor.client.Pages(ctx, method) {
			if e := refusalOf(err); e != nil {
				err = e
			} else if err != nil {
				err = reasonOf(err)
			}
			if !yield(resp, err) {
				return
			}
		}
	}
}

// extendedCaller is the caller of requests for lists with extensions. The end of its sessions
// is no failure of the server.
var extendedCaller = &dragoman.Caller{Principal: ownCaller.Principal, Client: "extensions"}

// askExtended makes a request as a client with extensions.
func (u *Upstream) askExtended(req *dragoman.Message, timeout time.Duration) (*dragoman.Message, error) {
	ctx, cancel := context.WithTimeout(dragoman.WithCaller(u.supervisor.ctx, extendedCaller), timeout)
	defer cancel()
	return u.supervisor.server.Main().Call(ctx, req, nil)
}

// startFetch runs a function that uses the server.
func (u *Upstream) startFetch(f func()) bool {
	s := u.supervisor
	return s.spawn(func() {
		s.enter()
		defer s.leave()
		f()
	})
}

// List returns the list that a request asks for as its caller gets it, or nil if the server itself is to be asked. A
// list that is not known yet is waited for, for a little while. The error is a *dragoman.Error if it is the response.
func (u *Upstream) List(ctx context.Context, req *dragoman.Message) (*catalog.Offer, error) {
	method := req.Method()
	if !catalog.IsCached(method) || u.shut() != nil || !u.supervisor.supervised || !protocol.IsModern(req) || !plain(req) {
		return nil, nil //nolint:nilerr // of a shut upstream, the request itself gets the error
	}
	if _, err := protocol.ReadEnvelope(req); err != nil {
		return nil, nil //nolint:nilerr // era returns the error
	}
	caller := u.keyed(protocol.Named(dragoman.CallerOf(ctx), req))
	u.supervisor.hurry()
	var late <-chan time.Time
	for {
		fetched, changed := u.catalog.Fetched(), u.supervisor.changed.wait()
		if u.draining.Load() {
			return nil, nil // the request goes to the upstream that replaces this one
		}
		state, since := u.supervisor.current()
		available := state == Ready || state == Degraded
		r := u.catalog.Read(caller, req, available)
		switch {
		case r.Pass:
			return nil, nil
		case r.Offer != nil:
			return u.catalog.Extended(ctx, r)
		case r.None && available:
			return nil, &dragoman.Error{Code: protocol.CodeMethodNotFound, Message: "method not found: " + method + "; the server has no such list"}
		case r.Err != nil && available:
			return nil, protocol.Unavailable(r.Err)
		case state == BackingOff && u.supervisor.refusesLists():
			return nil, u.supervisor.unavailable()
		}
		if late == nil {
			wait := MaxListWait
			if state == Starting {
				wait -= time.Since(since) // all requests that arrive meanwhile wait once, not one after another
			}
			late = time.After(max(wait, 0))
		}
		u.supervisor.want()
		select {
		case <-fetched:
		case <-changed:
		case <-late:
			return nil, u.supervisor.unavailable()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// plain reports whether a request asks for a list from its beginning, and for nothing
// else.
func plain(req *dragoman.Message) bool {
	for name, value := range dragoman.Members(req.Params()) {
		if name != "_meta" && string(value) != "null" {
			return false
		}
	}
	return true
}

// KnownTools returns the list of tools that a caller has had, or nil.
func (u *Upstream) KnownTools(v catalog.View) *catalog.List {
	v.Caller = u.keyed(v.Caller)
	return u.catalog.KnownTools(v)
}

// Tools returns the list of tools of a caller. If it is not known, server is asked for it. A list
// of the caller's own that is than is fetched again.
func (u *Upstream) Tools(ctx context.Context, v catalog.View, than *catalog.List, server dragoman.Peer) (*catalog.List, error) {
	v.Caller = u.keyed(v.Caller)
	return u.catalog.Tools(ctx, v, than, server)
}

// A toolLister is the local peer of a connection to the server, for a transport that needs the list of tools.
type toolLister struct {
	dragoman.Peer
	up *Upstream
}

// Unwrap returns the local peer itself.
func (l toolLister) Unwrap() dragoman.Peer { return l.Peer }

// ToolList implements toollist.Lister. What the server sees of a call depends on the list, so if it does not fit,
// a new one is waited for.
func (l toolLister) ToolList(ctx context.Context, caller *dragoman.Caller, meta json.RawMessage, _ string, than *toollist.List) (*toollist.List, error) {
	u, v := l.up, catalog.View{Caller: cmp.Or(caller, dragoman.CallerOf(ctx)), Meta: meta}
	list := u.KnownTools(v)
	var err error
	switch {
	case list == nil:
		list, err = u.Tools(ctx, v, nil, u.supervisor.requests)
	case list.Tools() == than:
		v.Caller = u.keyed(v.Caller)
		list, err = u.catalog.NewerTools(ctx, v, list, u.supervisor.requests)
	}
	if err != nil {
		return nil, err
	}
	return list.Tools(), nil
}

// refusalOf returns the error by which the server has answered a request of our own. It
// is nil if there is no answer, whatever is said about that.
func refusalOf(err error) *dragoman.Error {
	e, answered := errors.AsType[*dragoman.Error](err)
	if _, lost := errors.AsType[*client.Error](err); lost || !answered {
		return nil
	}
	return e
}

// reasonOf returns why a request of our own has failed, without our client's words.
func reasonOf(err error) error {
	if e, ok := errors.AsType[*client.Error](err); ok && e.Err != nil {
		return e.Err
	}
	return err
}

// changed takes a notification of changed lists, on a session of a caller or of the supervisor.
func (u *Upstream) changed(whose *dragoman.Caller, note string) {
	if whose == ownCaller || u.set.sessionsShare {
		whose = nil
	}
	u.catalog.Changed(u.supervisor.supervised, whose, note)
}
