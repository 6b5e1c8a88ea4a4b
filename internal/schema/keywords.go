package schema

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

// since returns the first dialect that has a keyword.
func since(name string) int {
	switch name {
	case "$id", "const", "contains", "examples", "propertyNames":
		return draft6
	case "$comment", "contentEncoding", "contentMediaType", "else", "if", "readOnly", "then", "writeOnly":
		return draft7
	case "$anchor", "$defs", "$recursiveAnchor", "$recursiveRef", "$vocabulary", "contentSchema", "dependentRequired",
		"dependentSchemas", "deprecated", "maxContains", "minContains", "unevaluatedItems", "unevaluatedProperties":
		return draft2019
	case "$dynamicAnchor", "$dynamicRef", "prefixItems":
		return draft2020
	}
	return draft4
}

// keyword reads what stands at a keyword of a schema, and notes it if the schema of schemas
// does not allow it there. Other words are anybody's.
func (c *compiler) keyword(n *node, draft int, name string, at *place) {
	switch name {
	case "type":
		n.types = c.types(at)
	case "const":
		n.constant = &at.value
		c.values(at, at.value)
	case "enum":
		n.enum, n.hasEnum = c.enum(at, draft), true
	case "not":
		n.not = c.schema(at)
	case "if":
		n.when = c.schema(at)
	case "then":
		n.then = c.schema(at)
	case "else":
		n.other = c.schema(at)
	case "allOf":
		n.allOf = c.schemas(at)
	case "anyOf":
		n.anyOf = c.schemas(at)
	case "oneOf":
		n.oneOf = c.schemas(at)
	case "$defs", "definitions":
		c.named(at)
	case "contentSchema":
		c.schema(at)
	case "pattern":
		n.pattern = c.pattern(at, c.text(at))
	case "minLength":
		n.length.min = c.count(at)
	case "maxLength":
		n.length.max = new(c.count(at))
	default:
		c.numberKeyword(n, draft, name, at)
		c.objectKeyword(n, draft, name, at)
		c.arrayKeyword(n, draft, name, at)
		c.coreKeyword(n, draft, name, at)
	}
}

func (c *compiler) numberKeyword(n *node, draft int, name string, at *place) {
	switch name {
	case "minimum":
		n.minimum = c.number(at)
		if draft == draft4 && at.up.value.(map[string]any)["exclusiveMinimum"] == true {
			n.minimum, n.above = nil, n.minimum
		}
	case "maximum":
		n.maximum = c.number(at)
		if draft == draft4 && at.up.value.(map[string]any)["exclusiveMaximum"] == true {
			n.maximum, n.below = nil, n.maximum
		}
	case "exclusiveMinimum":
		if draft == draft4 {
			c.exclusive(at, "minimum")
		} else {
			n.above = c.number(at)
		}
	case "exclusiveMaximum":
		if draft == draft4 {
			c.exclusive(at, "maximum")
		} else {
			n.below = c.number(at)
		}
	case "multipleOf":
		n.multipleOf = c.number(at)
		if n.multipleOf.cmp(&number{}) <= 0 {
			c.isNot(at, "more than 0")
		}
	}
}

func (c *compiler) objectKeyword(n *node, draft int, name string, at *place) {
	switch name {
	case "minProperties":
		n.members.min = c.count(at)
	case "maxProperties":
		n.members.max = new(c.count(at))
	case "required":
		n.required = c.strings(at)
		if draft == draft4 && len(n.required) == 0 {
			c.isNot(at, "allowed in draft 4")
		}
	case "properties":
		n.properties = c.named(at)
	case "patternProperties":
		schemas := c.named(at)
		for _, name := range at.names() {
			n.patternProperties = append(n.patternProperties, matching{c.pattern(at.down(name), name), schemas[name]})
		}
	case "additionalProperties":
		n.additional = c.additional(at)
	case "propertyNames":
		n.propertyNames = c.schema(at)
	case "unevaluatedProperties":
		n.unevaluatedProperties = c.schema(at)
	case "dependentRequired", "dependentSchemas", "dependencies":
		c.dependencies(n, draft, name, at)
	}
}

