package adapt

import (
	"slices"

	"github.com/dragoman-mcp/dragoman"
)

// edited returns an object with its members as change wants them: it is given
// each one, and returns its new value, or nil to drop it. more are members, as
// they stand in an object, to be put behind the others. If nothing changes, it
// is the object itself.
func edited(obj []byte, change func(name string, value []byte) []byte, more []byte) []byte {
	if !dragoman.IsObject(obj) {
		return obj
	}
	c := copier{src: obj}
	last := 1      // behind the last member that stays
	front := false // all members so far are dropped
	for name, f := range dragoman.Fields(obj) {
		if front {
			c.at = f.Key
		}
		value := obj[f.Start:f.End:f.End]
		now := change(name, value)
		switch {
		case now != nil:
			c.replace(f.Start, f.End, now)
			last, front = f.End, false
		case last == 1:
			c.replace(f.Key, f.End, nil)
			front = true
		default:
			c.replace(last, f.End, nil)
		}
	}
	if len(more) > 0 {
		c.upTo(last)
		if last > 1 {
			c.out = append(c.out, ',')
		}
		c.out = append(c.out, more...)
	}
	return c.rest()
}

// mapped returns an array with its elements as change wants them: it is given
// each one, and returns what takes its place, which may be several with commas
// between them. If nothing changes, it is the array itself.
func mapped(list []byte, change func(value []byte) []byte) []byte {
	c := copier{src: list}
	for at, value := range dragoman.Items(list) {
		c.replace(at, at+len(value), change(value))
	}
	return c.rest()
}

// appended returns an array with one more element. What is no array becomes one.
func appended(list, value []byte) []byte {
	if len(list) == 0 || list[0] != '[' {
		return join("[", value, "]")
	}
	last := 0
	for at, value := range dragoman.Items(list) {
		last = at + len(value)
	}
	if last == 0 {
		return join("[", value, "]")
	}
	return join(list[:last], ",", value, list[last:])
}

// without returns an object without these members.
func without(obj []byte, names ...string) []byte { return withMembers(obj, nil, names...) }

// withMembers returns an object without these members and with more. What is no
// object counts as an empty one if there are more.
func withMembers(obj, more []byte, names ...string) []byte {
	if !dragoman.IsObject(obj) && more != nil {
		return join("{", more, "}")
	}
	return edited(obj, func(name string, value []byte) []byte {
		if slices.Contains(names, name) {
			return nil
		}
		return value
	}, more)
}

// set gives a member of a message's body a new value, unless it is the old one.
func set(e *dragoman.Edit, name string, old, now []byte) {
	if !same(old, now) {
		e.Set(name, now)
	}
}

// drop removes members of a message's body that are there.
func drop(e *dragoman.Edit, m *dragoman.Message, names ...string) {
	for _, name := range names {
		if m.Get(name) != nil {
			e.Drop(name)
		}
	}
}

// A copier makes a changed copy of src, from the front to the back. at is how
// much of src has been copied or left out.
type copier struct {
	src, out []byte
	at       int
}

// replace puts value in the place of a part of src. Where it is that part
// itself, nothing happens.
func (c *copier) replace(start, end int, value []byte) {
	if len(value) == end-start && len(value) > 0 && &value[0] == &c.src[start] {
		return
	}
	c.upTo(start)
	c.out = append(c.out, value...)
	c.at = max(c.at, end)
}

// upTo copies src up to there.
func (c *copier) upTo(i int) {
	if c.out == nil {
		c.out = make([]byte, 0, len(c.src)+64)
	}
	if i > c.at {
		c.out = append(c.out, c.src[c.at:i]...)
		c.at = i
	}
}

// rest returns the copy, or src if it has no changes.
func (c *copier) rest() []byte {
	if c.out == nil {
		return c.src
	}
	return append(c.out, c.src[c.at:]...)
}

// same reports whether two slices are one.
func same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// join puts pieces of JSON text, strings or bytes, together.
func join(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			b = append(b, p...)
		case []byte:
			b = append(b, p...)
		}
	}
	return b
}
