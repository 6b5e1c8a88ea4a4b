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
	m    *Message
	body []change
	meta []change
}

// A change sets a member, or drops it if value is nil.
type change struct {
	name  string
	value []byte
}

// Set gives a member of the body a new value, which is JSON text; nil drops it.
func (e *Edit) Set(name string, value []byte) *Edit {
	e.body = put(e.body, name, value)
	return e
}

// Drop removes members of the body.
func (e *Edit) Drop(names ...string) *Edit {
	for _, name := range names {
		e.body = put(e.body, name, nil)
	}
	return e
}

// SetMeta gives a member of the body's _meta a new value, which is JSON text;
// nil drops it.
func (e *Edit) SetMeta(key string, value []byte) *Edit {
	e.meta = put(e.meta, key, value)
	return e
}

// DropMeta removes members of the body's _meta. A _meta that gets empty stays.
func (e *Edit) DropMeta(keys ...string) *Edit {
	for _, key := range keys {
		e.meta = put(e.meta, key, nil)
	}
	return e
}

func put(changes []change, name string, value []byte) []change {
	for i := range changes {
		if changes[i].name == name {
			changes[i].value = value
			return changes
		}
	}
	return append(changes, change{name, value})
}

// Message returns the changed message. It fails if a value is not JSON text or
// if there is no body to change: an error response has none, and a result need
// not be an object.
func (e *Edit) Message() (*Message, error) {
	m := e.m
	if err := e.check(); err != nil {
		return nil, err
	}
	s := splice{src: m.raw, patches: make([]patch, 0, 4)}
	switch {
	case m.pending.IsZero():
	case m.id.end == 0:
		s.insert(1, []byte(newID+m.pending.text+","))
	default:
		s.replace(m.id, []byte(m.pending.text))
	}
	body := e.body
	if meta := m.known[knownMeta]; m.hasMeta() {
		s.object(int(meta.start), e.meta, m.inMeta)
	} else if inner := newMembers(e.meta); inner != nil {
		body = put(slices.Clone(body), "_meta", slices.Concat([]byte("{"), inner, []byte("}")))
	}
	if m.body.end != 0 {
		s.object(int(m.body.start), body, m.inBody)
	} else if inner := newMembers(body); inner != nil {
		s.insert(len(m.raw)-1, slices.Concat([]byte(`,"params":{`), inner, []byte("}")))
	}
	if len(s.patches) == 0 {
		return m, nil
	}
	return s.message()
}

// inBody returns where a member of the body lies. In a result it may stand more
// than once.
func (m *Message) inBody(name string) []member {
	if i := knownMember(name); i < 0 {
		return all(m.raw, int(m.body.start), name)
	} else if !m.known[i].absent() {
		return m.known[i : i+1]
	}
	return nil
}

// inMeta returns where a member of _meta lies.
func (m *Message) inMeta(name string) []member {
	return all(m.raw, int(m.known[knownMeta].start), name)
}

func (e *Edit) check() error {
	m := e.m
	if len(e.body)+len(e.meta) > 0 {
		if m.failed {
			return errors.New("dragoman: an error response has no result to edit")
		}
		if m.body.end != 0 && m.raw[m.body.start] != '{' {
			return errors.New("dragoman: the result to edit is not an object")
		}
	}
	for depth, list := range [...][]change{2: e.body, 3: e.meta} {
		for _, c := range list {
			if err := c.check(depth); err != nil {
				return err
			}
		}
	}
	for _, c := range e.body {
		if c.name == "_meta" && len(e.meta) > 0 {
			return errors.New("dragoman: an edit changes _meta and members of it")
		}
		if c.name == "_meta" && c.value != nil && bytes.TrimLeft(c.value, " \t\r\n")[0] != '{' {
			return errors.New("dragoman: _meta must be an object")
		}
	}
	return nil
}

// check tells whether the new value is one of JSON, and no more than that: the
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

// newMembers returns the members that changes set, as they stand in an object
// that had none.
func newMembers(changes []change) []byte {
	var b []byte
	for _, c := range changes {
		if c.value == nil {
			continue
		}
		if b != nil {
			b = append(b, ',')
		}
		b = appendQuote(b, c.name)
		b = append(b, ':')
		b = append(b, c.value...)
	}
	return b
}

// A splice is a list of patches to a text.
type splice struct {
	src     []byte
	patches []patch
}

type patch struct {
	start, end int
	text       []byte
}

func (s *splice) replace(at span, text []byte) {
	s.patches = append(s.patches, patch{int(at.start), int(at.end), text})
}

func (s *splice) insert(at int, text []byte) {
	s.patches = append(s.patches, patch{at, at, text})
}

// object applies changes to the object there. find returns where a member lies.
// New members come first, so that no place has to be found for them.
func (s *splice) object(at int, changes []change, find func(name string) []member) {
	var drop []member
	var fresh []change
	for _, c := range changes {
		places := find(c.name)
		switch {
		case c.value == nil:
			drop = append(drop, places...)
		case len(places) == 0:
			fresh = append(fresh, c)
		default:
			s.replace(span{places[0].start, places[0].end}, c.value)
			drop = append(drop, places[1:]...)
		}
	}
	empty := s.drop(at, drop)
	if text := newMembers(fresh); text != nil {
		if !empty {
			text = append(text, ',')
		}
		s.insert(at+1, text)
	}
}

// drop removes members of the object there together with the commas that they
// leave over, and tells whether it has no members then.
func (s *splice) drop(at int, members []member) (empty bool) {
	slices.SortFunc(members, func(a, b member) int { return cmp.Compare(a.key, b.key) })
	sc := scanner{data: s.src}
	first := sc.space(at + 1)
	empty = s.src[first] == '}'
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
			for s.src[start] != ',' {
				start--
			}
		}
		s.patches = append(s.patches, patch{start, end, nil})
	}
	return empty
}

// message applies the patches.
func (s *splice) message() (*Message, error) {
	slices.SortFunc(s.patches, func(a, b patch) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end))
	})
	size := len(s.src)
	for _, p := range s.patches {
		size += len(p.text) - (p.end - p.start)
	}
	out := make([]byte, 0, size)
	at := 0
	for _, p := range s.patches {
		out = append(out, s.src[at:p.start]...)
		out = append(out, p.text...)
		at = p.end
	}
	out = append(out, s.src[at:]...)
	return Limits{MaxMessage: -1}.Parse(out)
}
