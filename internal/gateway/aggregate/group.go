package aggregate

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A source is a server for as long as it is a member, in whatever group.
type source struct {
	Member
	changes [numKinds]atomic.Uint64 // that it has told of
	silent  [numKinds]atomic.Bool   // it has not answered when it was last asked for a list
	facts   atomic.Pointer[facts]   // what it last said of itself; nil if nothing
	stop    func()                  // of OnChange; guarded by the aggregate's setting
}

// A member is a source and its place in a group.
type member struct {
	*source
	at     int
	prefix string // of names here, as configured
	start  string // the same, with no characters that names must not have
}

// A group is the members there are at a time. What is known of what they offer
// goes with it.
type group struct {
	members []*member
	plain   bool

	mu    sync.Mutex
	views map[string]*view   // by caller; guarded by mu
	last  [numKinds][]*offer // by member, the newest that anybody got; guarded by mu
	index [numKinds]*index   // the newest; guarded by mu
}

// newGroup returns a group of these sources, with the prefixes that they have now.
func newGroup(sources []*source, plain bool) *group {
	g := &group{plain: plain, views: make(map[string]*view)}
	for i, s := range sources {
		m := &member{source: s, at: i, prefix: s.Name() + "_"}
		if plain {
			m.prefix = ""
		}
		if p := s.Prefix(); p != nil {
			m.prefix = *p
		}
		m.start = clean(m.prefix)
		g.members = append(g.members, m)
	}
	for k := range g.last {
		g.last[k] = make([]*offer, len(sources))
	}
	return g
}

// byName returns the member of that name, or nil.
func (g *group) byName(name string) *member {
	if i := slices.IndexFunc(g.members, func(m *member) bool { return m.Name() == name }); i >= 0 {
		return g.members[i]
	}
	return nil
}

// has reports whether a source is a member.
func (g *group) has(s *source) bool {
	return slices.ContainsFunc(g.members, func(m *member) bool { return m.source == s })
}

// equal reports whether two groups have the same members with the same names.
func (g *group) equal(other *group) bool {
	return g.plain == other.plain && slices.EqualFunc(g.members, other.members, func(m, o *member) bool {
		return m.source == o.source && m.prefix == o.prefix
	})
}

// same returns the source that a member is, or nil if it is new.
func (g *group) same(m Member) *source {
	if old := g.byName(m.Name()); old != nil && old.Member == m {
		return old.source
	}
	return nil
}

// Set replaces the members, in their order. Those that were there before stay as
// they are. Who listens is told that lists have changed, if anything has.
func (a *Aggregate) Set(members []Member) { a.SetPlain(a.opts.Plain, members) }

// SetPlain is Set with another naming than that of Options.
func (a *Aggregate) SetPlain(plain bool, members []Member) {
	a.setting.Lock()
	defer a.setting.Unlock()
	if a.ctx.Err() != nil {
		return
	}
	old := a.group.Load()
	var sources, fresh []*source
	for _, m := range members {
		if slices.ContainsFunc(sources, func(s *source) bool { return s.Name() == m.Name() }) {
			a.log.Warn("two members have one name; the second is left out", "name", m.Name())
			continue
		}
		s := old.same(m)
		if s == nil {
			s = &source{Member: m}
			fresh = append(fresh, s)
		}
		sources = append(sources, s)
	}
	next := newGroup(sources, plain)
	if next.equal(old) {
		return
	}
	a.group.Store(next)
	for _, m := range old.members {
		if !next.has(m.source) {
			m.stop()
		}
	}
	for _, s := range fresh {
		s.stop = s.OnChange(func(note string) { a.changed(s, note) })
	}
	for note := range (&protocol.Interest{Tools: true, Prompts: true, Resources: true}).ChangeNotes() {
		a.listens.Publish(note)
	}
	a.listens.Rouse() // what they watch may be with another member now
}

// changed takes a member's word that a list has changed. It does not block.
func (a *Aggregate) changed(s *source, note string) {
	known := false
	for k := range lists {
		if lists[k].note == note {
			s.changes[k].Add(1)
			known = true
		}
	}
	if !known {
		return
	}
	a.listens.Publish(subscription.ListChanged(note))
}
