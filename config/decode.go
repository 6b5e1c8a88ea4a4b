package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// readTable fills a struct from a table by its keys. where is the path of the table.
// Keys that it does not know are errors.
func (r *reader) readTable(v reflect.Value, n *node, where string) {
	o := objectOf(v.Type())
	if n.kind != table {
		r.expect(n, where, "a mapping")
		return
	}
	for _, m := range n.members {
		k, ok := o.find(m.key)
		if !ok {
			r.unknown(m, where, &o)
			continue
		}
		r.readKey(v, k, m, where)
	}
}

// readKey fills one field.
func (r *reader) readKey(v reflect.Value, k key, m member, where string) {
	at := join(where, k.name)
	r.mark(at, m.at, m.value)
	if m.value.kind == null {
		return
	}
	r.read(v.Field(k.index), k, m.value, at)
}

func (r *reader) unknown(m member, where string, o *object) {
	hint := didYouMean(m.key, o.names())
	if s := r.spellings[m.key]; hint == "" && s.as != "" && strings.Count(where, ".") == 1 && strings.HasPrefix(where, "servers.") {
		hint = fmt.Sprintf("other programs call it that; here it is %s", s.as)
	}
	if hint == "" {
		hint = "the keys here are " + strings.Join(o.names(), ", ")
	}
	in := where
	if in == "" {
		in = "the file"
	}
	r.fail(m.at, fmt.Sprintf("unknown key %q in %s", clip(m.key), in), hint)
}

// read fills a value of any type that the structs have.
func (r *reader) read(v reflect.Value, k key, n *node, where string) {
	switch t := v.Type(); {
	case t == durationType:
		v.SetInt(int64(r.duration(k, n, where)))
	case t == sizeType:
		if s, ok := r.text(n, where); ok {
			size, message, hint := parseSize(s)
			r.bad(n, where, message, hint)
			v.SetInt(int64(size))
		}
	case t.Kind() == reflect.String:
		r.word(v, k, n, where)
	case t.Kind() == reflect.Bool:
		v.SetBool(r.truth(n, where))
	case t.Kind() == reflect.Int:
		v.SetInt(int64(r.count(n, where)))
	case t.Kind() == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		r.read(v.Elem(), k, n, where)
	case t.Kind() == reflect.Slice:
		r.readList(v, k, n, where)
	case t.Kind() == reflect.Map:
		r.readMap(v, k, n, where)
	default:
		r.readObject(v, n, where)
	}
}

// readObject fills a struct, which may be given by its most important value alone.
func (r *reader) readObject(v reflect.Value, n *node, where string) {
	o := objectOf(v.Type())
	if n.kind != table && o.short >= 0 {
		k := o.keys[o.short]
		if k.typ.Kind() == reflect.Slice || n.kind != list {
			r.readKey(v, k, member{key: k.name, at: n.at, value: n}, where)
			return
		}
	}
	r.readTable(v, n, where)
}

func (r *reader) readList(v reflect.Value, k key, n *node, where string) {
	items := n.items
	if n.kind != list {
		if !k.one {
			r.expect(n, where, "a list")
			return
		}
		items = []*node{n}
	}
	out := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		at := where + "[" + strconv.Itoa(i) + "]"
		r.mark(at, item.at, item)
		r.read(out.Index(i), key{}, item, at)
	}
	v.Set(out)
}

func (r *reader) readMap(v reflect.Value, k key, n *node, where string) {
	if n.kind != table {
		r.expect(n, where, "a mapping")
		return
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(n.members)))
	for _, m := range n.members {
		at := join(where, m.key)
		r.mark(at, m.at, m.value)
		value := reflect.New(v.Type().Elem()).Elem()
		if m.value.kind == null && value.Kind() == reflect.String {
			r.fail(m.at, fmt.Sprintf("%s has no value", at), `write "" for an empty one`)
			continue
		}
		r.read(value, key{}, m.value, at)
		v.SetMapIndex(reflect.ValueOf(m.key), value)
	}
}

// text returns a scalar with its references replaced.
func (r *reader) text(n *node, where string) (string, bool) {
	switch n.kind {
	case text:
		return r.expand(n)
	case number, boolean:
		return n.text, true
	}
	return "", r.expect(n, where, "text")
}

// word fills a string, perhaps one of a few.
func (r *reader) word(v reflect.Value, k key, n *node, where string) {
	s, ok := r.text(n, where)
	if !ok {
		return
	}
	if v.Type() == transportType {
		if t, ok := parseTransport(s); ok {
			s = string(t)
		}
	}
	if k.enum == nil || slices.Contains(k.enum, s) {
		v.SetString(s)
		return
	}
	hint := didYouMean(s, k.enum)
	if hint == "" {
		hint = "use " + strings.Join(k.enum[:len(k.enum)-1], ", ") + " or " + k.enum[len(k.enum)-1]
	}
	r.bad(n, where, "is unknown here", hint)
}

func (r *reader) duration(k key, n *node, where string) time.Duration {
	s, ok := r.text(n, where)
	if !ok {
		return 0
	}
	if k.none != "" && s == "none" {
		return -1
	}
	d, message, hint := parseDuration(s)
	r.bad(n, where, message, hint)
	return d
}

func (r *reader) truth(n *node, where string) bool {
	s := n.text
	if r.refers(n) {
		var ok bool
		if s, ok = r.expand(n); !ok {
			return false
		}
	} else if n.kind != boolean {
		s = ""
	}
	switch strings.ToLower(s) {
	case "true":
		return true
	case "false":
		return false
	}
	r.expect(n, where, "true or false")
	return false
}

// count returns a whole number that is not negative.
func (r *reader) count(n *node, where string) int {
	s := n.text
	if r.refers(n) {
		var ok bool
		if s, ok = r.expand(n); !ok {
			return 0
		}
	} else if n.kind != number {
		s = ""
	}
	i, err := strconv.ParseInt(s, 10, 32)
	switch {
	case err != nil:
		r.expect(n, where, "a whole number")
	case i < 0:
		r.bad(n, where, "is negative", "")
	}
	return int(i)
}
