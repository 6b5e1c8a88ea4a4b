package check

import (
	"encoding/json"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// What is looked at of one schema. The time that its compiler takes grows with their square.
const (
	maxSchemas = 10_000 // in it
	maxRefs    = 2_000
)

// A document is a schema that was read once, and all schemas in it.
type document struct {
	nodes []node
	index map[uintptr]int // of nodes, by their objects
	ids   map[string]int  // of nodes that have an $id, by that as a whole URI
	refs  []int           // nodes that have a $ref
	to    []place         // where these lead
	large bool            // it has more than is looked at
}

// A node is one schema of a document.
type node struct {
	schema   map[string]any
	parent   int    // -1 of the whole
	step     string // the way from the parent
	depth    int
	resource int      // the node with the nearest $id at or above it, or the whole
	base     *url.URL // what references are relative to
}

// nowhere is what a schema without an $id is called.
var nowhere = &url.URL{Scheme: "schema", Path: "/"}

// readSchema reads a schema. What is no object has no nodes.
func readSchema(text json.RawMessage) *document {
	d := &document{index: map[uintptr]int{}, ids: map[string]int{}}
	var top any
	if json.Unmarshal(text, &top) == nil {
		d.visit(-1, "#", 1, top)
	}
	for _, i := range d.refs {
		d.to = append(d.to, d.follow(i))
	}
	return d
}

// visit adds a schema and those in it.
func (d *document) visit(parent int, step string, depth int, v any) {
	s, ok := v.(map[string]any)
	if !ok {
		return
	}
	if len(d.nodes) >= maxSchemas {
		d.large = true
		return
	}
	i := len(d.nodes)
	n := node{schema: s, parent: parent, step: step, depth: depth, base: nowhere}
	if parent >= 0 {
		n.resource, n.base = d.nodes[parent].resource, d.nodes[parent].base
	}
	if id, ok := s["$id"].(string); ok && !strings.HasPrefix(id, "#") {
		if at, err := n.base.Parse(id); err == nil {
			at.Fragment = ""
			n.resource, n.base = i, at
			d.ids[at.String()] = i
		}
	}
	d.nodes = append(d.nodes, n)
	d.index[identity(s)] = i
	if _, ok := s["$ref"].(string); ok {
		if len(d.refs) < maxRefs {
			d.refs = append(d.refs, i)
		} else {
			d.large = true
		}
	}
	for _, word := range slices.Sorted(maps.Keys(s)) {
		switch inner := s[word]; word {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			deeper := depth + 1
			if word == "$defs" || word == "definitions" {
				deeper = depth // they are no level of their own
			}
			named, _ := inner.(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(named)) {
				d.visit(i, word+"/"+name, deeper, named[name])
			}
		case "items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames", "unevaluatedItems", "unevaluatedProperties":
			d.visit(i, word, depth+1, inner)
		case "anyOf", "oneOf", "allOf", "prefixItems":
			list, _ := inner.([]any)
			for k, one := range list {
				d.visit(i, word+"/"+strconv.Itoa(k), depth, one)
			}
		}
	}
}

func identity(s map[string]any) uintptr { return reflect.ValueOf(s).Pointer() }

// path returns where a node stands.
func (d *document) path(i int) string {
	var steps []string
	for ; i >= 0; i = d.nodes[i].parent {
		steps = append(steps, d.nodes[i].step)
	}
	slices.Reverse(steps)
	return strings.Join(steps, "/")
}

// ref returns the reference of a node that has one.
func (d *document) ref(i int) string { return d.nodes[i].schema["$ref"].(string) }

// A place is where a reference leads.
type place struct {
	node    int  // -1 if it is no schema of the document, or not known
	missing bool // nothing is there
	foreign bool // it is in another document
}

// unescape reads a part of a JSON pointer.
var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// follow returns where the reference of a node leads. Of anchors only the schema's compiler knows.
func (d *document) follow(i int) place {
	n := &d.nodes[i]
	at, err := n.base.Parse(d.ref(i))
	if err != nil {
		name, ok := strings.CutPrefix(d.ref(i), "#") // which may be a name with a percent sign
		if !ok {
			return place{node: -1, foreign: true}
		}
		own := *d.nodes[n.resource].base
		at, own.Fragment = &own, name
	}
	fragment := at.Fragment // without percent-encoding
	at.Fragment, at.RawFragment = "", ""
	resource, known := d.ids[at.String()]
	if own := d.nodes[n.resource]; !known && at.String() == own.base.String() {
		resource, known = n.resource, true
	}
	switch {
	case !known:
		return place{node: -1, foreign: true}
	case fragment == "":
		return place{node: resource}
	case fragment[0] != '/':
		return place{node: -1}
	}
	var value any = d.nodes[resource].schema
	for part := range strings.SplitSeq(fragment[1:], "/") {
		part = unescape.Replace(part)
		switch v := value.(type) {
		case map[string]any:
			inner, ok := v[part]
			if !ok {
				return place{node: -1, missing: true}
			}
			value = inner
		case []any:
			k, err := strconv.Atoi(part)
			if err != nil || k < 0 || k >= len(v) {
				return place{node: -1, missing: true}
			}
			value = v[k]
		default:
			return place{node: -1, missing: true}
		}
	}
	if s, ok := value.(map[string]any); ok {
		if to, ok := d.index[identity(s)]; ok {
			return place{node: to}
		}
	}
	return place{node: -1}
}

// whole reports whether all references lead somewhere in the document.
func (d *document) whole() bool {
	return !slices.ContainsFunc(d.to, func(p place) bool { return p.missing || p.foreign })
}

// leadsBack returns the first node whose reference leads to something that it is itself a part of,
// by way of others or not; -1 if there is none. A schema leads to those in it and to where its
// reference does: such a reference lies on a circle, so both its ends are in one strongly
// connected part, which Tarjan's algorithm finds in one pass.
func (d *document) leadsBack() int {
	next := make([][]int, len(d.nodes))
	for i := range d.nodes {
		if parent := d.nodes[i].parent; parent >= 0 {
			next[parent] = append(next[parent], i)
		}
	}
	for k, i := range d.refs {
		if to := d.to[k].node; to >= 0 {
			next[i] = append(next[i], to)
		}
	}
	part := make([]int, len(d.nodes))  // by node; 0 while it is not known
	order := make([]int, len(d.nodes)) // in which it was come to; 0 if it was not
	low := make([]int, len(d.nodes))
	var stack []int
	count, parts := 0, 0
	var visit func(int)
	visit = func(i int) {
		count++
		order[i], low[i] = count, count
		stack = append(stack, i)
		for _, to := range next[i] {
			if order[to] == 0 {
				visit(to)
			}
			if part[to] == 0 {
				low[i] = min(low[i], low[to])
			}
		}
		if low[i] != order[i] {
			return
		}
		parts++
		for done := false; !done; {
			last := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			part[last], done = parts, last == i
		}
	}
	for i := range d.nodes {
		if order[i] == 0 {
			visit(i)
		}
	}
	for k, i := range d.refs {
		if to := d.to[k].node; to >= 0 && part[to] == part[i] {
			return i
		}
	}
	return -1
}
