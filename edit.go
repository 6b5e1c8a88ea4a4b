package dragoman

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// WithID returns the message with another id, which must not be zero. Nothing
// is copied: the new id takes its place when the message is written. A message
// without an id gets one in front: an error response that had none, or a
// notification, which is a request then.
func (m *Message) WithID(id ID) *Message {
	c := *m
	c.pending = id
	if c.kind == Notification {
		c.kind = Request
	}
	return &c
}

// Edit starts a change of the message. The message itself stays as it is; the
// changed one is made by [Edit.Message] in one copy, in which every byte that
// was not asked to change is as it was.
func (m *Message) Edit() *Edit { return &Edit{m: m} }

// An Edit collects changes to a message. Set and Drop are about members of the
// body, of params or result; SetMeta and DropMeta about those of its _meta.
// A later change of a member replaces an earlier one.
type Edit struct {
	m          *Message
	body, meta changes
}

// changes are to be made to one object. They lie in here as long as they are few, so
// that most edits take no memory but that of the new message. A slice of few in here
// would keep the Edit from the stack.
type changes struct {
	few  [4]change
	n    int      // of few
	many []change // in place of few, once there are more
}

func (l *changes) list() []change {
	if l.many != nil {
		return l.many
	}
	return l.few[:l.n]
}

// put adds a change, in place of one that there may be of the same member.
func (l *changes) put(name string, value []byte) {
	c := change{name: name, value: value}
	switch old := changeOf(l.list(), name); {
	case old != nil:
		old.value = value
	case l.many != nil:
		l.many = append(l.many, c)
	case l.n < len(l.few):
		l.few[l.n] = c
		l.n++
	default:
		l.many = append(append(make([]change, 0, 2*len(l.few)), l.few[:]...), c)
	}
}

// A change sets a member, or drops it if it has no value.
type change struct {
	name  string
	value []byte
	meta  bool // in place of value: an object of what is set in _meta
	found bool // the member is there; known when the message is made
}

// sets reports whether the member is not to be dropped.
func (c *change) sets() bool { return c.value != nil || c.meta }

// Set gives a member of the body a new value, which is JSON text; nil drops it.
func (e *Edit) Set(name string, value []byte) *Edit {
	e.body.put(name, value)
	return e
}

// Drop removes members of the body.
func (e *Edit) Drop(names ...string) *Edit {
	for _, name := range names {
		e.body.put(name, nil)
	}
	return e
}

// SetMeta gives a member of the body's _meta a new value, which is JSON text;
// nil drops it.
func (e *Edit) SetMeta(key string, value []byte) *Edit {
	e.meta.put(key, value)
	return e
}

// DropMeta removes members of the body's _meta. A _meta that gets empty stays.
func (e *Edit) DropMeta(keys ...string) *Edit {
	for _, key := range keys {
		e.meta.put(key, nil)
	}
	return e
}

// Message returns the changed message. It fails if a value is not JSON text or
// if there is no body to change: an error response has none, and a result need
// not be an object.
func (e *Edit) Message() (*Message, error) {
	m := e.m
	if err := e.check(); err != nil {
		return nil, err
	}
	patches := make([]patch, 0, 8)
	switch {
	case m.pending.IsZero():
	case m.id.end == 0:
		patches = append(patches, patch{start: 1, end: 1, what: freshID})
	default:
		patches = append(patches, patch{start: m.id.start, end: m.id.end, what: freshID})
	}
	body, meta := e.body.list(), e.meta.list()
	var room [len(e.body.few) + 1]change
	if m.hasMeta() {
		patches = m.splice(patches, meta, nil, inMeta)
	} else if anySet(meta) {
		body = append(append(room[:0], body...), change{name: "_meta", meta: true})
	}
	if m.body.end != 0 {
		patches = m.splice(patches, body, meta, inBody)
	} else if anySet(body) {
		end := uint32(len(m.raw) - 1) // #nosec G115 -- a place in a message, which is shorter than 2 GiB
		patches = append(patches, patch{start: end, end: end, what: freshBody})
	}
	if len(patches) == 0 {
		return m, nil
	}
	return m.patched(patches, body, meta)
}

