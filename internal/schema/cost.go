package schema

import (
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// MaxSteps is how many steps a check may take: one is to look at one value with one
	// schema. A few lines of references to references make more than can ever be taken,
	// and the validator cannot be stopped.
	MaxSteps = 100_000

	// maxNested is how deep schemas and values may lead into one another.
	maxNested = 1000

	// repeated is how many states a counted repetition in a pattern may have.
	repeated = 1000

	// matched is how many states of a pattern times bytes of a text cost a step.
	matched = 256
)

// A cost is what is left of the steps of a check, while it is found out by going where the
// validator could go whether that is enough.
type cost struct {
	left, nested int
}

// affordable reports whether v can be checked within the steps that there are.
func affordable(s *jsonschema.Schema, v any) bool {
	c := &cost{left: MaxSteps}
	c.check(s, v)
	return c.left >= 0
}

// check counts what it costs to look at v with s, which may be nil. It gives up as soon as
// that is too much.
func (c *cost) check(s *jsonschema.Schema, v any) {
	if s == nil || c.left < 0 {
		return
	}
	c.left--
	if c.nested++; c.nested > maxNested || s.DynamicRef != nil || s.RecursiveRef != nil {
		c.left = -1 // where a dynamic reference leads is known on the way only
	}
	defer func() { c.nested-- }()
	if s.Enum != nil {
		c.left -= len(s.Enum.Values)
	}
	for _, same := range [...]*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else} {
		c.check(same, v)
	}
	for _, list := range [...][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		for _, same := range list {
			c.check(same, v)
		}
	}
	switch v := v.(type) {
	case map[string]any:
		c.object(s, v)
	case []any:
		c.array(s, v)
	case string:
		if s.Pattern != nil {
			c.pattern(s.Pattern, v)
		}
	}
}

func (c *cost) object(s *jsonschema.Schema, v map[string]any) {
	for _, same := range s.DependentSchemas {
		c.check(same, v)
	}
	for _, dependency := range s.Dependencies {
		c.check(schemaOf(dependency), v)
	}
	for name, member := range v {
		c.check(s.PropertyNames, name)
		c.check(s.Properties[name], member)
		for pattern, further := range s.PatternProperties {
			c.pattern(pattern, name)
			c.check(further, member)
		}
		c.check(schemaOf(s.AdditionalProperties), member)
		c.check(s.UnevaluatedProperties, member)
	}
}

func (c *cost) array(s *jsonschema.Schema, v []any) {
	tuple, _ := s.Items.([]*jsonschema.Schema) // of older drafts
	for i, item := range v {
		for _, list := range [...][]*jsonschema.Schema{s.PrefixItems, tuple} {
			if i < len(list) {
				c.check(list[i], item)
			}
		}
		for _, each := range [...]*jsonschema.Schema{s.Contains, schemaOf(s.Items), schemaOf(s.AdditionalItems), s.Items2020, s.UnevaluatedItems} {
			c.check(each, item)
		}
	}
}

// pattern counts what it costs to look for a pattern in a text.
func (c *cost) pattern(p jsonschema.Regexp, text string) {
	states := len(p.String())
	if strings.Contains(p.String(), "{") {
		states *= repeated
	}
	c.left -= 1 + states*len(text)/matched
}

// schemaOf returns the schema that a keyword has, if it is one.
func schemaOf(keyword any) *jsonschema.Schema {
	s, _ := keyword.(*jsonschema.Schema)
	return s
}
