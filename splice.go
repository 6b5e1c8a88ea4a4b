package dragoman

import (
	"cmp"
	"slices"
)

// A patch is a part of a message's text that is replaced by something else. A
// message has few of them, in order and apart from each other.
type patch struct {
	start, end uint32
	what       content
	comma      bool   // other members follow the new ones
	grows      int    // by how much the text gets longer; set when all are known
	text       []byte // for replaced
}

// content is what a patch puts in its place.
type content uint8

const (
	nothing   content = iota
	replaced          // text
	freshID           // the pending id
	inBody            // members of the body that are set and were not there
	inMeta            // those of its _meta
	freshBody         // params, with members
)

// splice adds the patches that bring changes about in the body or in its _meta.
// New members come first, so that no place has to be found for them. meta are the
// members of a _meta that is set.
func (m *Message) splice(patches []patch, changes, meta []change, where content) []patch {
	in := m.body
	if where == inMeta {
		in = span{m.known[knownMeta].start, m.known[knownMeta].end}
	}
	at := in.start
	drop := make([]member, 0, 8)
	walk := false
	for i := range changes {
		c := &changes[i]
		k := -1
		if where == inBody {
			k = knownMember(c.name)
		}
		if k < 0 {
			walk = true
		} else if v := m.known[k]; !v.absent() {
			patches, drop = c.place(patches, drop, v, meta)
		}
	}
	if walk {
		for name, f := range Fields(m.at(in)) {
			v := member{at + uint32(f.Key), at + uint32(f.Start), at + uint32(f.End)}
			for i := range changes {
				if c := &changes[i]; c.name == name && (where == inMeta || knownMember(name) < 0) {
					patches, drop = c.place(patches, drop, v, meta)
				}
			}
		}
	}
	patches, empty := dropped(patches, m.raw, int(at), drop)
	for i := range changes {
		if c := &changes[i]; c.sets() && !c.found {
			return append(patches, patch{start: at + 1, end: at + 1, what: where, comma: !empty})
		}
	}
	return patches
}

// place changes the member that lies there. In a result there may be several of
// a name: the first one is set then, and the others are dropped.
func (c *change) place(patches []patch, drop []member, v member, meta []change) ([]patch, []member) {
	if c.found || !c.sets() {
		drop = append(drop, v)
	} else if c.meta {
		patches = append(patches, patch{start: v.start, end: v.end, what: replaced, text: appendObject(nil, meta)})
	} else {
		patches = append(patches, patch{start: v.start, end: v.end, what: replaced, text: c.value})
	}
	c.found = true
	return patches, drop
}

// dropped adds the patches that remove members of the object there, together
// with the commas that they leave over. It tells whether the object has no
// members then.
func dropped(patches []patch, src []byte, at int, members []member) (_ []patch, empty bool) {
	slices.SortFunc(members, func(a, b member) int { return cmp.Compare(a.key, b.key) })
	sc := scanner{data: src}
	first := sc.space(at + 1)
	empty = src[first] == '}'
	for i := 0; i < len(members); i++ {
		start, end := int(members[i].key), int(members[i].end)
		next, more := sc.more(end)
		// Neighbours that go too are one run.
		for more && i+1 < len(members) && sc.space(next) == int(members[i+1].key) {
			i++
			end = int(members[i].end)
			next, more = sc.more(end)
		}
		switch {
		case more:
			end = sc.space(next)
		case start == first:
			empty = true
		default:
			for src[start] != ',' {
				start--
			}
		}
		patches = append(patches, patch{start: uint32(start), end: uint32(end)})
	}
	return patches, empty
}
