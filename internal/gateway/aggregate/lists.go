package aggregate

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/toollist"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// metaMissing names, in the result of a list, the members that have not answered.
const metaMissing = "dragoman/missing"

// list answers a request for a list: what all members have, in their order.
func (a *Aggregate) list(ctx context.Context, r *request, k kind) (*dragoman.Message, error) {
	caller := callerOf(ctx, r.Message)
	if cursor := r.Get("cursor"); cursor != nil && string(cursor) != "null" && string(cursor) != `""` {
		return a.pages.next(r, k, caller, cursor)
	}
	req, err := r.Edit().Drop("cursor").DropMeta(protocol.MetaProgressToken).Message()
	if err != nil {
		return nil, err
	}
	v := r.group.view(caller)
	asked := time.Now()
	members := r.group.members
	changes := make([]uint64, len(members))
	for i, m := range members {
		changes[i] = m.changes[k].Load()
	}
	answers, err := gather(ctx, a, len(members), func(ctx context.Context, i int) (*memberList, error) {
		return a.fetch(ctx, members[i], k, req)
	})
	if err != nil {
		return nil, err
	}
	var missing, cached []string
	s := &snapshot{kind: k, caller: caller, ttl: -1, public: true}
	offers := make([]*offer, len(members))
	for i, m := range members {
		if err := answers[i].err; err != nil {
			if !m.silent[k].Swap(true) { // once, not for everybody who asks
				a.log.Warn("a server is left out of a list", "server", m.Name(), "list", lists[k].method, "error", err)
			}
			v.recordFailure(k, m, asked, changes[i])
			missing = append(missing, m.Name())
			continue
		}
		if m.silent[k].Swap(false) {
			a.log.Info("a server is in a list again", "server", m.Name(), "list", lists[k].method)
		}
		offers[i] = v.record(k, m, answers[i].value.keys, changes[i])
	}
	x := v.indexed(k)
	for i, m := range members {
		if l := answers[i].value; answers[i].err == nil {
			s.narrow(l)
			if l.cached {
				cached = append(cached, m.Name())
			}
			a.offer(s, x, m, offers[i].names, l)
		}
	}
	if s.ttl < 0 || len(missing) > 0 {
		s.ttl, s.public = 0, false // come back soon
	}
	s.meta = a.meta(missing, cached)
	return a.pages.first(r, s)
}

// ToolList implements toollist.Lister: the list for a tool is that of the member that has it. It is empty
// if it cannot be had: the call itself is refused, or the member decides.
func (a *Aggregate) ToolList(ctx context.Context, caller *dragoman.Caller, meta json.RawMessage, name string, _ *toollist.List) (*toollist.List, error) {
	if a.ctx.Err() != nil {
		return nil, dragoman.ErrClosed
	}
	if caller == nil {
		caller = dragoman.CallerOf(ctx)
	}
	if name == "" {
		return a.allTools(ctx, caller, meta)
	}
	g := a.group.Load()
	t, ok := g.view(keyOf(caller, dragoman.Member(meta, protocol.MetaClientCapabilities))).indexed(tools).byName[name]
	if !ok {
		req, err := toollist.Request(meta)
		if err != nil {
			return nil, err
		}
		if t, err = a.find(dragoman.WithCaller(ctx, caller), &request{Message: req, group: g}, tools, name); err != nil {
			return new(toollist.List), nil //nolint:nilerr // the call fails for the same reason
		}
	}
	if lister := toollist.ListerOf(t.Requests()); lister != nil {
		if list, err := lister.ToolList(ctx, caller, meta, t.own, nil); err == nil && list.Tool(t.own) != nil {
			return list.Of(name, list.Tool(t.own)), nil
		}
	}
	return new(toollist.List), nil
}

// allTools returns all tools of all members.
func (a *Aggregate) allTools(ctx context.Context, caller *dragoman.Caller, meta json.RawMessage) (*toollist.List, error) {
	var all toollist.Cache
	return all.Get(ctx, caller, "", meta, func(ctx context.Context, req *dragoman.Message) (*dragoman.Message, error) {
		return a.Call(ctx, req, nil)
	})
}

// meta returns the _meta of a result: who we are, which members have not answered,
// and of which ones it has what they last said.
func (a *Aggregate) meta(missing, cached []string) []byte {
	out := join(`{"`, protocol.MetaServerInfo, `":`, a.info)
	if missing != nil {
		out = join(out, `,"`, metaMissing, `":`, array(missing))
	}
	if cached != nil {
		out = join(out, `,"`, metaCached, `":`, array(cached))
	}
	return append(out, '}')
}

// narrow notes for how long and for whom a member's part holds: the least counts.
func (s *snapshot) narrow(l *memberList) {
	ttl := max(l.ttl, 0)
	if s.ttl < 0 || ttl < s.ttl {
		s.ttl = ttl
	}
	s.public = s.public && l.public
}

