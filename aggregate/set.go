package aggregate

import (
	"slices"

	"github.com/dragoman-mcp/dragoman/config"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Set replaces the members, in their order. Those that were there before stay as
// they are. Who listens is told that lists have changed, if anything has.
func (a *Aggregate) Set(members []Member) {
	a.setting.Lock()
	defer a.setting.Unlock()
	if a.ctx.Err() != nil {
		return
	}
	old := a.group.Load()
	var (
		sources, fresh []*source
		how            []*config.Tools
	)
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
		sources, how = append(sources, s), append(how, m.Tools())
	}
	next := newGroup(sources, how, a.opts.Plain)
	if next.equal(old) {
		return
	}
	a.group.Store(next)
	for _, m := range old.members {
		if !next.has(m.source) {
			m.leave()
		}
	}
	for _, s := range fresh {
		s.attend(a.changed)
	}
	for _, l := range a.listeners() {
		l.move()
		for _, note := range []string{protocol.NoteToolsChanged, protocol.NotePromptsChanged, protocol.NoteResourcesChanged} {
			l.put(change{method: note})
		}
	}
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
	for _, l := range a.listeners() {
		l.put(change{method: note})
	}
}

// listeners returns the subscriptions there are.
func (a *Aggregate) listeners() []*listener {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]*listener, 0, len(a.listens))
	for l := range a.listens {
		all = append(all, l)
	}
	return all
}
