package aggregate

import (
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/walk"
)

// can is what any of several servers can do.
type can struct {
	names  []string // in the order in which they came
	values map[string][]byte
}

// everything is what a server may be able to do of which nothing is known.
func (c *can) everything() {
	c.add([]byte(`{"tools":{},"prompts":{},"resources":{"subscribe":true},"completions":{},"logging":{}}`))
}

// add adds the capabilities of a server. Of a capability that two have, each
// setting is that of the first; of those that stand for themselves, like
// extensions, likewise.
func (c *can) add(capabilities []byte) {
	if c.values == nil {
		c.values = make(map[string][]byte)
	}
	for name, f := range walk.Members(capabilities) {
		value := capabilities[f.Start:f.End:f.End]
		n := string(name)
		old, known := c.values[n]
		if !known {
			c.names = append(c.names, n)
			old = []byte("{}")
			if !walk.IsObject(value) {
				old = value
			}
		}
		c.values[n] = union(old, value)
	}
}

// union returns an object with the members of both. Of two with the same name the
// first counts, unless it is false.
func union(a, b []byte) []byte {
	if !walk.IsObject(a) {
		return a
	}
	for name, f := range walk.Members(b) {
		value := b[f.Start:f.End:f.End]
		if old := walk.Get(a, string(name)); old == nil || string(old) == "false" {
			a = walk.With(a, string(name), value)
		}
	}
	return a
}

// object returns all that as an object. Lists may always change.
func (c *can) object() []byte {
	slices.Sort(c.names)
	out := []byte{'{'}
	for i, name := range c.names {
		value := c.values[name]
		switch name {
		case "tools", "prompts", "resources":
			if walk.IsObject(value) {
				value = walk.With(value, "listChanged", []byte("true"))
			}
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, walk.Quote(name)...), ':'), value...)
	}
	return append(out, '}')
}
