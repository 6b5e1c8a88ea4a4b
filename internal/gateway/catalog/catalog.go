// Package catalog keeps the lists of one server (tools, prompts, resources, resource templates and
// what it answers to server/discover), each parsed once. A [Catalog] owns which list a caller gets:
// the one that all callers share, that for the extensions of its client, or one of its own; for how
// long it is valid; and what is kept of it for the next process. internal/gateway/upstream
// makes one per server and fetches what it wants; the filter with its rules, the checks of headers and
// arguments at endpoints, connections that send headers, and the status ask it.
//
// The shared lists are those of the gateway's own connection. A notification of the server, or an
// age that the server or [Age] sets, has them fetched again. A caller whose own session reports a
// change, or a server that declares its lists private, has lists per caller; so has a
// server without a connection of the gateway's own. They are valid until a notification, or for as
// long as the server declares; the gateway itself goes by them for at least 30 s.
//
// What is offered of a list by a configuration and rules is kept with the list, once for all callers with the
// same grant.
//
// Limits that docs/limits.md does not have:
//
//	list of a legacy server                5 min, then refreshed in the background
//	sets of extensions; a list of one      8; 4 MiB; waited for 2 s, after a failure again in 1 min
//	sessions that have changed a list      1,024, then all get the shared ones
//	lists of callers' own                  1,024, 64 MiB; then fetched again
//	what is offered of a list              to 64 different callers, 16 MiB; then made again
package catalog

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/util/syncs"
)

const (
	// Age is how long the lists of a legacy server are valid, unless it notifies of a change.
	Age = 5 * time.Minute

	// MaxBytes is how large a list may be that is kept.
	MaxBytes = 16 << 20

	// Retry is how long a list that could not be fetched is not requested again.
	Retry = time.Second

	// fetchTimeout bounds the fetching of one list.
	fetchTimeout = 30 * time.Second

	// maxChanged is how many callers are known to have lists of their own.
	maxChanged = 1024
)

// Options say how a catalog gets the lists of its server.
type Options struct {
	// Process says that each connection is a process: what it declares private is the same for
	// all callers.
	Process bool

	// Pages requests a list, on the connection whose lists all callers share.
	Pages func(ctx context.Context, method string) iter.Seq2[*dragoman.Message, error]

	// Ask makes a request on a connection for the extensions that its envelope declares, and
	// Start runs a function that does so.
	Ask   func(req *dragoman.Message, timeout time.Duration) (*dragoman.Message, error)
	Start func(func()) bool

	// Announce is called with the notification for lists that have changed.
	Announce func(note string)

	Name, Version string // of the client that requests lists for extensions

	Store  eventlog.Records
	Key    string // of the record in the store
	Log    *slog.Logger
	Redact func(error) string // for the log
}

// A Catalog keeps the lists of one server. Any number of goroutines may use it.
type Catalog struct {
	opts    Options
	dirty   chan struct{} // holds a token when wanted is not empty
	changes atomic.Uint64 // notifications so far

	mu      sync.Mutex
	fetched chan struct{}              // closed when lists were fetched, or could not be; guarded by mu, as all below
	shared  map[string]*entry          // by method
	wanted  map[string]bool            // notifications of kinds to fetch; true if they are announced in any case
	failed  map[string]failure         // lists that could not be fetched since the last start, by method
	modern  bool                       // the server is of the modern era
	serves  map[string]bool            // capabilities; nil if they are not known
	changed map[string]map[string]bool // by caller, notifications that its own session has sent
	sets    map[string]*extensionSet   // by the extensions of clients
	seen    map[string]*observed       // by method, of a server without shared lists

	callers map[key]*own                 // lists of callers' own
	size    int                          // bytes of callers
	flights map[key]*syncs.Flight[*List] // of callers' lists that are being fetched
}

// An entry is a list that is kept.
type entry struct {
	list    *List
	until   time.Time // it is valid
	known   bool      // this process got it from the server, not from the store
	private bool      // each caller may have another
}

// A failure is why a list could not be fetched.
type failure struct {
	err   error
	until time.Time // it is not requested again
}

