package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Limits of lists for clients that declare extensions. Beyond them, such a list is requested
// in the client's own session.
const (
	// MaxExtensionSets is for how many sets of extensions lists are kept, and
	// ExtensionIdle how long one must be unused before it gives way to another.
	MaxExtensionSets = 8
	ExtensionIdle    = 10 * time.Minute

	// MaxExtensions is how long the text of a set may be, and maxExtendedList how long
	// a list for one.
	MaxExtensions   = 4 << 10
	maxExtendedList = 4 << 20

	// ExtensionWait is how long a request waits for a list that is not known. Then it
	// gets the list for clients without extensions, and a notification later.
	ExtensionWait = 2 * time.Second

	// ExtensionRetry is the wait after such a list could not be fetched, as when the
	// server may have no other session.
	ExtensionRetry = time.Minute
)

// metaCapabilities is the member of _meta in which a client declares its extensions.
const metaCapabilities = protocol.MetaClientCapabilities

// An extensionSet is what is known of a server's lists for clients that declare some
// extensions: a server may list other tools to a client that shows apps.
type extensionSet struct {
	used  time.Time
	lists map[string]*extendedList // by method
}

// An extendedList is one of these lists. It is guarded by Catalog.mu.
type extendedList struct {
	*entry                 // nil if it is not known
	large    bool          // it is not kept
	outdated bool          // the server has notified that it has changed
	retry    time.Time     // nothing is fetched before, after a failure
	fetching chan struct{} // closed when it is not being fetched any more; nil if it is not
	given    *List         // that clients received instead meanwhile, or nil
}

// extensionsOf returns the extensions among the capabilities of a client, in canonical
// form and without tasks, which say nothing about lists. It is "" without extensions. ok is
// false if lists are not kept for them.
func extensionsOf(capabilities []byte) (text string, ok bool) {
	value := dragoman.Member(capabilities, "extensions")
	if len(value) <= len("{}") {
		return "", true
	}
	if len(value) > MaxExtensions {
		return "", false
	}
	var all map[string]any
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	if d.Decode(&all) != nil {
		return "", true // only an object declares extensions
	}
	if delete(all, protocol.ExtensionTasks); len(all) == 0 {
		return "", true
	}
	sorted, err := json.Marshal(all)
	return string(sorted), err == nil
}

// extended returns the list for a set of extensions, or nil if there are too many sets. The
// caller holds mu.
func (c *Catalog) extended(extensions, method string) *extendedList {
	set := c.sets[extensions]
	if set == nil {
		if len(c.sets) >= MaxExtensionSets {
			oldest, unused := "", time.Now().Add(-ExtensionIdle)
			for text, s := range c.sets {
				if s.used.Before(unused) {
					oldest, unused = text, s.used
				}
			}
			if oldest == "" {
				return nil
			}
			delete(c.sets, oldest)
		}
		set = &extensionSet{lists: make(map[string]*extendedList)}
		c.sets[extensions] = set
	}
	set.used = time.Now()
	if set.lists[method] == nil {
		set.lists[method] = new(extendedList)
	}
	return set.lists[method]
}

// outdate marks the lists as changed that a notification is about.
func (c *Catalog) outdate(note string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, set := range c.sets {
		for method, e := range set.lists {
			if KindOf(method).Note == note {
				e.outdated = true
			}
		}
	}
}

// Extended returns the list of a reading, for the extensions of the client. A list that is not known is
// waited for, for a while. It returns nil if the server itself is to be asked.
func (c *Catalog) Extended(ctx context.Context, r Reading) (*Offer, error) {
	if r.extensions == "" {
		return r.Offer, nil
	}
	late := time.NewTimer(ExtensionWait)
	defer late.Stop()
	waited := false
	for {
		offer, fetching := c.readExtended(r, waited)
		if fetching == nil {
			return offer, nil
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

// readExtended returns the list for a client with extensions, or a channel that is closed when it
// has been fetched, unless the client has waited for that.
func (c *Catalog) readExtended(r Reading, waited bool) (offer *Offer, fetching <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.extended(r.extensions, r.kind.Method)
	if e == nil || e.large || e.entry != nil && e.private {
		return nil, nil
	}
	known := e.entry != nil && !e.outdated
	if now := time.Now(); (!known || now.After(e.until)) && e.fetching == nil && !now.Before(e.retry) {
		c.fetchExtended(r.kind, r.extensions, e)
	}
	given := e.entry
	if given == nil {
		given = r.entry
	}
	if !known && e.fetching != nil {
		if !waited {
			return nil, e.fetching
		}
		e.given = given.list
	}
	return c.offer(given), nil
}

// fetchExtended begins to fetch a list with extensions. The caller holds mu.
func (c *Catalog) fetchExtended(k *Kind, extensions string, e *extendedList) {
	done := make(chan struct{})
	// Ends after fetchTimeout, or when the owner of the catalog is closed.
	if !c.opts.Start(func() {
		result, err := c.askExtended(k, extensions)
		c.mu.Lock()
		old := e.given
		if old == nil && e.entry != nil {
			old = e.list
		}
		e.fetching, e.given = nil, nil
		changed := false
		switch {
		case err != nil:
			c.opts.Log.Debug("list for extensions failed", "method", k.Method, "error", c.opts.Redact(err))
			e.retry = time.Now().Add(ExtensionRetry)
		case len(result) > maxExtendedList:
			e.large, e.entry = true, nil
		default:
			e.entry, e.outdated = c.newEntry(k, result, e.entry), false
			changed = old != nil && !old.equals(result)
		}
		c.mu.Unlock()
		close(done)
		if changed {
			c.opts.Announce(k.Note)
		}
	}) {
		return
	}
	e.fetching = done
}

// askExtended requests a list as a client with these extensions.
func (c *Catalog) askExtended(k *Kind, extensions string) (json.RawMessage, error) {
	late := time.Now().Add(fetchTimeout)
	info, err := json.Marshal(map[string]string{"name": c.opts.Name, "version": c.opts.Version})
	if err != nil {
		return nil, err
	}
	req, err := dragoman.NewRequest(dragoman.StringID("list"), k.Method, nil)
	if err == nil {
		req, err = protocol.Envelope{
			Version: protocol.Latest.String(), Capabilities: json.RawMessage(`{"extensions":` + extensions + `}`), Client: info,
		}.Put(req)
	}
	if err != nil {
		return nil, err
	}
	result, err := collect(k, protocol.Pages(req, func(req *dragoman.Message) (*dragoman.Message, error) { return c.opts.Ask(req, time.Until(late)) }))
	return orNone(k, result, err)
}