// offer adds what a member has, under the names that it has here.
func (a *Aggregate) offer(s *snapshot, x *index, m *member, names []string, l *memberList) {
	for i, own := range l.keys {
		name, element := names[i], l.elements[i]
		if t, ok := x.byName[name]; t != (target{m, own}) {
			if ok { // else a member before this one may have it
				a.logLeftOut(x, s.kind, m, own)
			}
			continue
		}
		if name != own {
			element = dragoman.WithMember(element, lists[s.kind].key, dragoman.Quote(name))
		}
		s.elements = append(s.elements, element)
	}
}

// logLeftOut logs, once, that something is not offered because another member has it
// too.
func (a *Aggregate) logLeftOut(x *index, k kind, m *member, own string) {
	if _, ok := x.logged.LoadOrStore(target{m, own}, true); !ok {
		a.log.Warn("two servers have the same; that of the first is offered", lists[k].noun, own, "left out", m.Name())
	}
}

// result makes the result of one page.
func (s *snapshot) result(from, to int, cursor string) []byte {
	size := 256 + len(s.meta)
	for _, e := range s.elements[from:to] {
		size += len(e) + 1
	}
	scope := "private"
	if s.public {
		scope = "public"
	}
	out := make([]byte, 0, size)
	out = append(out, `{"resultType":"`+protocol.ResultComplete+`","ttlMs":`...)
	out = strconv.AppendInt(out, s.ttl, 10)
	out = append(out, `,"cacheScope":"`+scope+`","`+lists[s.kind].array+`":[`...)
	for i, e := range s.elements[from:to] {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, e...)
	}
	out = append(out, ']')
	if cursor != "" {
		out = append(append(out, `,"nextCursor":`...), dragoman.Quote(cursor)...)
	}
	out = append(append(out, `,"_meta":`...), s.meta...)
	return append(out, '}')
}

// Limits of one member's list. At a limit the rest is left out, and logged.
const (
	MaxElements = 10_000
	MaxBytes    = 16 << 20
)

// metaCached marks the result of a member that is not there and whose last known
// list is served. Ours names those members.
const metaCached = "dragoman/cached"

// A memberList is a member's whole list.
type memberList struct {
	keys     []string // what tells the elements apart
	elements [][]byte // as they came
	ttl      int64    // in milliseconds
	public   bool
	cached   bool
}

var (
	errSlow = errors.New("no answer in time") // ends the wait for a member
	errNone = errors.New("no answer")         // is what a Peer does not do
)

// fetch asks a member for a list, page by page. A member that does not know the
// method, or does not advertise it, has nothing of the kind.
func (a *Aggregate) fetch(ctx context.Context, m *member, k kind, req *dragoman.Message) (*memberList, error) {
	l := &memberList{ttl: -1, public: true}
	if lists[k].needs != nil {
		f, err := m.factsOf(ctx, req)
		if err != nil {
			return nil, err
		}
		if !f.has(k) {
			return &memberList{ttl: f.ttl, public: f.public}, nil
		}
	}
	warn := func(text string, args ...any) {
		a.log.With("server", m.Name(), "list", lists[k].method).Warn(text, args...)
	}
	seen := make(map[string]bool)
	size := 0
	for resp, err := range protocol.Pages(req, func(req *dragoman.Message) (*dragoman.Message, error) {
		return m.Requests().Call(ctx, req, nil)
	}) {
		if e, ok := errors.AsType[*dragoman.Error](err); ok && e.Code == protocol.CodeMethodNotFound {
			return l, nil
		}
		if errors.Is(err, protocol.ErrEndless) {
			warn("the rest of a list is left out", "error", err)
			return l, nil
		}
		if err != nil {
			return nil, err
		}
		l.readHints(resp)
		list := resp.Get(lists[k].array)
		for _, element := range dragoman.Items(list) {
			key := dragoman.MemberText(element, lists[k].key)
			if key == "" || !dragoman.IsObject(element) || seen[key] {
				warn("an element of a list is left out: it has no "+lists[k].key+" of its own", "key", key)
				continue
			}
			if size += len(element); len(l.keys) == MaxElements || size > MaxBytes {
				warn("a list is too long; the rest is left out", "elements", len(l.keys), "bytes", size)
				return l, nil
			}
			seen[key] = true
			l.keys, l.elements = append(l.keys, key), append(l.elements, element)
		}
	}
	return l, nil
}

