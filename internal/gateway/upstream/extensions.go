package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Limits of lists for clients that declare extensions. Beyond them, such a list is asked for
// in the client's own session.
const (
	// MaxExtensionSets is for how many sets of extensions lists are kept, and
	// extensionIdle how long one must be unused before it gives way to another.
	MaxExtensionSets = 8
	extensionIdle    = 10 * time.Minute

	// maxExtensions is how long the text of a set may be, and maxExtendedList how long
	// a list for one.
	maxExtensions   = 4 << 10
	maxExtendedList = 4 << 20

	// extensionWait is how long a request waits for a list that is not known. Then it
	// gets the list for clients without extensions, and a notification later.
	extensionWait = MaxListWait / 2

	// extensionRetry is the wait after such a list could not be fetched, as when the
	// server may have no other session.
	extensionRetry = time.Minute
)

// An extensionSet is what is known of a server's lists for clients that declare some
// extensions: a server may list other tools to a client that shows apps.
type extensionSet struct {
	used  time.Time
	lists map[string]*extendedList // by method
}

// An extendedList is one of these lists. It is guarded by lists.mu.
type extendedList struct {
	offer    *offer
	large    bool          // it is not kept
	outdated bool          // the server has notified that it has changed
	retry    time.Time     // nothing is fetched before, after a failure
	fetching chan struct{} // closed when it is not being fetched any more; nil if it is not
	given    *offer        // the list that clients received instead meanwhile, or nil
}

// extensionsOf returns the extensions that the client of a request declares, in canonical
// form and without tasks, which say nothing about lists. It is "" if there are none. ok is
// false if lists are not kept for them.
func extensionsOf(req *dragoman.Message) (text string, ok bool) {
	value := dragoman.Member(req.Meta(protocol.MetaClientCapabilities), "extensions")
	if len(value) <= len("{}") {
		return "", true
	}
	if len(value) > maxExtensions {
		return "", false
	}
	var all map[string]any
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	if d.Decode(&all) != nil {
		return "", true // what is no object declares nothing
	}
	if delete(all, protocol.ExtensionTasks); len(all) == 0 {
		return "", true
	}
	sorted, err := json.Marshal(all)
	return string(sorted), err == nil
}

// extended returns the list for a set of extensions, or nil if there are too many sets. The
// caller holds mu.
func (l *lists) extended(extensions, method string) *extendedList {
	set := l.sets[extensions]
	if set == nil {
		if len(l.sets) >= MaxExtensionSets {
			oldest, unused := "", time.Now().Add(-extensionIdle)
			for text, s := range l.sets {
				if s.used.Before(unused) {
					oldest, unused = text, s.used
				}
			}
			if oldest == "" {
				return nil
			}
			delete(l.sets, oldest)
		}
		set = &extensionSet{lists: make(map[string]*extendedList)}
		l.sets[extensions] = set
	}
	set.used = time.Now()
	if set.lists[method] == nil {
		set.lists[method] = new(extendedList)
	}
	return set.lists[method]
}

// outdate marks the lists as changed that a notification is about.
func (l *lists) outdate(note string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, set := range l.sets {
		for method, e := range set.lists {
			if k, _ := kindOf(method); k.note == note {
				e.outdated = true
			}
		}
	}
}

// listExtended answers a request for a list by a client with extensions. plain is the list
// for clients without any. It returns nil if the server itself is to be asked.
func (u *Upstream) listExtended(ctx context.Context, req *dragoman.Message, extensions string, plain *offer) (*dragoman.Message, error) {
	l := u.lists
	late := time.NewTimer(extensionWait)
	defer late.Stop()
	waited := false
	for {
		l.mu.Lock()
		e := l.extended(extensions, req.Method())
		if e == nil || e.large || e.offer != nil && e.offer.private {
			l.mu.Unlock()
			return nil, nil
		}
		known := e.offer != nil && !e.outdated
		if now := time.Now(); (!known || now.After(e.offer.until)) && e.fetching == nil && !now.Before(e.retry) {
			u.fetchExtended(req.Method(), extensions, e)
		}
		given, fetching := e.offer, e.fetching
		if given == nil {
			given = plain
		}
		wait := !known && fetching != nil && !waited
		if !known && fetching != nil && !wait {
			e.given = given
		}
		l.mu.Unlock()
		if !wait {
			return l.reply(req, given, false)
		}
		select {
		case <-fetching:
		case <-late.C:
			waited = true
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// extendedCaller is the caller of requests for lists with extensions. The end of its sessions
// is no failure of the server.
var extendedCaller = &dragoman.Caller{Principal: ownCaller.Principal, Client: "extensions"}

// fetchExtended begins to fetch a list with extensions. The caller holds lists.mu.
func (u *Upstream) fetchExtended(method, extensions string, e *extendedList) {
	done := make(chan struct{})
	s := u.supervisor
	// Ends after listTimeout, or when the supervisor is closed.
	if !s.spawn(func() {
		k, _ := kindOf(method)
		s.enter()
		result, count, err := u.askExtended(k, extensions)
		s.leave()
		u.lists.mu.Lock()
		old := e.given
		if old == nil {
			old = e.offer
		}
		e.fetching, e.given = nil, nil
		changed := false
		switch {
		case err != nil:
			u.log.Debug("list for extensions not fetched", "method", method, "error", u.redactError(err))
			e.retry = time.Now().Add(extensionRetry)
		case len(result) > maxExtendedList:
			e.large, e.offer = true, nil
		default:
			e.offer, e.outdated = u.lists.newOffer(result, count), false
			changed = old != nil && !bytes.Equal(old.result, e.offer.result)
		}
		u.lists.mu.Unlock()
		close(done)
		if changed {
			u.service.changes.Publish(subscription.ListChanged(k.note))
		}
	}) {
		return
	}
	e.fetching = done
}

// askExtended asks the server for a list, as a client with these extensions.
func (u *Upstream) askExtended(k kind, extensions string) (result json.RawMessage, count int, err error) {
	ctx, cancel := context.WithTimeout(dragoman.WithCaller(u.supervisor.ctx, extendedCaller), listTimeout)
	defer cancel()
	opts := &u.manager.opts
	info, err := json.Marshal(map[string]string{"name": opts.Name, "version": opts.Version})
	if err != nil {
		return nil, 0, err
	}
	req, err := dragoman.NewRequest(dragoman.StringID("list"), k.method, nil)
	if err == nil {
		req, err = protocol.Envelope{
			Version: protocol.Latest.String(), Capabilities: json.RawMessage(`{"extensions":` + extensions + `}`), Client: info,
		}.Put(req)
	}
	if err != nil {
		return nil, 0, err
	}
	peer := u.supervisor.server.Main()
	return collect(k, protocol.Pages(req, func(req *dragoman.Message) (*dragoman.Message, error) { return peer.Call(ctx, req, nil) }))
}
