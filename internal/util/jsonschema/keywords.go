package jsonschema

import (
	"encoding/json"
	"errors"
	"math"
	"net/url"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
)

// A keyword is what the schema of schemas says about a member of schemas. Members that are not
// in the list are anybody's.
type keyword struct {
	name        string
	since, last int // dialects that have it so
	read        func(c *compiler, n *node, at *place)
}

// keywords are in the order in which they are read; some say something about one before.
var keywords = []keyword{
	{"type", draft4, latest, func(c *compiler, n *node, at *place) { n.types = c.types(at) }},
	{"const", draft6, latest, func(c *compiler, n *node, at *place) { n.constant = c.values(at) }},
	{"enum", draft4, draft7, func(c *compiler, n *node, at *place) { n.enum = c.distinct(at) }},
	{"enum", draft2019, latest, func(c *compiler, n *node, at *place) { n.enum = c.compared(at) }},

	{"minimum", draft4, latest, func(c *compiler, n *node, at *place) { n.minimum = c.number(at) }},
	{"maximum", draft4, latest, func(c *compiler, n *node, at *place) { n.maximum = c.number(at) }},
	{"exclusiveMinimum", draft4, draft4, func(c *compiler, n *node, at *place) { c.exclusive(at, &n.minimum, &n.above) }},
	{"exclusiveMaximum", draft4, draft4, func(c *compiler, n *node, at *place) { c.exclusive(at, &n.maximum, &n.below) }},
	{"exclusiveMinimum", draft6, latest, func(c *compiler, n *node, at *place) { n.above = c.number(at) }},
	{"exclusiveMaximum", draft6, latest, func(c *compiler, n *node, at *place) { n.below = c.number(at) }},
	{"multipleOf", draft4, latest, func(c *compiler, n *node, at *place) { n.multipleOf = c.positive(at) }},

	{"minLength", draft4, latest, func(c *compiler, n *node, at *place) { n.length.min = c.count(at) }},
	{"maxLength", draft4, latest, func(c *compiler, n *node, at *place) { n.length.max = new(c.count(at)) }},
	{"pattern", draft4, latest, func(c *compiler, n *node, at *place) { n.pattern = c.pattern(at, c.text(at)) }},

	{"minItems", draft4, latest, func(c *compiler, n *node, at *place) { n.size.min = c.count(at) }},
	{"maxItems", draft4, latest, func(c *compiler, n *node, at *place) { n.size.max = new(c.count(at)) }},
	{"uniqueItems", draft4, latest, func(c *compiler, n *node, at *place) { n.uniqueItems = c.flag(at) }},
	{"prefixItems", draft2020, latest, func(c *compiler, n *node, at *place) { n.first = c.schemas(at) }},
	{"items", draft4, draft2019, func(c *compiler, n *node, at *place) { c.items(n, at) }},
	{"items", draft2020, latest, func(c *compiler, n *node, at *place) { n.items = c.schema(at) }},
	{"additionalItems", draft4, draft2019, func(c *compiler, n *node, at *place) { c.moreItems(n, at) }},
	{"contains", draft6, latest, func(c *compiler, n *node, at *place) { c.contains(n, at) }},
	{"minContains", draft2019, latest, func(c *compiler, n *node, at *place) { n.contained.min = c.count(at) }},
	{"maxContains", draft2019, latest, func(c *compiler, n *node, at *place) { n.contained.max = new(c.count(at)) }},
	{"unevaluatedItems", draft2019, latest, func(c *compiler, n *node, at *place) { n.unevaluatedItems = c.schema(at) }},

	{"minProperties", draft4, latest, func(c *compiler, n *node, at *place) { n.members.min = c.count(at) }},
	{"maxProperties", draft4, latest, func(c *compiler, n *node, at *place) { n.members.max = new(c.count(at)) }},
	{"required", draft4, latest, func(c *compiler, n *node, at *place) { n.required = c.strings(at) }},
	{"properties", draft4, latest, func(c *compiler, n *node, at *place) { n.properties = c.named(at) }},
	{"patternProperties", draft4, latest, func(c *compiler, n *node, at *place) { n.patternProperties = c.matching(at) }},
	{"additionalProperties", draft4, latest, func(c *compiler, n *node, at *place) { n.additional = c.additional(at) }},
	{"propertyNames", draft6, latest, func(c *compiler, n *node, at *place) { n.propertyNames = c.schema(at) }},
	{"dependencies", draft4, latest, func(c *compiler, n *node, at *place) { c.dependencies(n, at) }},
	{"dependentSchemas", draft2019, latest, func(c *compiler, n *node, at *place) { c.dependencies(n, at) }},
	{"dependentRequired", draft2019, latest, func(c *compiler, n *node, at *place) { c.dependencies(n, at) }},
	{"unevaluatedProperties", draft2019, latest, func(c *compiler, n *node, at *place) { n.unevaluatedProperties = c.schema(at) }},

	{"allOf", draft4, latest, func(c *compiler, n *node, at *place) { n.allOf = c.schemas(at) }},
	{"anyOf", draft4, latest, func(c *compiler, n *node, at *place) { n.anyOf = c.schemas(at) }},
	{"oneOf", draft4, latest, func(c *compiler, n *node, at *place) { n.oneOf = c.schemas(at) }},
	{"not", draft4, latest, func(c *compiler, n *node, at *place) { n.not = c.schema(at) }},
	{"if", draft7, latest, func(c *compiler, n *node, at *place) { n.when = c.schema(at) }},
	{"then", draft7, latest, func(c *compiler, n *node, at *place) { n.then = c.branch(n, at, false) }},
	{"else", draft7, latest, func(c *compiler, n *node, at *place) { n.other = c.branch(n, at, true) }},

	// These say nothing about values.
	{"title", draft4, latest, func(c *compiler, _ *node, at *place) { c.text(at) }},
	{"description", draft4, latest, func(c *compiler, _ *node, at *place) { c.text(at) }},
	{"format", draft4, latest, func(c *compiler, _ *node, at *place) { c.text(at) }},
	{"$comment", draft7, latest, func(c *compiler, _ *node, at *place) { c.text(at) }},
	{"contentEncoding", draft7, latest, func(c *compiler, _ *node, at *place) { c.text(at) }},
	{"contentMediaType", draft7, latest, func(c *compiler, _ *node, at *place) { c.text(at) }},
	{"contentSchema", draft2019, latest, func(c *compiler, _ *node, at *place) { c.schema(at) }},
	{"readOnly", draft7, latest, func(c *compiler, _ *node, at *place) { c.flag(at) }},
	{"writeOnly", draft7, latest, func(c *compiler, _ *node, at *place) { c.flag(at) }},
	{"deprecated", draft2019, latest, func(c *compiler, _ *node, at *place) { c.flag(at) }},
	{"examples", draft6, latest, func(c *compiler, _ *node, at *place) { c.list(at) }},

	// These name schemas, and lead to them.
	{"definitions", draft4, latest, func(c *compiler, _ *node, at *place) { c.named(at) }},
	{"$defs", draft2019, latest, func(c *compiler, _ *node, at *place) { c.named(at) }},
	{"$schema", draft4, latest, func(c *compiler, _ *node, at *place) { c.address(at) }},
	{"$vocabulary", draft2019, latest, func(c *compiler, _ *node, at *place) { c.flags(at) }},
	{"id", draft4, draft4, func(c *compiler, _ *node, at *place) { c.address(at) }},
	{"$id", draft6, draft7, func(c *compiler, _ *node, at *place) { c.address(at) }},
	{"$id", draft2019, latest, func(c *compiler, _ *node, at *place) { c.whole(at) }},
	{"$anchor", draft2019, latest, func(c *compiler, _ *node, at *place) { c.anchorName(at) }},
	{"$dynamicAnchor", draft2020, latest, func(c *compiler, _ *node, at *place) { c.anchorName(at) }},
	{"$recursiveAnchor", draft2019, draft2019, func(c *compiler, _ *node, at *place) { c.flag(at) }},
	{"$recursiveAnchor", draft2020, latest, func(c *compiler, _ *node, at *place) { c.anchorName(at) }},
	{"$recursiveRef", draft2019, latest, func(c *compiler, n *node, at *place) { n.unknown = true; c.address(at) }},
	{"$dynamicRef", draft2020, latest, func(c *compiler, n *node, at *place) { n.unknown = true; c.address(at) }},
	{"$ref", draft4, draft7, func(c *compiler, n *node, at *place) { *n = node{}; c.ref(n, at) }}, // nothing else counts
	{"$ref", draft2019, latest, func(c *compiler, n *node, at *place) { c.ref(n, at) }},
}