func (c *compiler) arrayKeyword(n *node, draft int, name string, at *place) {
	_, list := at.value.([]any)
	switch name {
	case "minItems":
		n.size.min = c.count(at)
	case "maxItems":
		n.size.max = new(c.count(at))
	case "uniqueItems":
		n.uniqueItems = c.flag(at)
	case "prefixItems":
		n.first = c.schemas(at)
	case "items":
		if list && draft < draft2020 {
			n.first = c.schemas(at)
		} else {
			n.items = c.schema(at)
		}
	case "additionalItems":
		if draft == draft2020 {
			return
		}
		rest := c.additional(at)
		if _, tuple := at.up.value.(map[string]any)["items"].([]any); tuple {
			n.items = rest
		}
	case "contains":
		n.contains = c.schema(at)
		n.evaluates = draft == draft2020
		if _, ok := at.up.value.(map[string]any)["minContains"]; !ok || draft < draft2019 {
			n.contained.min = 1
		}
	case "minContains":
		n.contained.min = c.count(at)
	case "maxContains":
		n.contained.max = new(c.count(at))
	case "unevaluatedItems":
		n.unevaluatedItems = c.schema(at)
	}
}

// coreKeyword reads names, references and words that say nothing about values.
func (c *compiler) coreKeyword(n *node, draft int, name string, at *place) {
	switch name {
	case "$dynamicRef", "$recursiveRef":
		n.unknown = true
		c.address(at)
	case "$ref":
		c.address(at)
	case "$schema":
		c.address(at)
	case "id", "$id":
		if (draft == draft4) != (name == "id") {
			return
		}
		c.address(at)
		if _, fragment, _ := strings.Cut(c.text(at), "#"); fragment != "" && draft >= draft2019 {
			c.isNot(at, "a URL without a fragment")
		}
	case "$anchor", "$dynamicAnchor":
		if !plainAnchor(c.text(at), draft) {
			c.isNot(at, "a name of letters, digits and -._")
		}
	case "$recursiveAnchor":
		if draft == draft2019 {
			c.flag(at)
		} else if !plainAnchor(c.text(at), draft) {
			c.isNot(at, "a name")
		}
	case "title", "description", "format", "$comment", "contentEncoding", "contentMediaType":
		c.text(at)
	case "readOnly", "writeOnly", "deprecated":
		c.flag(at)
	case "examples":
		if _, ok := at.value.([]any); !ok {
			c.isNot(at, "a list")
		}
	case "$vocabulary":
		c.object(at)
		for _, name := range at.names() {
			c.flag(at.down(name))
		}
	}
}

// plainAnchor reports whether a name is one of those that anchors may have.
func plainAnchor(name string, draft int) bool {
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' && (i > 0 || draft == draft2020)
		further := r >= '0' && r <= '9' || r == '-' || r == '.' || r == ':' && draft == draft2019
		if !letter && (i == 0 || !further) {
			return false
		}
	}
	return name != ""
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

func (c *compiler) flag(at *place) bool {
	flag, ok := at.value.(bool)
	if !ok {
		c.isNot(at, "true or false")
	}
	return flag
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
		n := numberOf(text)
		return &n
	}
	return &number{small: 1}
}

// exclusive reads a flag of draft 4, which says something about another keyword.
func (c *compiler) exclusive(at *place, other string) {
	c.flag(at)
	if at.up.down(other) == nil {
		c.wrong(at, "there is no %s that it is about", other)
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

// strings reads a list in which no string is there twice.
func (c *compiler) strings(at *place) (all []string) {
	list, ok := at.value.([]any)
	if !ok {
		c.isNot(at, "a list of strings")
	}
	there := make(map[string]bool)
	for i := range list {
		name := c.text(at.down(strconv.Itoa(i)))
		if there[name] {
			c.wrong(at, "%s is there twice", spell(name))
		}
		there[name] = true
		all = append(all, name)
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

func (c *compiler) enum(at *place, draft int) []any {
	list, ok := at.value.([]any)
	if !ok {
		c.isNot(at, "a list")
	}
	c.values(at, list)
	if draft > draft7 || c.err != nil {
		return list
	}
	if len(list) == 0 {
		c.isNot(at, "a list with something in it")
	}
	if i, _ := (&run{left: MaxSteps}).twice(list); i >= 0 {
		c.wrong(at, "%s is there twice", spell(list[i]))
	}
	return list
}

// values sees to it that the numbers in v can be compared.
func (c *compiler) values(at *place, v any) {
	if where, bad := unbounded(v); bad {
		c.wrong(at, "%s %s", strings.TrimPrefix(where, "."), tooManyDigits)
	}
}

// additional reads a schema, or in draft 4 also a flag.
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

// dependencies reads what names need, which are other names, or schemas, or either.
func (c *compiler) dependencies(n *node, draft int, word string, at *place) {
	c.object(at)
	for _, name := range at.names() {
		to := at.down(name)
		d := dependency{name: name}
		if _, list := to.value.([]any); word == "dependentRequired" || list && word == "dependencies" {
			d.required = c.strings(to)
			if draft == draft4 && len(d.required) == 0 {
				c.isNot(to, "allowed in draft 4")
			}
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
