package aggregate

import (
	"context"
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// MaxCallers is for how many callers, and sessions of theirs, it is kept what
	// they are offered. When there are more, that of one of them is forgotten, and
	// asked for again.
	MaxCallers = 4096

	// MaxLearned is for how many resources outside of all lists it is kept which
	// member has them, for each caller.
	MaxLearned = 1024

	// maxLearnedBytes bounds the length of their URIs.
	maxLearnedBytes = 64 << 10

	// lookAgain is how old a member's list must be before it is asked for again
	// because something is not in it, and tryAgain is how long a member that did not
	// answer is left alone, unless it tells of a change.
	lookAgain = time.Second
	tryAgain  = 10 * time.Second
)

// An offer is what a member offers of a kind. It does not change, and is shared by
// all callers with the same.
type offer struct {
	keys     []string   // the member's own names, or URIs
	names    []string   // what each is called here
	patterns []*pattern // of templates
}

// A view is what is known of what a caller is offered by the members of a group.
type view struct {
	group *group

	mu          sync.Mutex
	callerSlots [numKinds][]callerSlot // by member; guarded by mu
	index       [numKinds]*index       // nil if it has to be made; guarded by mu
	learned     map[string]*member     // who had a resource; guarded by mu
	learnedSize int                    // bytes of their URIs; guarded by mu
}

// A callerSlot is what is known of what one member offers of a kind.
type callerSlot struct {
	offer  *offer        // the last known; nil if none is
	failed bool          // the member has not answered when it was last asked
	at     time.Time     // when it was last asked
	change uint64        // what it had told of changes by then
	asking chan struct{} // holds a token while somebody asks; made when needed
}

// callerOf returns who makes a request, as far as offers may differ: members may
// have sessions for those of our clients, and look at the extensions that a client
// declares.
func callerOf(ctx context.Context, req *dragoman.Message) string {
	return keyOf(dragoman.CallerOf(ctx), req.Meta(protocol.MetaClientCapabilities))
}

// keyOf is callerOf for a client with these capabilities.
func keyOf(who *dragoman.Caller, capabilities []byte) string {
	key := who.View()
	if who.Session != "" {
		key += "\x00" + who.Session
	}
	if extensions := dragoman.Member(capabilities, "extensions"); len(extensions) > len("{}") {
		sum := sha256.Sum256(extensions)
		key += "\x00" + string(sum[:])
	}
	return key
}

// view returns what is known for a caller.
func (g *group) view(caller string) *view {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.views[caller]
	if v == nil {
		if len(g.views) >= MaxCallers {
			for somebody := range g.views {
				delete(g.views, somebody)
				break
			}
		}
		v = &view{group: g, learned: make(map[string]*member)}
		for k := range v.callerSlots {
			v.callerSlots[k] = make([]callerSlot, len(g.members))
		}
		g.views[caller] = v
	}
	return v
}

// offer returns keys as an offer, the one that somebody has already if that is the
// same.
func (g *group) offer(k kind, m *member, keys []string) *offer {
	g.mu.Lock()
	last := g.last[k][m.at]
	g.mu.Unlock()
	if last != nil && slices.Equal(last.keys, keys) {
		return last
	}
	o := &offer{keys: keys, names: g.names(m, k, keys)}
	if k == templates {
		for _, key := range keys {
			o.patterns = append(o.patterns, compile(key))
		}
	}
	g.mu.Lock()
	g.last[k][m.at] = o
	g.mu.Unlock()
	return o
}

// record takes in what a member offers, and returns it. change is what it had told
// of changes when it was asked.
func (v *view) record(k kind, m *member, keys []string, change uint64) *offer {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := &v.callerSlots[k][m.at]
	s.failed, s.at, s.change = false, time.Now(), change
	if s.offer == nil || !slices.Equal(s.offer.keys, keys) {
		s.offer, v.index[k] = v.group.offer(k, m, keys), nil
	}
	return s.offer
}

// recordFailure notes that a member that was asked then does not say what it offers.
// It has what it had.
func (v *view) recordFailure(k kind, m *member, asked time.Time, change uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s := &v.callerSlots[k][m.at]; s.at.Before(asked) {
		s.failed, s.at, s.change = true, time.Now(), change
	}
}

// indexed returns the index of a kind.
func (v *view) indexed(k kind) *index {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.index[k] == nil {
		offers := make([]*offer, len(v.callerSlots[k]))
		for i := range offers {
			offers[i] = v.callerSlots[k][i].offer
		}
		v.index[k] = v.group.indexOf(k, offers)
	}
	return v.index[k]
}