// New returns a catalog without lists.
func New(o *Options) *Catalog {
	return &Catalog{
		opts: *o, dirty: make(chan struct{}, 1), fetched: make(chan struct{}), shared: make(map[string]*entry),
		wanted: make(map[string]bool), failed: make(map[string]failure), changed: make(map[string]map[string]bool),
		sets: make(map[string]*extensionSet), seen: make(map[string]*observed), callers: make(map[key]*own), flights: make(map[key]*syncs.Flight[*List]),
	}
}

// Learn takes the result of server/discover.
func (c *Catalog) Learn(result json.RawMessage, modern bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.modern = modern
	c.serves = make(map[string]bool)
	for name := range dragoman.Members(dragoman.Member(result, "capabilities")) {
		c.serves[name] = true
	}
	c.keep(discovery, result)
}

// newEntry returns an entry for a result. old is the list that it replaces, which stays if it is the
// same. The caller holds mu.
func (c *Catalog) newEntry(k *Kind, result json.RawMessage, old *entry) *entry {
	e := &entry{known: true, until: time.Now().Add(Age)}
	if old != nil && old.list.equals(result) {
		e.list = old.list
	} else {
		e.list = newList(k, result)
		e.list.shared = true
	}
	if c.modern {
		e.private = !c.opts.Process && string(dragoman.Member(result, "cacheScope")) != `"public"`
		e.until = time.Now().Add(e.list.ttl)
	}
	return e
}

// keep keeps a result. It reports whether it differs from the one before. The caller holds mu.
func (c *Catalog) keep(k *Kind, result json.RawMessage) bool {
	old := c.shared[k.Method]
	e := c.newEntry(k, result, old)
	c.shared[k.Method] = e
	delete(c.failed, k.Method)
	return old == nil || old.list != e.list
}

// want has the lists fetched again that a notification is about. With announce it is passed on in any case,
// else only if a list has changed.
func (c *Catalog) want(note string, announce bool) {
	c.mu.Lock()
	c.wanted[note] = c.wanted[note] || announce
	c.mu.Unlock()
	select {
	case c.dirty <- struct{}{}:
	default:
	}
}

// Begin has all lists fetched that a server has that was started.
func (c *Catalog) Begin() {
	c.mu.Lock()
	clear(c.failed)
	clear(c.changed)
	clear(c.sets)
	serves := c.serves
	c.mu.Unlock()
	for _, k := range kinds {
		if serves == nil || serves[k.Capability] {
			c.want(k.Note, false)
		}
	}
}

// Dirty returns a channel that receives when [Catalog.Refresh] should be called.
func (c *Catalog) Dirty() <-chan struct{} { return c.dirty }

// Fetched returns a channel that the next Refresh closes.
func (c *Catalog) Fetched() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fetched
}

// Changed takes a notification of the server. supervised says that the server has shared lists. whose is the
// caller on whose own session it came, or nil if it is about the lists of all.
func (c *Catalog) Changed(supervised bool, whose *dragoman.Caller, note string) {
	c.changes.Add(1)
	c.mu.Lock()
	c.forget(whose, note)
	if whose != nil && supervised {
		if len(c.changed) >= maxChanged {
			clear(c.changed)
		}
		caller := callerKey(whose)
		if c.changed[caller] == nil {
			c.changed[caller] = make(map[string]bool)
		}
		c.changed[caller][note] = true
	}
	c.mu.Unlock()
	if supervised {
		c.want(note, true)
	} else {
		c.opts.Announce(note)
	}
}

// Changes returns how many notifications there have been.
func (c *Catalog) Changes() uint64 { return c.changes.Load() }

// Count returns how many elements a shared list has, and whether it is of this life of the server.
func (c *Catalog) Count(method string) (n int, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.shared[method]; e != nil {
		return len(e.list.Elements), e.known
	}
	return 0, false
}

// A Reading is what is known of a list for a caller.
type Reading struct {
	Offer *Offer // nil if nothing is known
	Pass  bool   // the server is to be asked: the caller may have a list of its own
	None  bool   // the server has no such list
	Err   error  // the list could not be fetched

	extensions string
	entry      *entry
	kind       *Kind
}

