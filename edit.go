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

// changes are to be made to one object. They lie in here as long as they are few,
// so that most edits take no memory but that of the new message.
type changes struct {
	few  [4]change
	n    int      // of few
	many []change // in place of few, once there are more
}

// A change sets a member, or drops it if it has no value.
type change struct {
	name  string
	value []byte
	meta  bool // in place of value: an object of what is set in _meta
	found bool // the member is there; known when the message is made
}

// sets tells whether the member is not to be dropped.
func (c *change) sets() bool { return c.value != nil || c.meta }

// list returns all of them.
func (l *changes) list() []change {
	if l.many != nil {
		return l.many
	}
	return l.few[:l.n]
}

// put adds a change, in place of one that there may be of the same member.
func (l *changes) put(name string, value []byte) {
	for i := range l.list() {
		if c := &l.list()[i]; c.name == name {
			c.value = value
			return
		}
	}
	c := change{name: name, value: value}
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
		end := uint32(len(m.raw) - 1)
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