func anySet(changes []change) bool {
	for i := range changes {
		if changes[i].sets() {
			return true
		}
	}
	return false
}

func (e *Edit) check() error {
	m := e.m
	body, meta := e.body.list(), e.meta.list()
	if len(body)+len(meta) > 0 {
		if m.failed {
			return errors.New("dragoman: an error response has no result to edit")
		}
		if m.body.end != 0 && m.raw[m.body.start] != '{' {
			return errors.New("dragoman: the result to edit is not an object")
		}
	}
	for depth, list := range [...][]change{2: body, 3: meta} {
		for i := range list {
			list[i].found = false
			if err := list[i].check(depth); err != nil {
				return err
			}
		}
	}
	for i := range body {
		c := &body[i]
		if c.name == "_meta" && len(meta) > 0 {
			return errors.New("dragoman: an edit changes _meta and members of it")
		}
		if c.name == "_meta" && c.value != nil && bytes.TrimLeft(c.value, " \t\r\n")[0] != '{' {
			return errors.New("dragoman: _meta must be an object")
		}
	}
	return nil
}

// check returns an error unless the new value is one of JSON, and no more: the
// message would take what follows it for members.
func (c *change) check(depth int) error {
	if c.value == nil {
		return nil
	}
	s := scanner{data: c.value}
	end := s.value(0, depth)
	if end >= 0 {
		if end = s.space(end); end < len(c.value) {
			end = s.fail(end, "more text behind the value")
		}
	}
	if end < 0 {
		return fmt.Errorf("dragoman: new value of %q is not JSON: %s at byte %d", c.name, s.reason, s.at)
	}
	return nil
}

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

// known returns the index of a member whose place is noted, or -1.
func (where content) known(name string) int {
	switch where {
	case inBody:
		return knownMember(name)
	case inMeta:
		return metaMember(name)
	}
	return -1
}

