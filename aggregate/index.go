package aggregate

import (
	"slices"
	"sync"
)

// A target is what a name or URI means: something that a member has.
type target struct {
	*member
	own string // what the member calls it
}

// An index says what names and URIs mean. It does not change.
type index struct {
	offers []*offer // that it is made of
	byName map[string]target
	names  []map[string]string // by member: its own names and ours. Of resources nil
	told   sync.Map            // what has been logged as left out
}

// name returns how something of a member is called here, "" if it is not offered.
func (x *index) name(m *member, own string) string {
	if x.names == nil {
		if t, ok := x.byName[own]; ok && t.member == m {
			return own
		}
		return ""
	}
	return x.names[m.at][own]
}

// indexOf returns the index of offers, by member.
func (g *group) indexOf(k kind, offers []*offer) *index {
	g.mu.Lock()
	last := g.index[k]
	g.mu.Unlock()
	if last != nil && slices.Equal(last.offers, offers) {
		return last
	}
	x := &index{offers: offers, byName: make(map[string]target)}
	if k == tools || k == prompts {
		g.nameAll(x, k)
	} else {
		g.firstWins(x)
	}
	g.mu.Lock()
	g.index[k] = x
	g.mu.Unlock()
	return x
}

// nameAll gives everything a name.
func (g *group) nameAll(x *index, k kind) {
	var wishes []wish
	for i, o := range x.offers {
		x.names = append(x.names, make(map[string]string))
		if o == nil {
			continue
		}
		for _, own := range o.keys {
			wishes = append(wishes, g.wish(g.members[i], k, own))
		}
	}
	for i, name := range assign(wishes, g.plain) {
		if w := &wishes[i]; name != "" {
			x.names[w.member][w.own] = name
			x.byName[name] = target{g.members[w.member], w.own}
		}
	}
}

// firstWins leaves everything its URI. What two members have belongs to the first.
func (g *group) firstWins(x *index) {
	for i, o := range x.offers {
		if o == nil {
			continue
		}
		for _, key := range o.keys {
			if _, taken := x.byName[key]; !taken {
				x.byName[key] = target{g.members[i], key}
			}
		}
	}
}
