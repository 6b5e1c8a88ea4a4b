package dragoman

import (
	"bytes"
	"cmp"
	"slices"
)

// patched returns the message with the patches that bring changes about. Where
// nothing can come of the changes that Parse would refuse, or find elsewhere, the
// places of the new message are those of the old one, moved.
func (m *Message) patched(patches []patch, body, meta []change) (*Message, error) {
	slices.SortStableFunc(patches, func(a, b patch) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end))
	})
	size := len(m.raw)
	for i := range patches {
		p := &patches[i]
		p.grows = p.size(m, body, meta) - int(p.end-p.start)
		size += p.grows
	}
	if size > maxMessage {
		return nil, tooLarge(size, maxMessage)
	}
	out := make([]byte, 0, size)
	if m.pending.IsNull() && !m.failed || !m.harmless(body, true) || !m.harmless(meta, false) {
		return Limits{MaxMessage: -1}.Parse(m.write(out, patches, body, meta, nil))
	}
	n := *m
	n.pending = ID{}
	n.move(patches, body, meta)
	n.raw = m.write(out, patches, body, meta, &n)
	if v := n.known[knownMeta]; metaHides(body, meta) {
		p := parser{scanner: scanner{data: n.raw}}
		if p.meta(int(v.start)); p.shape != "" {
			return Limits{MaxMessage: -1}.Parse(n.raw)
		}
		n.token = p.m.token
	}
	return &n, nil
}

// harmless tells whether changes make a message that Parse takes, and whose
// places can be told without it. Most do.
func (m *Message) harmless(changes []change, body bool) bool {
	params := body && m.kind != Response
	for i := range changes {
		c := &changes[i]
		if !c.sets() {
			continue
		}
		if v := c.value; len(v) > 0 && (v[0] <= ' ' || v[len(v)-1] <= ' ') {
			return false
		}
		if !c.found && !isPlain(c.name) {
			return false
		}
		if !params {
			continue
		}
		switch k := knownMember(c.name); {
		case k == knownName || k == knownURI:
			if bytes.IndexByte(c.value, '\\') >= 0 {
				return false
			}
		case k < 0:
			for _, r := range reservedInParams {
				if masks(c.name, r) {
					return false
				}
			}
		}
	}
	return true
}

// isPlain tells whether a name is the same in JSON, and at a glance.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// metaHides tells whether changes of the body bring a _meta that has to be looked
// into: its token may lie anywhere, and its names may repeat.
func metaHides(body, meta []change) bool {
	c := changeOf(body, "_meta")
	return c != nil && (c.value != nil || c.meta && changeOf(meta, "progressToken") != nil)
}

func changeOf(changes []change, name string) *change {
	for i := range changes {
		if changes[i].name == name {
			return &changes[i]
		}
	}
	return nil
}

// move makes the places in a copy of a message those that they get by the patches,
// except for what the patches bring.
func (n *Message) move(patches []patch, body, meta []change) {
	for i := range body {
		if c := &body[i]; !c.sets() {
			if k := knownMember(c.name); k >= 0 {
				n.known[k] = member{}
			}
		}
	}
	if changeOf(body, "_meta") != nil {
		n.token = span{}
	} else if c := changeOf(meta, "progressToken"); c != nil && !c.sets() {
		n.token = span{}
	}
	// What is put in right behind a place does not make it longer.
	moved := func(at uint32, end bool) uint32 {
		by := 0
		for i := range patches {
			p := &patches[i]
			if p.end > at || end && p.start == at {
				break
			}
			by += p.grows
		}
		return uint32(int(at) + by)
	}
	to := func(at uint32) uint32 { return moved(at, false) }
	toEnd := func(at uint32) uint32 { return moved(at, true) }
	for _, v := range [...]*span{&n.id, &n.method, &n.body, &n.token} {
		if v.end != 0 {
			*v = span{to(v.start), toEnd(v.end)}
		}
	}
	for i := range n.known {
		if v := &n.known[i]; !v.absent() {
			*v = member{to(v.key), to(v.start), toEnd(v.end)}
		}
	}
}

// write appends the message with the patches to out. If n is not nil, the places
// of what they bring are noted there.
func (m *Message) write(out []byte, patches []patch, body, meta []change, n *Message) []byte {
	var unwanted Message
	if n == nil {
		n = &unwanted
	}
	at := uint32(0)
	for i := range patches {
		p := &patches[i]
		out = append(out, m.raw[at:p.start]...)
		at = p.end
		start := uint32(len(out))
		switch p.what {
		case replaced:
			out = append(out, p.text...)
		case freshID:
			if m.id.end == 0 {
				out = append(out, newID...)
				n.id = span{uint32(len(out)), uint32(len(out) + len(m.pending.text))}
				out = append(append(out, m.pending.text...), ',')
			} else {
				out = append(out, m.pending.text...)
			}
		case freshBody:
			out = append(append(out, newParams...), '{')
			out = append(appendMembers(out, body, meta, n, inBody), '}')
			n.body = span{start + uint32(len(newParams)), uint32(len(out))}
		case inBody:
			out = appendMembers(out, body, meta, n, inBody)
		case inMeta:
			out = appendMembers(out, meta, nil, n, inMeta)
		}
		if p.comma {
			out = append(out, ',')
		}
	}
	return append(out, m.raw[at:]...)
}

// size returns how many bytes a patch puts in its place.
func (p *patch) size(m *Message, body, meta []change) int {
	switch p.what {
	case replaced:
		return len(p.text)
	case freshID:
		if m.id.end == 0 {
			return len(newID) + len(m.pending.text) + len(",")
		}
		return len(m.pending.text)
	case freshBody:
		return len(newParams) + len("{}") + sizeOf(body, meta)
	case inBody:
		return p.separated(sizeOf(body, meta))
	case inMeta:
		return p.separated(sizeOf(meta, nil))
	}
	return 0
}

func (p *patch) separated(n int) int {
	if p.comma {
		n += len(",")
	}
	return n
}

// newParams stands before the params that a message gets which had none.
const newParams = `,"params":`

// sizeOf returns how long the members are that changes make. Those whose names
// need escapes may be longer. meta are the members of a _meta that is set.
func sizeOf(changes, meta []change) int {
	n := 0
	for i := range changes {
		c := &changes[i]
		if c.found || !c.sets() {
			continue
		}
		if n > 0 {
			n += len(",")
		}
		n += len(`"":`) + len(c.name) + len(c.value)
		if c.meta {
			n += len("{}") + sizeOf(meta, nil)
		}
	}
	return n
}

// appendObject appends the object that changes make.
func appendObject(dst []byte, changes []change) []byte {
	dst = append(dst, '{')
	dst = appendMembers(dst, changes, nil, nil, nothing)
	return append(dst, '}')
}

// appendMembers appends the members that changes make, and meta those of a _meta
// that is set. Where they lie is noted in n if they are members of its body, or of
// its _meta.
func appendMembers(dst []byte, changes, meta []change, n *Message, where content) []byte {
	first := true
	for i := range changes {
		c := &changes[i]
		if c.found || !c.sets() {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		v := member{key: uint32(len(dst))}
		dst = append(appendQuote(dst, c.name), ':')
		v.start = uint32(len(dst))
		if c.meta {
			dst = appendObject(dst, meta)
		} else {
			dst = append(dst, c.value...)
		}
		v.end = uint32(len(dst))
		switch where {
		case inBody:
			if k := knownMember(c.name); k >= 0 {
				n.known[k] = v
			}
		case inMeta:
			if c.name == "progressToken" {
				n.token = span{v.start, v.end}
			}
		}
	}
	return dst
}
