package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// MetaCached marks a list that is the last one known of a server that is away.
const MetaCached = "dragoman/cached"

// A kind is a list that a server has.
type kind struct {
	method, member string
	capability     string
	note           string // tells that it has changed
}

var kinds = []kind{
	{protocol.MethodListTools, "tools", "tools", protocol.NoteToolsChanged},
	{protocol.MethodListPrompts, "prompts", "prompts", protocol.NotePromptsChanged},
	{protocol.MethodListResources, "resources", "resources", protocol.NoteResourcesChanged},
	{protocol.MethodListTemplates, "resourceTemplates", "resources", protocol.NoteResourcesChanged},
}

// kindOf returns the list that a method asks for, and whether there is one.
func kindOf(method string) (kind, bool) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.method == method })
	if i < 0 {
		return kind{}, false
	}
	return kinds[i], true
}

// isKept reports whether a method's answers are kept.
func isKept(method string) bool {
	_, list := kindOf(method)
	return list || method == protocol.MethodDiscover
}

// An offer is an answer of the server that is kept: all its pages as one result, each
// element as it came.
type offer struct {
	result  json.RawMessage
	count   int       // elements
	until   time.Time // the server says that it is good for so long
	known   bool      // the server has given it to this process, it is not from the store
	private bool      // each caller may have another, by the server's word; a process has no callers to tell apart
}

// A failure is why a list could not be fetched.
type failure struct {
	err   error
	until time.Time // who wants the list then has it asked for again
}

// lists is what is known of what a server offers: the lists of our own conversation
// with it, which everybody is given. Who has a session that says that its lists have
// changed is given its own.
type lists struct {
	dirty   chan struct{} // holds one token when wanted is not empty
	changed broadcast     // fired when a list was fetched, or could not be

	process bool // the server is one, of which callers have their own

	mu     sync.Mutex
	offers map[string]*offer  // by method; what is nil is not known
	wanted map[string]bool    // notes of kinds that are to be fetched; true if that is to be told in any case
	failed map[string]failure // what could not be fetched since the last start, by method
	modern bool
	serves map[string]bool            // capabilities; nil if they are not known
	own    map[string]map[string]bool // by caller, notes of lists that its own session has changed
	sets   map[string]*extensionSet   // by the extensions of clients
	seen   map[string]*observed       // by method, of a server with which we have no conversation
}

// observed is how long the lists are that clients have received.
type observed struct {
	count int
	known bool   // count is that of a whole list
	sum   int    // elements of the pages before cursor
	next  string // cursor of the page that sum leads to
}

// maxOwn is how many callers are known to have lists of their own.
const maxOwn = 1024

func newLists(process bool) *lists {
	return &lists{
		process: process, dirty: make(chan struct{}, 1), offers: make(map[string]*offer), wanted: make(map[string]bool),
		failed: make(map[string]failure), own: make(map[string]map[string]bool), sets: make(map[string]*extensionSet),
	}
}

// learn takes the result of server/discover.
func (l *lists) learn(result json.RawMessage, modern bool) {
	var caps map[string]json.RawMessage
	_ = json.Unmarshal(dragoman.Member(result, "capabilities"), &caps) // what cannot be read is not served
	l.mu.Lock()
	defer l.mu.Unlock()
	l.modern = modern
	l.serves = make(map[string]bool)
	for name := range caps {
		l.serves[name] = true
	}
	l.put(protocol.MethodDiscover, result, 0)
}

// newOffer makes an offer of a result, which says how long it is good for. The caller holds mu.
func (l *lists) newOffer(result json.RawMessage, count int) *offer {
	v := &offer{result: slices.Clone(result), count: count, known: true}
	if l.modern {
		v.private = !l.process && string(dragoman.Member(result, "cacheScope")) != `"public"`
		v.until = time.Now().Add(ttlOf(result))
	} else {
		v.until = time.Now().Add(ListAge)
	}
	return v
}

