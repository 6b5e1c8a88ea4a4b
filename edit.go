package dragoman

import (
	"bytes"
	"errors"
	"fmt"
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
func (l *changes) put(c change) {
	for i, list := 0, l.list(); i < len(list); i++ {
		if list[i].name == c.name {
			list[i].value = c.value
			return
		}
	}
	switch {
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
	known int  // which of the members it is whose place is noted, or -1
	meta  bool // in place of value: an object of what is set in _meta
	found bool // the member is there; known when the message is made
}

// sets reports whether the member is not to be dropped.
func (c *change) sets() bool { return c.value != nil || c.meta }

// Set gives a member of the body a new value, which is JSON text; nil drops it.
func (e *Edit) Set(name string, value []byte) *Edit {
	e.body.put(change{name: name, value: value, known: knownMember(name)})
	return e
}

// Drop removes members of the body.
func (e *Edit) Drop(names ...string) *Edit {
	for _, name := range names {
		e.Set(name, nil)
	}
	return e
}

// SetMeta gives a member of the body's _meta a new value, which is JSON text;
// nil drops it.
func (e *Edit) SetMeta(key string, value []byte) *Edit {
	e.meta.put(change{name: key, value: value, known: metaMember(key)})
	return e
}

// DropMeta removes members of the body's _meta. A _meta that gets empty stays.
func (e *Edit) DropMeta(keys ...string) *Edit {
	for _, key := range keys {
		e.SetMeta(key, nil)
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
	if m.hasMeta() {
		patches = m.splice(patches, meta, inMeta)
	} else if anySet(meta) {
		var room [len(e.body.few) + 1]change
		body = append(append(room[:0], body...), change{name: "_meta", known: knownMeta, meta: true})
	}
	if m.body.end != 0 {
		patches = m.splice(patches, body, inBody)
	} else if anySet(body) {
		end := uint32(len(m.raw) - 1) // #nosec G115 -- a place in a message, which is shorter than 2 GiB
		patches = addPatch(patches, patch{start: end, end: end, what: freshBody})
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
		if c.known != knownMeta {
			continue
		}
		if len(meta) > 0 {
			return errors.New("dragoman: an edit changes _meta and members of it")
		}
		if c.value != nil && bytes.TrimLeft(c.value, " \t\r\n")[0] != '{' {
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
	grows      int // by how much the text gets longer; set when all are known
	of         int // for bodyValue and metaValue: the change
	what       content
	comma      bool // other members follow the new ones
}

// addPatch puts a patch where it belongs among others, which are in order.
func addPatch(patches []patch, p patch) []patch {
	i := len(patches)
	patches = append(patches, p)
	for ; i > 0; i-- {
		before := &patches[i-1]
		if before.start < p.start || before.start == p.start && before.end <= p.end {
			break
		}
		patches[i] = *before
	}
	patches[i] = p
	return patches
}

// content is what a patch puts in its place.
type content uint8

const (
	nothing   content = iota
	freshID           // the pending id
	freshBody         // params, with members
	inBody            // members of the body that are set and were not there
	inMeta            // those of its _meta
	bodyValue         // what a change of the body sets
	metaValue         // what one of its _meta sets
)

// splice adds the patches that bring changes about in the body or in its _meta.
// New members come first, so that no place has to be found for them.
func (m *Message) splice(patches []patch, changes []change, where content) []patch {
	in, value := m.body, bodyValue
	if where == inMeta {
		in, value = m.known[knownMeta], metaValue
	}
	at := in.start
	drop := make([]span, 0, 8) // each from its name on
	// In a result there may be several of a name: the first one is set then, and the
	// others are dropped.
	place := func(i int, key uint32, v span) {
		c := &changes[i]
		if c.found || !c.sets() {
			drop = addSpan(drop, span{key, v.end})
		} else {
			patches = addPatch(patches, patch{start: v.start, end: v.end, what: value, of: i})
		}
		c.found = true
	}
	walk := false
	for i := range changes {
		c := &changes[i]
		if c.known < 0 {
			walk = true
		} else if v := m.known[c.known]; !v.absent() {
			place(i, m.nameOf(v, len(c.name)), v)
		}
	}
	if walk {
		for name, f := range Fields(m.at(in)) {
			for i := range changes {
				if c := &changes[i]; c.known < 0 && c.name == name {
					place(i, at+uint32(f.Key), span{at + uint32(f.Start), at + uint32(f.End)}) // #nosec G115 -- a place in a message, which is shorter than 2 GiB
				}
			}
		}
	}
	patches, empty := dropped(patches, m.raw, int(at), drop)
	for i := range changes {
		if c := &changes[i]; c.sets() && !c.found {
			return addPatch(patches, patch{start: at + 1, end: at + 1, what: where, comma: !empty})
		}
	}
	return patches
}

// addSpan puts a span where it belongs among others, which are in order.
func addSpan(spans []span, v span) []span {
	i := len(spans)
	spans = append(spans, v)
	for ; i > 0 && spans[i-1].start > v.start; i-- {
		spans[i] = spans[i-1]
	}
	spans[i] = v
	return spans
}

// nameOf returns where the name of a known member begins, whose value lies there, and
// which has that length. However the name is spelt, there is no quote in it.
func (m *Message) nameOf(v span, length int) uint32 {
	end := int(v.start) - len(`":`)
	if m.raw[end] != '"' { // there is space around the colon
		end = bytes.LastIndexByte(m.raw[:v.start], '"')
	}
	if start := end - length - len(`"`); m.raw[start] == '"' {
		return uint32(start) // #nosec G115 -- a place in a message, which is shorter than 2 GiB
	}
	return uint32(bytes.LastIndexByte(m.raw[:end], '"')) // #nosec G115 -- as above; the name is spelt with escapes
}

// dropped adds the patches that remove members of the object there, together
// with the commas that they leave over. It reports whether the object has no
// members then.
func dropped(patches []patch, src []byte, at int, members []span) (_ []patch, empty bool) {
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
		patches = addPatch(patches, patch{start: uint32(start), end: uint32(end)}) // #nosec G115 -- a place in a message, which is shorter than 2 GiB
	}
	return patches, empty
}

// patched returns the message with the patches that bring changes about. Where
// nothing can come of the changes that Parse would refuse, or find elsewhere, the
// places of the new message are those of the old one, moved.
func (m *Message) patched(patches []patch, body, meta []change) (*Message, error) {
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
	if c := changesMeta(body); c != nil && c.value != nil {
		// Its known members may lie anywhere, and its names may repeat.
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
		if c.known < 0 && !c.found && !isPlain(c.name) {
			return false
		}
		if !params {
			continue
		}
		switch c.known {
		case knownName, knownURI:
			if bytes.IndexByte(c.value, '\\') >= 0 {
				return false
			}
		case -1:
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

// changesMeta returns the change of _meta as a whole, or nil.
func changesMeta(body []change) *change {
	for i := range body {
		if body[i].known == knownMeta {
			return &body[i]
		}
	}
	return nil
}

// move makes the places in a copy of a message those that they get by the patches,
// except for what the patches bring.
func (n *Message) move(patches []patch, body, meta []change) {
	n.forget(body)
	n.forget(meta)
	if changesMeta(body) != nil {
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
func (n *Message) forget(changes []change) {
	for i := range changes {
		if c := &changes[i]; c.known >= 0 && !c.sets() {
			n.known[c.known] = span{}
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
			out = append(appendMembers(out, body, meta, n), '}')
			n.body = span{start + uint32(len(newParams)), uint32(len(out))} // #nosec G115 -- a place in a message, which is shorter than 2 GiB
		case inBody:
			out = appendMembers(out, body, meta, n)
		case inMeta:
			out = appendMembers(out, meta, nil, n)
		case bodyValue:
			out = body[p.of].appendTo(out, meta, n)
		case metaValue:
			out = meta[p.of].appendTo(out, nil, n)
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
	case bodyValue:
		return body[p.of].size(meta)
	case metaValue:
		return meta[p.of].size(nil)
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
		n += len(`"":`) + len(c.name) + c.size(meta)
	}
	return n
}

// size returns how long the value is that a change sets.
func (c *change) size(meta []change) int {
	if c.meta {
		return len("{}") + sizeOf(meta, nil)
	}
	return len(c.value)
}

// appendTo appends the value that a change sets. Where members of a _meta lie that is
// set with it is noted in n.
func (c *change) appendTo(dst []byte, meta []change, n *Message) []byte {
	if c.meta {
		return append(appendMembers(append(dst, '{'), meta, nil, n), '}')
	}
	return append(dst, c.value...)
}

// appendMembers appends the members that changes make, and meta those of a _meta
// that is set. Where they lie is noted in n.
func appendMembers(dst []byte, changes, meta []change, n *Message) []byte {
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
		start := uint32(len(dst)) // #nosec G115 -- a place in a message, which is shorter than 2 GiB
		dst = c.appendTo(dst, meta, n)
		if c.known >= 0 {
			n.known[c.known] = span{start, uint32(len(dst))} // #nosec G115 -- as above
		}
	}
	return dst
}
