// Package rules says who may use what of the servers. A rule is a line:
//
//	allow group:dev tools read_*, list_* on files, search
//	allow anyone on search if read-only
//	deny token:ci tools delete_*
package rules

import (
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/pattern"
)

// A Set of rules says who may use what. Once there is one, what none of them allows is
// denied, and what one of them denies is denied whatever the others allow. A nil Set has
// none.
type Set struct{ list []*Rule }

// Claims returns the names of the claims that rules go by.
func (s *Set) Claims() (names []string) {
	for _, r := range s.list {
		for _, m := range r.who {
			if m.kind == "claim" && !slices.Contains(names, m.name) {
				names = append(names, m.name)
			}
		}
	}
	return names
}

// Groups is the claim with the groups of a caller.
const Groups = "groups"

// A Rule allows or denies something to somebody. An empty list means all.
type Rule struct {
	text string // as it was written

	deny    bool
	who     []matcher
	servers []string // names, with patterns
	members []string // servers of the groups that are named, without patterns; nil if none is

	tools, prompts, resources []string // patterns; nil if they are not named
	named                     bool     // one of these is

	methods []string // patterns
	hints   []hint
	scopes  []string // that the caller needs besides
}

// String returns the rule as it was written.
func (r *Rule) String() string { return r.text }

// A matcher is a part of who a rule is for.
type matcher struct {
	kind, value string
	name        string // of a claim
	bare        bool   // a user's name may stand without the issuer, since there is one
}

func (m *matcher) matches(c *dragoman.Caller) bool {
	is := func(value string) bool { return pattern.Match(m.value, value) }
	switch m.kind {
	case "anyone":
		return true
	case "group":
		return slices.ContainsFunc(c.Claims[Groups], is)
	case "scope":
		return slices.Contains(c.Scopes, m.value)
	case "claim":
		return slices.ContainsFunc(c.Claims[m.name], is)
	case "user":
		name, ok := strings.CutPrefix(c.Principal, "user:")
		return ok && (is(name) || m.bare && is(name[:max(strings.LastIndexByte(name, '@'), 0)]))
	}
	name, ok := strings.CutPrefix(c.Principal, m.kind+":")
	return ok && is(name)
}

// Hints are what a server says of a tool. They are its word, not a proof.
type Hints struct{ ReadOnly, Destructive, Idempotent, OpenWorld bool }

// HintsOf returns what the annotations of a tool say, with the protocol's defaults for
// what they do not.
func HintsOf(annotations []byte) Hints {
	is := func(name string, otherwise bool) bool {
		switch string(dragoman.Member(annotations, name)) {
		case "true":
			return true
		case "false":
			return false
		}
		return otherwise
	}
	h := Hints{ReadOnly: is("readOnlyHint", false), Idempotent: is("idempotentHint", false), OpenWorld: is("openWorldHint", true)}
	h.Destructive = !h.ReadOnly && is("destructiveHint", true)
	return h
}

// A hint is a condition of a rule.
type hint struct {
	name string
	not  bool
}

func (h hint) holds(of *Hints) bool {
	is := map[string]bool{"read-only": of.ReadOnly, "destructive": of.Destructive, "idempotent": of.Idempotent, "open-world": of.OpenWorld}
	return is[h.name] != h.not
}