// anchorName reads a name that is one of those that anchors may have.
func (c *compiler) anchorName(at *place) {
	name, draft := c.text(at), at.res.draft
	good := name != ""
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' && (i > 0 || draft == draft2020)
		further := r >= '0' && r <= '9' || r == '-' || r == '.' || r == ':' && draft == draft2019
		good = good && (letter || i > 0 && further)
	}
	if !good {
		c.isNot(at, "a name of letters, digits and -._")
	}
}

func (c *compiler) object(at *place) {
	if _, ok := at.value.(map[string]any); !ok {
		c.isNot(at, "an object")
	}
}

func (c *compiler) text(at *place) string {
	text, ok := at.value.(string)
	if !ok {
		c.isNot(at, "a string")
	}
	return text
}

func (c *compiler) address(at *place) {
	if _, err := url.Parse(c.text(at)); err != nil {
		c.isNot(at, "a URL")
	}
}

// ref reads where a schema refers to.
func (c *compiler) ref(n *node, at *place) {
	c.address(at)
	c.refs[n] = at
}

// whole reads a URL of all that is in a schema.
func (c *compiler) whole(at *place) {
	c.address(at)
	if _, fragment, _ := strings.Cut(c.text(at), "#"); fragment != "" {
		c.isNot(at, "a URL without a fragment")
	}
}

