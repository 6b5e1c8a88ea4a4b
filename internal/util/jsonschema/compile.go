package jsonschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The dialects.
const (
	draft4    = 4
	draft6    = 6
	draft7    = 7
	draft2019 = 2019
	draft2020 = 2020
	latest    = draft2020
)

const (
	// maxNodes is how many schemas there may be in one. Compiled, {} is a hundred times as large.
	maxNodes = 10_000

	// maxURL is how long a schema's URL may be, in bytes. Each can make those in it longer.
	maxURL = 1024
)

// dialect returns what a $schema names, or 0.
func dialect(name string) int {
	name = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(name, "#"), "http://"), "https://")
	switch name {
	case "json-schema.org/draft-04/schema":
		return draft4
	case "json-schema.org/draft-06/schema":
		return draft6
	case "json-schema.org/draft-07/schema":
		return draft7
	case "json-schema.org/draft/2019-09/schema":
		return draft2019
	case "json-schema.org/draft/2020-12/schema", "json-schema.org/schema":
		return draft2020
	}
	return 0
}

// A node is a compiled schema. The zero value is one that every value fits.
type node struct {
	never   bool // nothing fits
	unknown bool // what it asks for is known on the way only, or not at all
	ref     *node

	types    kinds // 0 if any
	constant *any
	enum     []any // nil if any; it may be empty

	minimum, maximum *number
	above, below     *number // exclusive
	multipleOf       *number

	length  bounds
	pattern *pattern

	first       []*node // of the first items, one each
	items       *node   // of those behind them
	contains    *node
	contained   bounds
	evaluates   bool // contains says which items are evaluated
	size        bounds
	uniqueItems bool

	members           bounds
	required          []string
	properties        map[string]*node
	patternProperties []matching
	additional        *node
	propertyNames     *node
	dependencies      []dependency

	allOf, anyOf, oneOf    []*node
	not, when, then, other *node

	unevaluatedItems, unevaluatedProperties *node
}

// bounds are how many there may be of something.
type bounds struct {
	min int
	max *int // nil if there is no end
}

// A pattern is an expression and what it costs to look for it.
type pattern struct {
	*regexp.Regexp     // nil if Go lacks something that it uses, so that nobody knows what matches
	states         int // about
}

// matching is what holds for members with a name like that.
type matching struct {
	*pattern
	node *node
}

// A dependency is what holds if there is a member of that name.
type dependency struct {
	name     string
	required []string
	node     *node // or nil
}

// A place is a value within a schema, which need not be a schema itself.
type place struct {
	up    *place
	step  string // from up to here: a name or an index
	value any
	below map[string]*place // as far as they were asked for
	node  *node             // once it is compiled as a schema
	res   *resource         // which it is in
}

// down returns the place a step below, or nil.
func (p *place) down(step string) *place {
	if q := p.below[step]; q != nil {
		return q
	}
	var value any
	found := false
	switch v := p.value.(type) {
	case map[string]any:
		value, found = v[step]
	case []any:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(v) && strconv.Itoa(i) == step {
			value, found = v[i], true
		}
	}
	if !found {
		return nil
	}
	if p.below == nil {
		p.below = make(map[string]*place)
	}
	q := &place{up: p, step: step, value: value, res: p.res}
	p.below[step] = q
	return q
}

// names returns the names of what is below, in their order.
func (p *place) names() []string {
	v, _ := p.value.(map[string]any)
	return slices.Sorted(maps.Keys(v))
}

// String returns the place as a JSON pointer.
func (p *place) String() string {
	var steps []string
	for ; p.up != nil; p = p.up {
		steps = append(steps, "/"+strings.ReplaceAll(strings.ReplaceAll(p.step, "~", "~0"), "/", "~1"))
	}
	slices.Reverse(steps)
	return strings.Join(steps, "")
}

// A resource is a schema with a URL of its own, and what is in it.
type resource struct {
	place   *place
	base    *url.URL
	draft   int
	anchors map[string]*place
}

// A compiler makes nodes of schemas.
type compiler struct {
	keywords  []keyword            // which lead back to it, and Go would call that a cycle
	resources map[string]*resource // by URL
	patterns  map[string]*pattern
	refs      map[*node]*place // what schemas refer to
	used      map[*node]bool   // whether a check can get to them
	queue     []*node          // those of them whose references are not resolved
	nodes     int              // so far
	err       error            // the first
}

// compile returns an error for what cannot be compiled.
func compile(text json.RawMessage) (*node, error) {
	doc, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	c := &compiler{keywords: keywords, resources: make(map[string]*resource), patterns: make(map[string]*pattern), refs: make(map[*node]*place), used: make(map[*node]bool)}
	n := c.schema(&place{value: doc, res: &resource{base: &url.URL{Scheme: "schema", Path: "/arguments"}, draft: draft2020}})
	c.use(n)
	for len(c.queue) > 0 && c.err == nil {
		from := c.queue[0]
		c.queue = c.queue[1:]
		from.ref = c.resolve(c.refs[from])
		c.use(from.ref)
	}
	if c.err != nil {
		return nil, c.err
	}
	return n, nil
}

