package jsonschema

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// MaxSteps is how many steps a check may take: one is to look at one value with one
	// schema. A few lines of references to references make more than can ever be taken.
	MaxSteps = 100_000

	// maxNested is how deep schemas and values may lead into one another. A reference that
	// leads back to itself ends here.
	maxNested = 1000

	// repeated is how many states a counted repetition in a pattern may have.
	repeated = 1000

	// matched is how many states of a pattern times bytes of a text cost a step.
	matched = 256

	// scanned is how many bytes of a text cost a step where they are only counted or copied.
	scanned = 4096

	// passed is how many names cost a step where they are only looked for.
	passed = 16

	// fraction is how many steps it takes to compute with a number that is no small integer.
	fraction = 10
)

// A run is a check in progress. All that a schema asks for is looked at, also if something has
// been found, so that the steps that it takes do not depend on the order.
type run struct {
	left, nested int // steps, and levels so far

	// guessed is whether a pattern was taken to match that nobody here can look for. What does
	// not fit then does not fit in any case; what fits may not.
	guessed bool

	// What is found is described by a run of its own, if there is anything.
	describing bool
	path       []string
	most       int // violations
	found      []Violation
}

// validate returns what is wrong with v, and whether that could be found out.
func validate(n *node, v any) (wrong *Error, checked bool) {
	r := &run{left: MaxSteps}
	fits := r.check(n, v, nil)
	if fits || r.left < 0 {
		return nil, r.left >= 0
	}
	d := &run{left: MaxSteps, describing: true, most: MaxViolations}
	d.check(n, v, nil)
	if len(d.found) == 0 { // to say what takes more steps than to see that there is something
		d.found = []Violation{{root, "does not fit the schema"}}
	}
	return &Error{Violations: d.found}, true
}

// over reports whether no more need be looked at.
func (r *run) over() bool { return r.left < 0 || r.describing && len(r.found) >= r.most }

// check reports whether v fits a schema. It adds what that has evaluated of v to seen, if that
// is not nil, and more than that if it does not fit.
func (r *run) check(n *node, v any, seen *evaluated) bool {
	if r.left--; n.unknown || r.nested >= maxNested {
		r.left = -1
	}
	if r.over() {
		return true
	}
	r.nested++
	ok := r.fits(n, v, seen)
	r.nested--
	return ok
}

func (r *run) fits(n *node, v any, seen *evaluated) bool {
	if n.never {
		return r.fails("is not allowed")
	}
	if !r.same(n, v) {
		return false // what else could be said about it is of no use
	}
	if seen == nil && (n.unevaluatedItems != nil || n.unevaluatedProperties != nil) {
		seen = new(evaluated)
	}
	before := seen.mark()
	ok := n.ref == nil || r.check(n.ref, v, seen)
	switch v := v.(type) {
	case map[string]any:
		ok = r.object(n, v, seen) && ok
	case []any:
		ok = r.array(n, v, seen) && ok
	case string:
		ok = r.text(n, v) && ok
	case json.Number:
		ok = r.number(n, v) && ok
	}
	ok = r.combined(n, v, seen) && ok
	if !ok {
		return false // nobody knows what would have been evaluated
	}
	return r.rest(n, v, seen, before)
}

// same reports whether v is of a type, and one of the values, that are asked for.
func (r *run) same(n *node, v any) bool {
	if n.types != 0 && !r.isOf(n.types, v) {
		return r.describing && r.fails("is %s, not %s", kindOf(v), n.types)
	}
	if n.constant != nil && !r.equal(v, *n.constant) {
		return r.describing && r.fails("must be %s", spell(*n.constant))
	}
	if n.enum != nil && !slices.ContainsFunc(n.enum, func(one any) bool { return r.equal(v, one) }) {
		return r.describing && r.fails("must be one of %s", spell(n.enum...))
	}
	return true
}

// within reports whether there are neither too few of something nor too many.
func (r *run) within(count int, b *bounds, what string) bool {
	switch {
	case count < b.min:
		return r.fails("has %d %s; at least %d are needed", count, what, b.min)
	case b.max != nil && count > *b.max:
		return r.fails("has %d %s; at most %d are allowed", count, what, *b.max)
	}
	return true
}

func (r *run) text(n *node, v string) bool {
	ok := true
	if n.length.min > 0 || n.length.max != nil {
		r.left -= len(v) / scanned
		ok = r.within(utf8.RuneCountInString(v), &n.length, "characters")
	}
	if n.pattern != nil && !r.matches(n.pattern, v) {
		ok = r.fails("does not match the pattern %s", clip(n.pattern.String()))
	}
	return ok
}