func (c *compiler) flag(at *place) bool {
	flag, ok := at.value.(bool)
	if !ok {
		c.isNot(at, "true or false")
	}
	return flag
}

func (c *compiler) flags(at *place) {
	c.object(at)
	for _, name := range at.names() {
		c.flag(at.down(name))
	}
}

// number reads a number, which is 1 if there is none.
func (c *compiler) number(at *place) *number {
	text, ok := at.value.(json.Number)
	switch {
	case !ok:
		c.isNot(at, "a number")
	case tooLong(string(text)):
		c.wrong(at, tooManyDigits)
	default:
		return new(numberOf(text))
	}
	return &number{small: 1}
}

func (c *compiler) positive(at *place) *number {
	n := c.number(at)
	if n.cmp(&number{}) <= 0 {
		c.isNot(at, "more than 0")
	}
	return n
}

// exclusive reads a flag of draft 4, which says that a limit is another one.
func (c *compiler) exclusive(at *place, limit, other **number) {
	if *limit == nil {
		c.wrong(at, "there is no limit that it is about")
	}
	if c.flag(at) {
		*limit, *other = nil, *limit
	}
}

// count reads how many of something there may be. What is more than there can be of anything
// is as much as there can be.
func (c *compiler) count(at *place) int {
	n := c.number(at)
	if !n.isInt() || n.cmp(&number{}) < 0 {
		c.isNot(at, "a whole number from 0 on")
	}
	if n.cmp(&number{small: math.MaxInt32}) > 0 {
		return math.MaxInt32
	}
	f, _ := n.ratio().Float64() // exact, as it is no more than that
	return int(f)
}

// strings reads a list in which no string is there twice, and in draft 4 at least one.
func (c *compiler) strings(at *place) (all []string) {
	list := c.list(at)
	there := make(map[string]bool)
	for i := range list {
		name := c.text(at.down(strconv.Itoa(i)))
		if there[name] {
			c.wrong(at, "%s is there twice", spell(name))
		}
		there[name] = true
		all = append(all, name)
	}
	if len(all) == 0 && at.res.draft == draft4 {
		c.wrong(at, "there is nothing in the list")
	}
	return all
}

func (c *compiler) types(at *place) (all kinds) {
	list, ok := at.value.([]any)
	if !ok {
		list = []any{at.value}
	}
	for _, v := range list {
		name, _ := v.(string)
		kind := kindNamed(name)
		switch {
		case kind == 0:
			c.wrong(at, "%s is not a type", spell(v))
		case all&kind != 0:
			c.wrong(at, "%s is there twice", spell(v))
		}
		all |= kind
	}
	if len(list) == 0 {
		c.isNot(at, "a type")
	}
	return all
}

// list reads a list, which is not nil.
func (c *compiler) list(at *place) []any {
	list, ok := at.value.([]any)
	if !ok {
		c.isNot(at, "a list")
		return []any{}
	}
	return list
}