// use sees to it that the references of n, and of all that is in it, are resolved. Those in
// definitions that nobody uses may lead nowhere.
func (c *compiler) use(n *node) {
	if n == nil || c.used[n] {
		return
	}
	c.used[n] = true
	if c.refs[n] != nil {
		c.queue = append(c.queue, n)
	}
	for _, list := range [...][]*node{
		n.first, {n.items, n.contains}, {n.additional, n.propertyNames}, n.allOf, n.anyOf, n.oneOf, {n.not, n.when, n.then, n.other},
		{n.unevaluatedItems, n.unevaluatedProperties},
	} {
		for _, s := range list {
			c.use(s)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.properties)) {
		c.use(n.properties[name])
	}
	for _, p := range n.patternProperties {
		c.use(p.node)
	}
	for _, d := range n.dependencies {
		c.use(d.node)
	}
}

// wrong notes what is wrong with a place, if it is the first such.
func (c *compiler) wrong(at *place, format string, args ...any) {
	if c.err != nil {
		return
	}
	text := fmt.Sprintf(format, args...)
	if where := at.String(); where != "" {
		text = where + ": " + text
	}
	c.err = errors.New(text)
}

// isNot notes that a value is not what it should be.
func (c *compiler) isNot(at *place, what string) {
	if c.err == nil {
		c.wrong(at, "%s is not %s", spell(at.value), what)
	}
}

// schema compiles what is at a place, unless that has been done. What cannot be compiled is noted.
func (c *compiler) schema(at *place) *node {
	if at.node != nil {
		return at.node
	}
	n := &node{}
	if c.err != nil {
		return n // of which nothing will be used
	}
	at.node = n // before anything that leads back to it
	if c.nodes++; c.nodes > maxNodes {
		c.wrong(at, "there are more than %d schemas", maxNodes)
	}
	switch v := at.value.(type) {
	case bool:
		n.never = !v
		if at.res.draft == draft4 {
			c.isNot(at, "a schema of draft 4")
		}
	case map[string]any:
		c.identify(at, v)
		draft := at.res.draft
		for i := range c.keywords {
			k := &c.keywords[i]
			if k.since > draft || draft > k.last {
				continue
			}
			if word := at.down(k.name); word != nil {
				k.read(c, n, word)
			}
		}
	default:
		c.isNot(at, "a schema")
	}
	return n
}

// identify begins a resource at a place, if one does, and notes the anchors that name it.
func (c *compiler) identify(at *place, v map[string]any) {
	outer := at.res
	draft := outer.draft
	if name, ok := v["$schema"].(string); ok {
		if draft = dialect(name); draft == 0 {
			c.isNot(at.down("$schema"), "a dialect that is known")
		}
	}
	id, fragment := identifier(v, draft)
	if id == "" && at.up != nil {
		draft = outer.draft // $schema is for resources
		id, fragment = identifier(v, draft)
	}
	if id != "" || at.up == nil {
		at.res = c.resource(at, outer.base, id, draft)
		at.below = nil // somebody may have been there, in another resource
	}
	if draft <= draft7 {
		if fragment != "" && fragment[0] != '/' {
			c.anchor(at, fragment)
		}
		return
	}
	if name, ok := v["$anchor"].(string); ok {
		c.anchor(at, name)
	}
	if name, ok := v["$dynamicAnchor"].(string); ok && draft == draft2020 {
		c.anchor(at, name)
	}
}

// identifier returns the URL that a schema gives itself, and the fragment of that.
func identifier(v map[string]any, draft int) (id, fragment string) {
	word := "$id"
	if draft == draft4 {
		word = "id"
	}
	if _, ok := v["$ref"]; ok && draft <= draft7 {
		return "", ""
	}
	text, _ := v[word].(string)
	id, fragment, _ = strings.Cut(text, "#")
	return id, fragment
}

func (c *compiler) resource(at *place, base *url.URL, id string, draft int) *resource {
	if u, err := base.Parse(id); err == nil {
		base = u
	}
	r := &resource{place: at, base: base, draft: draft, anchors: make(map[string]*place)}
	switch name := base.String(); {
	case len(name) > maxURL:
		c.wrong(at, "its URL has more than %d bytes", maxURL)
	case c.resources[name] != nil:
		c.wrong(at, "another schema has the URL %s as well", clip(name))
	default:
		c.resources[name] = r
	}
	return r
}

func (c *compiler) anchor(at *place, name string) {
	anchors := at.res.anchors
	if other := anchors[name]; other != nil && other != at {
		c.wrong(at, "another schema has the anchor %s as well", clip(name))
	}
	anchors[name] = at
}

// resolve returns where a reference leads.
func (c *compiler) resolve(at *place) *node {
	text, _ := at.value.(string)
	address, fragment, _ := strings.Cut(text, "#")
	in := at.res
	if address != "" {
		u, _ := in.base.Parse(address) // it was parsed when it was read
		if in = c.resources[u.String()]; in == nil {
			if u.Host == "json-schema.org" { // the schemas of schemas, which use $dynamicRef
				return &node{unknown: true}
			}
			c.wrong(at, "%s is in another document, and none is loaded", spell(text))
			return &node{}
		}
	}
	to := in.find(fragment)
	if to == nil {
		c.wrong(at, "%s leads nowhere", spell(text))
		return &node{}
	}
	return c.schema(to)
}

// find returns what the fragment of a URL stands for, or nil.
func (r *resource) find(fragment string) *place {
	fragment, _ = url.PathUnescape(fragment) // it was parsed with its URL
	if fragment != "" && fragment[0] != '/' {
		return r.anchors[fragment]
	}
	at := r.place
	for _, step := range strings.Split(fragment, "/")[1:] {
		if at = at.down(strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")); at == nil {
			return nil
		}
	}
	return at
}