// Read looks up the list that a request asks for. available says that the server can be asked for a newer one.
func (c *Catalog) Read(caller *dragoman.Caller, req *dragoman.Message, available bool) Reading {
	k, r := keptKind(req.Method()), Reading{}
	extensions, kept := "", true
	if k != discovery {
		extensions, kept = extensionsOf(dragoman.Member(req.Get("_meta"), metaCapabilities))
	}
	r.extensions, r.kind = extensions, k
	old := false
	c.mu.Lock()
	defer func() {
		c.mu.Unlock()
		if old && available && k != discovery {
			c.want(k.Note, false)
		}
	}()
	e := c.shared[k.Method]
	f := c.failed[k.Method]
	now := time.Now()
	switch {
	case e != nil && !available:
		r.Offer = &Offer{List: e.list, Cached: true}
	case e != nil && (e.private || !kept || c.changed[callerKey(caller)][k.Note]):
		r.Pass = true
		if o := c.callers[key{callerKey(caller), k.Method, extensions, false}]; kept && o != nil && now.Before(o.until) {
			r.Offer, r.Pass = &Offer{List: o.list, TTL: o.until.Sub(now)}, false
			r.extensions = ""
		}
	case e != nil:
		old = e.known && now.After(e.until)
		r.Offer, r.entry = c.offer(e), e
	case c.serves != nil && !c.serves[k.Capability] && k != discovery:
		r.None = true
	case f.err != nil:
		r.Err, old = f.err, !now.Before(f.until)
	}
	return r
}

// offer returns an entry of the available server. The caller holds mu.
func (c *Catalog) offer(e *entry) *Offer {
	o := &Offer{List: e.list, TTL: -1}
	if c.modern {
		o.TTL = max(time.Until(e.until), 0)
	}
	return o
}

// Refresh fetches the lists that are wanted, and announces those that have changed.
func (c *Catalog) Refresh(ctx context.Context) {
	c.mu.Lock()
	announce := c.wanted
	c.wanted = make(map[string]bool)
	c.mu.Unlock()
	for _, k := range kinds {
		if _, ok := announce[k.Note]; !ok || c.isPrivate(k) {
			continue
		}
		changed, err := c.fetch(ctx, k)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			c.opts.Log.Warn("list failed", "method", k.Method, "error", c.opts.Redact(err))
			c.mu.Lock()
			c.failed[k.Method] = failure{err, time.Now().Add(Retry)}
			c.mu.Unlock()
		}
		announce[k.Note] = announce[k.Note] || changed
	}
	c.mu.Lock()
	close(c.fetched)
	c.fetched = make(chan struct{})
	c.mu.Unlock()
	c.save()
	for _, note := range notes {
		if announce[note] {
			c.outdate(note)
			c.opts.Announce(note)
		}
	}
}

// isPrivate reports whether a list is each caller's own. It is not fetched a second time.
func (c *Catalog) isPrivate(k *Kind) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.shared[k.Method]
	return e != nil && e.known && e.private
}

// fetch gets all pages of a list. It reports whether it differs from the one before.
func (c *Catalog) fetch(ctx context.Context, k *Kind) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	result, err := collect(k, c.opts.Pages(ctx, k.Method))
	if result, err = orNone(k, result, err); err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keep(k, result), nil
}

// listsKind is the kind of the records of lists.
const listsKind = "lists/"

// save writes the shared lists to the store, except private ones.
func (c *Catalog) save() {
	text := []byte("{")
	c.mu.Lock()
	for method, e := range c.shared {
		if e.private {
			continue
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(strconv.AppendQuote(text, method), ':')
		text = append(text, e.list.result()...) // as it came, which json.Marshal would change
	}
	c.mu.Unlock()
	if _, err := c.opts.Store.Put(context.Background(), listsKind+c.opts.Key, append(text, '}'), eventlog.AnyRevision); err != nil {
		c.opts.Log.Warn("lists are not kept beyond the life of this process", "error", err)
	}
}

// Load reads the shared lists from the store.
func (c *Catalog) Load() {
	text, revision, err := c.opts.Store.Get(context.Background(), listsKind+c.opts.Key)
	if err != nil {
		c.opts.Log.Warn("lists of an earlier process cannot be read", "error", err)
	}
	var record map[string]json.RawMessage
	if revision == 0 || err != nil || json.Unmarshal(text, &record) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for method, result := range record {
		if k := keptKind(method); k != nil && dragoman.IsObject(result) {
			c.shared[method] = &entry{list: newList(k, result)}
			c.shared[method].list.shared = true
		}
	}
}