// matches reports whether a pattern matches, or nobody knows.
func (r *run) matches(p *pattern, text string) bool {
	if p.Regexp == nil {
		r.guessed = true
		return true
	}
	r.left -= 1 + p.states*len(text)/matched
	return r.left < 0 || p.MatchString(text)
}

func (r *run) number(n *node, text json.Number) bool {
	if n.minimum == nil && n.maximum == nil && n.above == nil && n.below == nil && n.multipleOf == nil {
		return true
	}
	v := r.numberOf(text)
	ok := true
	if n.minimum != nil && v.cmp(n.minimum) < 0 {
		ok = r.fails("is less than %s", n.minimum)
	}
	if n.maximum != nil && v.cmp(n.maximum) > 0 {
		ok = r.fails("is more than %s", n.maximum)
	}
	if n.above != nil && v.cmp(n.above) <= 0 {
		ok = r.fails("is not more than %s", n.above)
	}
	if n.below != nil && v.cmp(n.below) >= 0 {
		ok = r.fails("is not less than %s", n.below)
	}
	if n.multipleOf != nil && !v.isMultiple(n.multipleOf) {
		ok = r.fails("is not a multiple of %s", n.multipleOf)
	}
	return ok
}

func (r *run) object(n *node, v map[string]any, seen *evaluated) bool {
	ok := r.within(len(v), &n.members, "members")
	ok = r.has(v, n.required, "") && ok
	r.left -= (len(v) + len(n.dependencies)) / passed
	for i := range n.dependencies {
		d := &n.dependencies[i]
		if _, there := v[d.name]; !there {
			continue
		}
		ok = r.has(v, d.required, d.name) && ok
		ok = (d.node == nil || r.check(d.node, v, seen)) && ok
	}
	if n.properties == nil && n.patternProperties == nil && n.additional == nil && n.propertyNames == nil {
		return ok
	}
	return r.each(v, func(name string, member any) bool { return r.member(n, name, member, seen) }) && ok
}

// has reports whether there is a member of each of these names, which are needed beside another
// if that is not "".
func (r *run) has(v map[string]any, names []string, beside string) bool {
	r.left -= len(names) / passed
	ok := true
	for _, name := range names {
		if _, there := v[name]; there {
			continue
		}
		r.enter(name)
		if beside == "" {
			ok = r.fails("is missing")
		} else {
			ok = r.fails("is missing, and needed beside %s", clip(beside))
		}
		r.leave()
	}
	return ok
}

// each looks at every member. Where that is described, they are in their order.
func (r *run) each(v map[string]any, look func(name string, member any) bool) bool {
	ok := true
	if !r.describing {
		for name, member := range v {
			if r.left < 0 {
				break
			}
			ok = look(name, member) && ok
		}
		return ok
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		r.enter(name)
		ok = look(name, v[name]) && ok
		r.leave()
	}
	return ok
}

func (r *run) member(n *node, name string, member any, seen *evaluated) bool {
	ok, known := true, false
	if property := n.properties[name]; property != nil {
		known = true
		ok = r.check(property, member, nil)
	}
	for i := range n.patternProperties {
		p := &n.patternProperties[i]
		if r.matches(p.pattern, name) {
			known = true
			ok = (p.Regexp == nil || r.check(p.node, member, nil)) && ok
		}
	}
	if !known && n.additional != nil {
		known = true
		ok = r.check(n.additional, member, nil) && ok
	}
	if known {
		seen.member(name)
	}
	if n.propertyNames != nil && !r.quietly(n.propertyNames, name, nil) {
		ok = r.describing && r.fails("has a name that %s", r.first(n.propertyNames, name).Reason)
	}
	return ok
}

func (r *run) array(n *node, v []any, seen *evaluated) bool {
	ok := r.within(len(v), &n.size, "items")
	if n.uniqueItems {
		if i, j := r.twice(v); i >= 0 {
			ok = r.fails("has the same item at %d and %d", i, j)
		}
	}
	if n.first != nil || n.items != nil {
		for i, item := range v {
			s := n.items
			if i < len(n.first) {
				s = n.first[i]
			}
			if s == nil || r.left < 0 {
				break
			}
			ok = r.item(s, i, item) && ok
			seen.item(i)
		}
	}
	return (n.contains == nil || r.contains(n, v, seen)) && ok
}

func (r *run) item(n *node, i int, item any) bool {
	if !r.describing {
		return r.check(n, item, nil)
	}
	r.path = append(r.path, indexStep(i))
	ok := r.check(n, item, nil)
	r.leave()
	return ok
}