// put keeps a result. It reports whether it is another than before. The caller holds mu.
func (l *lists) put(method string, result json.RawMessage, count int) bool {
	old := l.offers[method]
	v := l.newOffer(result, count)
	l.offers[method] = v
	delete(l.failed, method)
	return old == nil || !bytes.Equal(old.result, v.result)
}

// keep is put for who does not hold mu.
func (l *lists) keep(method string, result json.RawMessage, count int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.put(method, result, count)
}

// ttlOf returns how long a result is good for, by its own word.
func ttlOf(result json.RawMessage) time.Duration {
	ms, err := strconv.ParseFloat(string(dragoman.Member(result, "ttlMs")), 64)
	if err != nil || ms <= 0 {
		return 0
	}
	return time.Duration(min(ms, float64(24*time.Hour/time.Millisecond))) * time.Millisecond
}

// want has lists fetched again: those that a note is about. tell says to tell others
// of it in any case; else they are told if the lists are others than before.
func (l *lists) want(note string, tell bool) {
	l.mu.Lock()
	l.wanted[note] = l.wanted[note] || tell
	l.mu.Unlock()
	select {
	case l.dirty <- struct{}{}:
	default:
	}
}

// take returns what is wanted, which is wanted no more.
func (l *lists) take() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	wanted := l.wanted
	l.wanted = make(map[string]bool)
	return wanted
}

// begin has all lists fetched that a server has which was started.
func (l *lists) begin() {
	l.mu.Lock()
	clear(l.failed)
	clear(l.own)
	clear(l.sets)
	serves := l.serves
	l.mu.Unlock()
	for _, k := range kinds {
		if serves == nil || serves[k.capability] {
			l.want(k.note, false)
		}
	}
}

// differs notes that a caller's own session has changed a list.
func (l *lists) differs(caller, note string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.own) >= maxOwn {
		clear(l.own)
	}
	if l.own[caller] == nil {
		l.own[caller] = make(map[string]bool)
	}
	l.own[caller][note] = true
}

// count returns how many elements a list has, and whether it is of this life of the
// server.
func (l *lists) count(method string) (n int, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v := l.offers[method]; v != nil {
		return v.count, v.known
	}
	return 0, false
}

// observe counts the elements of a list that a client has received. Pages are added up as long as they
// come one after another.
func (l *lists) observe(req, resp *dragoman.Message) {
	k, ok := kindOf(req.Method())
	if !ok || resp == nil || resp.IsError() {
		return
	}
	array, n := resp.Get(k.member), 0
	if array == nil {
		return
	}
	for range dragoman.Items(array) {
		n++
	}
	cursor, _ := dragoman.Text(req.Get("cursor"))
	next, more := dragoman.Text(resp.Get("nextCursor"))
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.seen[k.method]
	if o == nil {
		if l.seen == nil {
			l.seen = make(map[string]*observed)
		}
		o = &observed{}
		l.seen[k.method] = o
	}
	switch {
	case cursor == "":
		o.sum = n
	case cursor == o.next:
		o.sum += n
	default:
		return
	}
	o.next = next
	if len(next) > maxCursor {
		o.next = "" // its next page is not counted
	}
	if !more {
		o.count, o.known = o.sum, true
	}
}

// maxCursor is how long a cursor may be whose page is counted.
const maxCursor = 1024

// countObserved sets the counts of a status to the lists that clients have received. It reports whether
// there are any.
func (l *lists) countObserved(s *Status) (some bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for method, count := range map[string]*int{protocol.MethodListTools: &s.Tools, protocol.MethodListPrompts: &s.Prompts, protocol.MethodListResources: &s.Resources} {
		if o := l.seen[method]; o != nil && o.known {
			*count, some = o.count, true
		}
	}
	return some
}

// A reading is what can be said of a list.
type reading struct {
	offer *offer
	pass  bool  // the caller has one of its own: the server is to be asked
	none  bool  // the server has no such list
	err   error // it could not be fetched
	old   bool  // it should be asked for again
}