// Scopes returns all scopes that a rule names, in order.
func (s *Set) Scopes() []string {
	var all []string
	for _, r := range s.list {
		all = append(all, r.scopes...)
		for i := range r.who {
			if r.who[i].kind == "scope" {
				all = append(all, r.who[i].value)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// A Grant is what the rules say of one caller at one server.
type Grant struct {
	rules  []*Rule // that are about them
	caller *dragoman.Caller
}

// For returns what a caller may do at a server. It is nil if there are no rules: then
// everything is allowed.
func (s *Set) For(c *dragoman.Caller, server string) *Grant {
	if s == nil || len(s.list) == 0 {
		return nil
	}
	g := &Grant{caller: c, rules: make([]*Rule, 0, len(s.list))}
	for _, rule := range s.list {
		if rule.isFor(c, server) {
			g.rules = append(g.rules, rule)
		}
	}
	return g
}

// Any reports whether anything at a server is shown to a caller.
func (s *Set) Any(c *dragoman.Caller, server string) bool {
	return s == nil || len(s.list) == 0 ||
		slices.ContainsFunc(s.list, func(r *Rule) bool { return !r.deny && r.isFor(c, server) })
}

func (r *Rule) isFor(c *dragoman.Caller, server string) bool {
	if len(r.servers)+len(r.members) > 0 || r.members != nil {
		if !slices.Contains(r.members, server) && !pattern.Any(r.servers, server) {
			return false
		}
	}
	return slices.ContainsFunc(r.who, func(m matcher) bool { return m.matches(c) })
}

// Rules returns the rules that are about the caller at the server.
func (g *Grant) Rules() []*Rule {
	if g == nil {
		return nil
	}
	return g.rules
}

// A Verdict is what is decided of one thing.
type Verdict struct {
	Allowed bool
	Scopes  []string // that would allow it; empty if it is denied for good
	Rule    *Rule    // that decides it; nil if none does
}

// Shown reports whether a caller gets to know that something is there: it may use it, or
// may get what it needs for that.
func (v Verdict) Shown() bool { return v.Allowed || len(v.Scopes) > 0 }

// Any reports whether anything at the server is shown to the caller.
func (g *Grant) Any() bool {
	return g == nil || slices.ContainsFunc(g.rules, func(r *Rule) bool { return !r.deny })
}

// Tool decides on a tool, by the server's name for it. hints returns what is known of it,
// or false if it is not known; it is asked if a rule depends on that.
func (g *Grant) Tool(method, name string, hints func() (Hints, bool)) Verdict {
	return g.decide(method, func(r *Rule) []string { return r.tools }, name, hints)
}

// Prompt decides on a prompt.
func (g *Grant) Prompt(method, name string) Verdict {
	return g.decide(method, func(r *Rule) []string { return r.prompts }, name, nil)
}

// Resource decides on a resource, by its URI, or a template, by its text.
func (g *Grant) Resource(method, uri string) Verdict {
	return g.decide(method, func(r *Rule) []string { return r.resources }, uri, nil)
}

// Method decides on a request that names nothing.
func (g *Grant) Method(method string) Verdict { return g.decide(method, nil, "", nil) }

// decide finds the rule that decides. patterns returns which names of a kind a rule is
// about; it is nil for what has no name.
func (g *Grant) decide(method string, patterns func(*Rule) []string, name string, hints func() (Hints, bool)) Verdict {
	if g == nil {
		return Verdict{Allowed: true}
	}
	v := Verdict{}
	for _, r := range g.rules {
		if len(r.methods) > 0 && !pattern.Any(r.methods, method) {
			continue
		}
		switch {
		case patterns == nil:
			if r.deny && (r.named || len(r.hints) > 0) {
				continue // it is about other things
			}
		case r.named && !pattern.Any(patterns(r), name):
			continue
		}
		if patterns != nil && !r.applies(hints) {
			continue
		}
		if r.deny {
			return Verdict{Rule: r}
		}
		if lacks := g.lacks(r); len(lacks) > 0 {
			if !v.Allowed && v.Rule == nil {
				v.Scopes, v.Rule = lacks, r
			}
		} else if !v.Allowed {
			v = Verdict{Allowed: true, Rule: r}
		}
	}
	return v
}

// applies reports whether the conditions of a rule hold. Of what is not known, the worse
// is assumed: it is denied, and not allowed.
func (r *Rule) applies(hints func() (Hints, bool)) bool {
	if len(r.hints) == 0 {
		return true
	}
	if hints == nil {
		return false // only tools have any
	}
	of, known := hints()
	if !known {
		return r.deny
	}
	return !slices.ContainsFunc(r.hints, func(h hint) bool { return !h.holds(&of) })
}

// lacks returns which scopes of a rule the caller does not have.
func (g *Grant) lacks(r *Rule) (list []string) {
	for _, scope := range r.scopes {
		if !slices.Contains(g.caller.Scopes, scope) {
			list = append(list, scope)
		}
	}
	return list
}