// splice adds the patches that bring changes about in the body or in its _meta.
// New members come first, so that no place has to be found for them. meta are the
// members of a _meta that is set.
func (m *Message) splice(patches []patch, changes, meta []change, where content) []patch {
	in := m.body
	if where == inMeta {
		in = m.known[knownMeta]
	}
	at := in.start
	drop := make([]span, 0, 8) // each from its name on
	walk := false
	for i := range changes {
		c := &changes[i]
		k := where.known(c.name)
		if k < 0 {
			walk = true
		} else if v := m.known[k]; !v.absent() {
			patches, drop = c.place(patches, drop, m.nameOf(v), v, meta)
		}
	}
	if walk {
		for name, f := range Fields(m.at(in)) {
			key, v := at+uint32(f.Key), span{at + uint32(f.Start), at + uint32(f.End)} // #nosec G115 -- a place in a message, which is shorter than 2 GiB
			for i := range changes {
				if c := &changes[i]; c.name == name && where.known(name) < 0 {
					patches, drop = c.place(patches, drop, key, v, meta)
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

// nameOf returns where the name of a known member begins, whose value lies there. However
// that name is spelt, there is no quote in it.
func (m *Message) nameOf(v span) uint32 {
	end := bytes.LastIndexByte(m.raw[:v.start], '"')
	return uint32(bytes.LastIndexByte(m.raw[:end], '"')) // #nosec G115 -- a place in a message, which is shorter than 2 GiB
}

// place changes the member that lies there. In a result there may be several of
// a name: the first one is set then, and the others are dropped.
func (c *change) place(patches []patch, drop []span, key uint32, v span, meta []change) ([]patch, []span) {
	if c.found || !c.sets() {
		drop = append(drop, span{key, v.end})
	} else if c.meta {
		patches = append(patches, patch{start: v.start, end: v.end, what: replaced, text: appendMeta(nil, meta, new(Message))}) // where they lie is found later
	} else {
		patches = append(patches, patch{start: v.start, end: v.end, what: replaced, text: c.value})
	}
	c.found = true
	return patches, drop
}

// dropped adds the patches that remove members of the object there, together
// with the commas that they leave over. It reports whether the object has no
// members then.
func dropped(patches []patch, src []byte, at int, members []span) (_ []patch, empty bool) {
	slices.SortFunc(members, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	sc := scanner{data: src}
	first := sc.space(at + 1)
	empty = src[first] == '}'
	for i := 0; i < len(members); i++ {
		start, end := int(members[i].start), int(members[i].end)
		next, more := sc.more(end)
		// Neighbours that go too are one run.
		for more && i+1 < len(members) && sc.space(next) == int(members[i+1].start) {
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
		patches = append(patches, patch{start: uint32(start), end: uint32(end)}) // #nosec G115 -- a place in a message, which is shorter than 2 GiB
	}
	return patches, empty
}

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
	if m.pending.IsNull() && !m.failed || !m.movable(body, true) || !m.movable(meta, false) {
		return Limits{MaxMessage: -1}.Parse(m.write(out, patches, body, meta, nil))
	}
	n := *m
	n.pending = ID{}
	n.move(patches, body, meta)
	n.raw = m.write(out, patches, body, meta, &n)
	if newMetaNeedsScan(body) {
		p := parser{scanner: scanner{data: n.raw}}
		if p.meta(int(n.known[knownMeta].start)); p.shape != "" {
			return Limits{MaxMessage: -1}.Parse(n.raw)
		}
		copy(n.known[metaToken:], p.m.known[metaToken:])
	}
	return &n, nil
}

// movable reports whether changes make a message that Parse takes, and whose
// places can be told without it. Most do.
func (m *Message) movable(changes []change, body bool) bool {
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
				if looksLike(c.name, r) {
					return false
				}
			}
		}
	}
	return true
}

// isPlain reports whether a name is the same in JSON, and at a glance.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// newMetaNeedsScan reports whether changes of the body bring a _meta that has to be looked
// into: its known members may lie anywhere, and its names may repeat.
func newMetaNeedsScan(body []change) bool {
	c := changeOf(body, "_meta")
	return c != nil && (c.value != nil || c.meta && c.found)
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
	n.forget(body, inBody)
	n.forget(meta, inMeta)
	if changeOf(body, "_meta") != nil {
		clear(n.known[metaToken:])
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
		return uint32(int(at) + by) // #nosec G115 -- a place in a message, which is shorter than 2 GiB
	}
	move := func(v *span) {
		if !v.absent() {
			*v = span{moved(v.start, false), moved(v.end, true)}
		}
	}
	move(&n.id)
	move(&n.method)
	move(&n.body)
	for i := range n.known {
		move(&n.known[i])
	}
}

// forget drops the places of members that are dropped.
func (n *Message) forget(changes []change, where content) {
	for i := range changes {
		if c := &changes[i]; !c.sets() {
			if k := where.known(c.name); k >= 0 {
				n.known[k] = span{}
			}
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
		start := uint32(len(out)) // #nosec G115 -- a place in a message, which is shorter than 2 GiB
		switch p.what {
		case replaced:
			out = append(out, p.text...)
		case freshID:
			if m.id.end == 0 {
				out = append(out, newID...)
				n.id = span{uint32(len(out)), uint32(len(out) + len(m.pending.text))} // #nosec G115 -- a place in a message, which is shorter than 2 GiB
				out = append(append(out, m.pending.text...), ',')
			} else {
				out = append(out, m.pending.text...)
			}
		case freshBody:
			out = append(append(out, newParams...), '{')
			out = append(appendMembers(out, body, meta, n, inBody), '}')
			n.body = span{start + uint32(len(newParams)), uint32(len(out))} // #nosec G115 -- a place in a message, which is shorter than 2 GiB
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

// appendMeta appends the _meta that changes make. Where its members lie is noted in n.
func appendMeta(dst []byte, changes []change, n *Message) []byte {
	dst = append(dst, '{')
	dst = appendMembers(dst, changes, nil, n, inMeta)
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
		dst = append(appendQuote(dst, c.name), ':')
		v := span{start: uint32(len(dst))} // #nosec G115 -- a place in a message, which is shorter than 2 GiB
		if c.meta {
			dst = appendMeta(dst, meta, n)
		} else {
			dst = append(dst, c.value...)
		}
		v.end = uint32(len(dst)) // #nosec G115 -- a place in a message, which is shorter than 2 GiB
		if k := where.known(c.name); k >= 0 {
			n.known[k] = v
		}
	}
	return dst
}