// expired reports whether a member should be asked again for something that is not
// among what it offers.
func (v *view) expired(k kind, m *member) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := &v.callerSlots[k][m.at]
	limit := lookAgain
	if s.failed {
		limit = tryAgain
	}
	return time.Since(s.at) >= limit || s.change != m.changes[k].Load()
}

// current reports whether all members have been asked what they offer, and have told
// of no change since.
func (v *view) current(k kind) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, m := range v.group.members {
		if s := &v.callerSlots[k][i]; s.at.IsZero() || s.change != m.changes[k].Load() {
			return false
		}
	}
	return true
}

// missing returns those members that did not answer when they were last asked for
// one of these lists.
func (v *view) missing(members []*member, kinds ...kind) (silent []*member) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, m := range members {
		if slices.ContainsFunc(kinds, func(k kind) bool { return v.callerSlots[k][m.at].failed }) {
			silent = append(silent, m)
		}
	}
	return silent
}

// lock returns the token of who asks a member.
func (v *view) lock(k kind, m *member) chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := &v.callerSlots[k][m.at]
	if s.asking == nil {
		s.asking = make(chan struct{}, 1)
	}
	return s.asking
}

// A target is what a name or URI means: something that a member has.
type target struct {
	*member
	own string // what the member calls it
}

// An index says what names and URIs mean. It does not change.
//
// What two members have belongs to the first. In a plain group that holds for what
// they may have, too: members behind one whose list has never been known do not
// count.
type index struct {
	offers []*offer // by member; nil if not known
	count  int      // how many of the members count
	byName map[string]target
	logged sync.Map // what has been logged as left out
}

// indexOf returns the index of offers.
func (g *group) indexOf(k kind, offers []*offer) *index {
	g.mu.Lock()
	last := g.index[k]
	g.mu.Unlock()
	if last != nil && slices.Equal(last.offers, offers) {
		return last
	}
	x := &index{offers: offers, count: len(offers), byName: make(map[string]target)}
	if first := slices.Index(offers, nil); first >= 0 && g.plain {
		x.count = first
	}
	for i, o := range offers[:x.count] {
		if o == nil {
			continue
		}
		for j, name := range o.names {
			if _, taken := x.byName[name]; !taken {
				x.byName[name] = target{g.members[i], o.keys[j]}
			}
		}
	}
	g.mu.Lock()
	g.index[k] = x
	g.mu.Unlock()
	return x
}

// refresh asks those of the members again whose lists are old, each once even if
// many want to know.
func (a *Aggregate) refresh(ctx context.Context, v *view, r *request, members []*member, kinds ...kind) error {
	type question struct {
		kind   kind
		member *member
		change uint64 // what the member has told of changes
		req    *dragoman.Message
	}
	var all []question
	for _, k := range kinds {
		req, err := ownRequest(r.Message, lists[k].method)
		if err != nil {
			return err
		}
		for _, m := range members {
			if v.expired(k, m) {
				all = append(all, question{k, m, m.changes[k].Load(), req})
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	asked := time.Now()
	answers, err := gather(ctx, a, len(all), func(ctx context.Context, i int) (struct{}, error) {
		return struct{}{}, a.ask(ctx, v, all[i].kind, all[i].member, all[i].req)
	})
	for i, answer := range answers {
		if q := &all[i]; answer.err != nil {
			a.log.Debug("a server does not say what it has", "server", q.member.Name(), "list", lists[q.kind].method, "error", answer.err)
			v.recordFailure(q.kind, q.member, asked, q.change)
		}
	}
	return err
}

// ask asks a member what it offers, unless somebody else has just done so.
func (a *Aggregate) ask(ctx context.Context, v *view, k kind, m *member, req *dragoman.Message) error {
	lock := v.lock(k, m)
	select {
	case lock <- struct{}{}:
		defer func() { <-lock }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !v.expired(k, m) {
		return nil
	}
	change := m.changes[k].Load()
	l, err := a.fetch(ctx, m, k, req)
	if err == nil {
		v.record(k, m, l.keys, change)
	}
	return err
}

// ownRequest makes a request of ours, without params, by the sender of another.
func ownRequest(of *dragoman.Message, method string) (*dragoman.Message, error) {
	env, err := protocol.ReadEnvelope(of)
	if err != nil {
		return nil, invalid("%v", err)
	}
	env.LogLevel = nil // nothing is told on the way
	req, err := dragoman.NewRequest(of.ID(), method, nil)
	if err != nil {
		return nil, err
	}
	return env.Put(req)
}