// read looks a list up for a caller.
func (l *lists) read(caller, method string) reading {
	k, _ := kindOf(method)
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.offers[method]
	switch {
	case v != nil && (v.private || l.own[caller][k.note]):
		return reading{offer: v, pass: true}
	case v != nil:
		return reading{offer: v, old: v.known && time.Now().After(v.until)}
	case l.serves != nil && !l.serves[k.capability]:
		return reading{none: true}
	}
	f := l.failed[method]
	return reading{err: f.err, old: f.err != nil && !time.Now().Before(f.until)}
}

// list answers a request for a list out of what is known of the server. A list that is
// not known yet is waited for, for a little while. It returns nil if the server itself
// is to be asked.
func (u *Upstream) list(ctx context.Context, req *dragoman.Message) (*dragoman.Message, error) {
	method := req.Method()
	if !isKept(method) || !u.supervisor.supervised || !protocol.IsModern(req) || !plain(req) {
		return nil, nil
	}
	if _, err := protocol.ReadEnvelope(req); err != nil {
		return nil, nil //nolint:nilerr // era says what is wrong
	}
	extensions, kept := "", true
	if method != protocol.MethodDiscover {
		extensions, kept = extensionsOf(req)
	}
	caller := callerOf(dragoman.CallerOf(ctx))
	u.supervisor.hurry()
	var late <-chan time.Time
	for {
		fetched, changed := u.lists.changed.wait(), u.supervisor.changed.wait()
		state, since := u.supervisor.current()
		away := state != Ready && state != Degraded
		r := u.lists.read(caller, method)
		if r.old && !away {
			k, _ := kindOf(method)
			u.lists.want(k.note, false)
		}
		switch {
		case r.offer != nil && away:
			return u.lists.reply(req, r.offer, true)
		case r.pass, r.offer != nil && !kept:
			return nil, nil
		case r.offer != nil && extensions != "":
			return u.listExtended(ctx, req, extensions, r.offer)
		case r.offer != nil:
			return u.lists.reply(req, r.offer, false)
		case r.none && !away && method != protocol.MethodDiscover:
			return req.Fail(&dragoman.Error{Code: protocol.CodeMethodNotFound, Message: "method not found: " + method + "; the server has no such list"}), nil
		case r.err != nil && !away:
			return req.Fail(protocol.Unavailable(r.err)), nil
		case state == BackingOff && u.supervisor.refusesLists():
			return req.Fail(u.supervisor.unavailable()), nil
		}
		if late == nil {
			wait := MaxListWait
			if state == Starting {
				wait -= time.Since(since) // all who come meanwhile wait once, not each of them anew
			}
			late = time.After(max(wait, 0))
		}
		u.supervisor.want()
		select {
		case <-fetched:
		case <-changed:
		case <-late:
			return req.Fail(u.supervisor.unavailable()), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// reply answers by a list. One of a server that is away is marked.
func (l *lists) reply(req *dragoman.Message, v *offer, away bool) (*dragoman.Message, error) {
	resp, err := req.Reply(v.result)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	modern := l.modern
	l.mu.Unlock()
	switch {
	case away:
		return resp.Edit().Set("ttlMs", []byte("0")).SetMeta(MetaCached, []byte("true")).Message()
	case modern:
		return resp.Edit().Set("ttlMs", strconv.AppendInt(nil, max(time.Until(v.until), 0).Milliseconds(), 10)).Message()
	}
	return resp, nil
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

// refresh fetches the lists that are wanted, and tells others of those that have
// changed. Those that are each caller's own are not fetched a second time.
func (u *Upstream) refresh(ctx context.Context) {
	tell := u.lists.take()
	for _, k := range kinds {
		if _, ok := tell[k.note]; !ok {
			continue
		}
		u.lists.mu.Lock()
		v := u.lists.offers[k.method]
		private := v != nil && v.known && v.private
		u.lists.mu.Unlock()
		if private {
			continue
		}
		changed, err := u.fetch(ctx, k)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			u.log.Warn("a list cannot be had", "method", k.method, "error", u.redactError(err))
			u.lists.mu.Lock()
			u.lists.failed[k.method] = failure{err, time.Now().Add(listRetry)}
			u.lists.mu.Unlock()
		}
		tell[k.note] = tell[k.note] || changed
	}
	u.lists.changed.fire()
	u.save()
	for _, note := range []string{protocol.NoteToolsChanged, protocol.NotePromptsChanged, protocol.NoteResourcesChanged} {
		if tell[note] {
			u.lists.outdate(note)
			u.service.changes.Publish(subscription.ListChanged(note))
		}
	}
}

// fetch gets all pages of a list. It reports whether it is another than before.
func (u *Upstream) fetch(ctx context.Context, k kind) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	result, count, err := collect(k, u.supervisor.client.Pages(ctx, k.method))
	if err != nil {
		return false, err
	}
	return u.lists.keep(k.method, result, count), nil
}

// collect makes one result of all pages of a list, which has no elements if the server does
// not have it.
func collect(k kind, pages iter.Seq2[*dragoman.Message, error]) (result json.RawMessage, count int, err error) {
	var (
		first  *dragoman.Message
		merged = []byte("[")
	)
	for resp, err := range pages {
		if e := refusalOf(err); e != nil && e.Code == protocol.CodeMethodNotFound { // it has no such list
			return json.RawMessage(`{"resultType":"complete","` + k.member + `":[]}`), 0, nil
		}
		if err != nil {
			return nil, 0, reasonOf(err)
		}
		if first == nil {
			first = resp
		}
		elements := resp.Get(k.member)
		for _, element := range dragoman.Items(elements) {
			if count++; count > 1 {
				merged = append(merged, ',')
			}
			merged = append(merged, element...)
		}
		if len(merged) > MaxListBytes {
			return nil, 0, fmt.Errorf("upstream: the list has more than %d bytes", MaxListBytes)
		}
	}
	whole, err := first.Edit().Set(k.member, append(merged, ']')).Drop("nextCursor").Message()
	if err != nil {
		return nil, 0, fmt.Errorf("upstream: the list cannot be read: %w", err)
	}
	return whole.Result(), count, nil
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

// changed takes what a conversation of somebody's tells of changed lists.
func (u *Upstream) changed(whose *dragoman.Caller, note string) {
	switch {
	case !u.supervisor.supervised:
		u.service.changes.Publish(subscription.ListChanged(note)) // each caller has lists of its own
		return
	case whose != nil && whose != ownCaller && !u.set.sessionsShare:
		u.lists.differs(callerOf(whose), note)
	}
	u.lists.want(note, true)
}

// callerOf tells callers apart who may have sessions of their own with the server.
func callerOf(c *dragoman.Caller) string { return c.Key() + "\x00" + c.Session }

// listsKind is the kind of the records of lists.
const listsKind = "lists/"

// save writes the lists to the store, except those that are each caller's own.
func (u *Upstream) save() {
	text := []byte("{")
	u.lists.mu.Lock()
	for method, v := range u.lists.offers {
		if v.private {
			continue
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(strconv.AppendQuote(text, method), ':')
		text = append(text, v.result...) // as it came, which json.Marshal would change
	}
	u.lists.mu.Unlock()
	if _, err := u.manager.opts.Store.Put(context.Background(), listsKind+u.name+"-"+u.digest, append(text, '}'), eventlog.AnyRevision); err != nil {
		u.log.Warn("the lists cannot be kept beyond the life of this process", "error", err)
	}
}

// load reads the lists from the store.
func (u *Upstream) load() {
	text, revision, err := u.manager.opts.Store.Get(context.Background(), listsKind+u.name+"-"+u.digest)
	if err != nil {
		u.log.Warn("the lists of an earlier process cannot be read", "error", err)
	}
	var record map[string]json.RawMessage
	if revision == 0 || err != nil || json.Unmarshal(text, &record) != nil {
		return
	}
	u.lists.mu.Lock()
	defer u.lists.mu.Unlock()
	for method, result := range record {
		if !isKept(method) || !dragoman.IsObject(result) {
			continue
		}
		v := &offer{result: result}
		if k, ok := kindOf(method); ok {
			for range dragoman.Items(dragoman.Member(result, k.member)) {
				v.count++
			}
		}
		u.lists.offers[method] = v
	}
}