// readHints takes in how long a page holds and for whom, and whether it is old.
func (l *memberList) readHints(resp *dragoman.Message) {
	var ttl float64
	_ = json.Unmarshal(resp.Get("ttlMs"), &ttl) // what cannot be read is stale at once
	ms := int64(min(max(ttl, 0), float64(24*time.Hour/time.Millisecond)))
	if l.ttl < 0 || ms < l.ttl {
		l.ttl = ms
	}
	scope, _ := dragoman.Text(resp.Get("cacheScope"))
	l.public = l.public && scope == "public"
	l.cached = l.cached || string(resp.Meta(metaCached)) == "true"
}

// An answer is what one member said, or why it did not.
type answer[T any] struct {
	value T
	err   error
}

// gather asks n questions in parallel, for PerMember at most, and returns the answers
// in their order. It never takes longer, even if who is asked does.
func gather[T any](ctx context.Context, a *Aggregate, n int, ask func(ctx context.Context, i int) (T, error)) ([]answer[T], error) {
	answers := make([]answer[T], n)
	ctx, cancel := context.WithTimeoutCause(ctx, a.opts.PerMember, errSlow)
	defer cancel()
	type one struct {
		at int
		answer[T]
	}
	came := make(chan one, n) // has room for all, so that nobody waits for us
	for i := range n {
		answers[i].err = errSlow
		// Ends with the answer, or when ctx does, as a Peer promises.
		if !a.busy.Start(func() {
			v, err := ask(ctx, i)
			came <- one{i, answer[T]{v, err}}
		}) {
			return nil, dragoman.ErrClosed
		}
	}
	for range n {
		select {
		case o := <-came:
			answers[o.at] = o.answer
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(cause, errSlow) {
				return nil, cause
			}
			return answers, nil
		case <-a.ctx.Done():
			return nil, dragoman.ErrClosed
		}
	}
	return answers, nil
}

// Limits of pages. A list that fits on one has no cursor and is not kept.
const (
	// MaxPage and MaxPageBytes are how much one page has.
	MaxPage      = 1000
	MaxPageBytes = 4 << 20

	// MaxSnapshots and MaxSnapshotBytes are how much is kept of lists whose pages
	// are being fetched, and SnapshotTime is for how long. The oldest go first, and
	// their cursors are refused.
	MaxSnapshots     = 256
	MaxSnapshotBytes = 64 << 20
	SnapshotTime     = 5 * time.Minute
)

// A snapshot is a list as it was when its first page was asked for. It does not
// change.
type snapshot struct {
	kind     kind
	caller   string
	elements [][]byte
	ttl      int64
	public   bool
	meta     []byte

	id    string
	size  int
	until time.Time
}

// page returns where the page that begins at from ends.
func (s *snapshot) page(from int) int {
	size := 0
	for i := from; i < len(s.elements); i++ {
		if size += len(s.elements[i]); i > from && (size > MaxPageBytes || i-from == MaxPage) {
			return i
		}
	}
	return len(s.elements)
}

// answer answers a request by the page that begins at from.
func (s *snapshot) answer(r *request, from int) (*dragoman.Message, error) {
	to, cursor := s.page(from), ""
	if to < len(s.elements) {
		cursor = s.id + "." + strconv.Itoa(to)
	}
	return r.Reply(s.result(from, to, cursor))
}

// snapshots are those whose pages are being fetched, oldest first.
type snapshots struct {
	mu   sync.Mutex
	all  []*snapshot // guarded by mu
	size int         // guarded by mu
}

// first answers by the first page, and keeps the snapshot if there are more.
func (p *snapshots) first(r *request, s *snapshot) (*dragoman.Message, error) {
	if s.page(0) < len(s.elements) {
		s.id = rand.Text()
		s.until = time.Now().Add(SnapshotTime)
		for _, e := range s.elements {
			s.size += len(e)
		}
		p.mu.Lock()
		p.all = append(p.all, s)
		p.size += s.size
		for len(p.all) > 1 && (len(p.all) > MaxSnapshots || p.size > MaxSnapshotBytes || time.Now().After(p.all[0].until)) {
			p.size -= p.all[0].size
			p.all[0] = nil
			p.all = p.all[1:]
		}
		p.mu.Unlock()
	}
	return s.answer(r, 0)
}

// next answers by the page that a cursor means. It means one to who was given it,
// and in that list.
func (p *snapshots) next(r *request, k kind, caller string, cursor []byte) (*dragoman.Message, error) {
	text, _ := dragoman.Text(cursor)
	id, number, _ := strings.Cut(text, ".")
	from, err := strconv.Atoi(number)
	if s := p.find(id); err == nil && s != nil && s.kind == k && s.caller == caller && from > 0 && from < len(s.elements) {
		return s.answer(r, from)
	}
	return r.Fail(invalid("params.cursor is not one that this list gave, or it is too old; start over without a cursor")), nil
}

func (p *snapshots) find(id string) *snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.all {
		if s.id == id && time.Now().Before(s.until) {
			return s
		}
	}
	return nil
}