func (r *run) contains(n *node, v []any, seen *evaluated) bool {
	count, maybe := 0, 0
	for i, item := range v {
		if r.left < 0 {
			return true
		}
		fits, sure := r.surely(n.contains, item, nil)
		if sure {
			count++
		} else if fits {
			maybe++
		}
		if fits && n.evaluates {
			seen.item(i)
		}
	}
	count += min(maybe, max(0, n.contained.min-count)) // as far as they are needed
	return r.within(count, &n.contained, "items of the form that it must contain")
}

// combined checks v with the schemas that are made of others.
func (r *run) combined(n *node, v any, seen *evaluated) bool {
	ok := true
	for _, s := range n.allOf {
		ok = r.check(s, v, seen) && ok
	}
	if n.anyOf != nil {
		ok = r.anyOf(n.anyOf, v, seen) && ok
	}
	if n.oneOf != nil {
		ok = r.oneOf(n.oneOf, v, seen) && ok
	}
	if n.not != nil {
		if _, sure := r.surely(n.not, v, nil); sure {
			ok = r.fails("has a form that is not allowed")
		}
	}
	return (n.when == nil || r.branch(n, v, seen)) && ok
}

// branch checks v with one of two schemas, by whether it fits a third.
func (r *run) branch(n *node, v any, seen *evaluated) bool {
	s := n.other
	fits, sure := r.surely(n.when, v, seen)
	if fits {
		s = n.then
	}
	if fits && !sure {
		r.left = -1 // it may be either
	}
	return s == nil || r.check(s, v, seen)
}

func (r *run) anyOf(forms []*node, v any, seen *evaluated) bool {
	ok := false
	for _, form := range forms {
		if ok && seen == nil {
			break
		}
		ok = r.quietly(form, v, seen) || ok
	}
	return ok || r.describing && r.noForm(forms, v)
}

func (r *run) oneOf(forms []*node, v any, seen *evaluated) bool {
	count, maybe := 0, false
	for _, form := range forms {
		fits, sure := r.surely(form, v, seen)
		if maybe = maybe || fits; sure {
			count++
		}
		if count > 1 {
			return r.fails("fits more than one of the forms of which one is allowed")
		}
	}
	return maybe || r.describing && r.noForm(forms, v)
}

// noForm says why v fits none of several forms.
func (r *run) noForm(forms []*node, v any) bool {
	var parts []string
	for _, form := range forms[:min(len(forms), MaxViolations)] {
		parts = append(parts, clip(r.first(form, v).text()))
	}
	return r.fails("fits none of the forms that are allowed: %s", strings.Join(parts, ", or "))
}

// rest checks what nothing else has evaluated of v, since seen was as it was before.
func (r *run) rest(n *node, v any, seen *evaluated, before mark) bool {
	switch v := v.(type) {
	case map[string]any:
		if n.unevaluatedProperties == nil {
			return true
		}
		known := make(map[string]bool)
		for _, name := range seen.members[before.members:] {
			known[name] = true
		}
		return r.each(v, func(name string, member any) bool {
			seen.member(name)
			return known[name] || r.check(n.unevaluatedProperties, member, nil)
		})
	case []any:
		if n.unevaluatedItems == nil {
			return true
		}
		known := make(map[int]bool)
		for _, i := range seen.items[before.items:] {
			known[i] = true
		}
		ok := true
		for i, item := range v {
			seen.item(i)
			ok = (known[i] || r.item(n.unevaluatedItems, i, item)) && ok
		}
		return ok
	}
	return true
}

// evaluated is which parts of a value some schema has looked at. Nil is if nobody asks.
type evaluated struct {
	members []string // may be in it more than once
	items   []int
}

// A mark is how much has been evaluated by then.
type mark struct{ members, items int }

func (e *evaluated) mark() mark {
	if e == nil {
		return mark{}
	}
	return mark{len(e.members), len(e.items)}
}

func (e *evaluated) back(to mark) {
	if e != nil {
		e.members, e.items = e.members[:to.members], e.items[:to.items]
	}
}

func (e *evaluated) member(name string) {
	if e != nil {
		e.members = append(e.members, name)
	}
}

func (e *evaluated) item(i int) {
	if e != nil {
		e.items = append(e.items, i)
	}
}

// quietly is check without a description. What does not fit has evaluated nothing.
func (r *run) quietly(n *node, v any, seen *evaluated) bool {
	before, describing := seen.mark(), r.describing
	r.describing = false
	ok := r.check(n, v, seen)
	r.describing = describing
	if !ok {
		seen.back(before)
	}
	return ok
}

// surely is quietly, and reports whether v fits for certain, too.
func (r *run) surely(n *node, v any, seen *evaluated) (fits, sure bool) {
	before := r.guessed
	r.guessed = false
	fits = r.quietly(n, v, seen)
	sure = fits && !r.guessed
	r.guessed = before || fits && !sure
	return fits, sure
}