// compared reads a list of values.
func (c *compiler) compared(at *place) []any {
	c.values(at)
	return c.list(at)
}

// distinct reads a list in which there is something, and nothing twice.
func (c *compiler) distinct(at *place) []any {
	list := c.compared(at)
	if len(list) == 0 {
		c.wrong(at, "there is nothing in the list")
	}
	if c.err == nil {
		if i, _ := (&run{left: MaxSteps}).twice(list); i >= 0 {
			c.wrong(at, "%s is there twice", spell(list[i]))
		}
	}
	return list
}

// values sees to it that the numbers at a place can be compared.
func (c *compiler) values(at *place) *any {
	if where, bad := unbounded(at.value); bad {
		c.wrong(at, "%s", strings.TrimSpace(where+" "+tooManyDigits))
	}
	return new(at.value) // a pointer into at would keep all of the text
}

// additional reads a schema, which may be a flag in draft 4 as well.
func (c *compiler) additional(at *place) *node {
	if flag, ok := at.value.(bool); ok {
		return &node{never: !flag}
	}
	return c.schema(at)
}

// schemas reads a list of them, which may not be empty.
func (c *compiler) schemas(at *place) (all []*node) {
	list, _ := at.value.([]any)
	if len(list) == 0 {
		c.isNot(at, "a list of schemas")
	}
	for i := range list {
		all = append(all, c.schema(at.down(strconv.Itoa(i))))
	}
	return all
}

// named reads schemas that have names.
func (c *compiler) named(at *place) map[string]*node {
	c.object(at)
	all := make(map[string]*node)
	for _, name := range at.names() {
		all[name] = c.schema(at.down(name))
	}
	return all
}

func (c *compiler) matching(at *place) (all []matching) {
	schemas := c.named(at)
	for _, name := range at.names() {
		all = append(all, matching{c.pattern(at, name), schemas[name]})
	}
	return all
}

// items reads one schema for all items, or one each for the first.
func (c *compiler) items(n *node, at *place) {
	if _, list := at.value.([]any); list {
		n.first = c.schemas(at)
	} else {
		n.items = c.schema(at)
	}
}

// moreItems reads the schema of those behind the first.
func (c *compiler) moreItems(n *node, at *place) {
	if more := c.additional(at); n.first != nil {
		n.items = more
	}
}

func (c *compiler) contains(n *node, at *place) {
	n.contains = c.schema(at)
	n.contained.min = 1 // unless there is minContains
	n.evaluates = at.res.draft == draft2020
}

// branch reads then or else, and returns nil if the other one is always taken.
func (c *compiler) branch(n *node, at *place, other bool) *node {
	s := c.schema(at)
	if n.when == nil || at.up.down("if").value == other {
		return nil
	}
	return s
}

// dependencies reads what members need, which are other members, or schemas that fit.
func (c *compiler) dependencies(n *node, at *place) {
	c.object(at)
	for _, name := range at.names() {
		to := at.down(name)
		d := dependency{name: name}
		if _, list := to.value.([]any); at.step == "dependentRequired" || list && at.step == "dependencies" {
			d.required = c.strings(to)
		} else {
			d.node = c.schema(to)
		}
		n.dependencies = append(n.dependencies, d)
	}
}

// pattern compiles an expression, once. One that uses what Go lacks is known to nobody here.
func (c *compiler) pattern(at *place, text string) *pattern {
	if p := c.patterns[text]; p != nil {
		return p
	}
	p := &pattern{states: len(text)}
	if strings.Contains(text, "{") {
		p.states *= repeated
	}
	var err error
	if p.Regexp, err = regexp.Compile(text); err != nil && !lacking(err) {
		c.wrong(at, "%s is not a regular expression", spell(text))
	}
	c.patterns[text] = p
	return p
}

// lacking reports whether an expression may be right in the language of schemas, ECMAScript:
// lookaround, back references, further classes and escapes, large repetitions.
func lacking(err error) bool {
	e, _ := errors.AsType[*syntax.Error](err)
	switch e.Code {
	case syntax.ErrInvalidPerlOp, syntax.ErrInvalidEscape, syntax.ErrInvalidRepeatSize, syntax.ErrLarge, syntax.ErrNestingDepth:
		return true
	case syntax.ErrInvalidCharRange:
		return strings.Contains(e.Expr, `\`)
	}
	return false
}
