package rules

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/pattern"
	"github.com/dragoman-mcp/dragoman/protocol"
)

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
	if s == nil || len(s.list) == 0 {
		return true
	}
	return anything(s.list, func(r *Rule) bool { return r.isFor(c, server) })
}

// Any reports whether anything at the server is shown to the caller.
func (g *Grant) Any() bool {
	return g == nil || anything(g.rules, func(*Rule) bool { return true })
}

// anything reports whether some of the rules that count allow something, and none of them denies everything.
func anything(list []*Rule, counts func(*Rule) bool) (allowed bool) {
	for _, r := range list {
		switch {
		case r.deny && len(r.methods) == 0 && r.general() && counts(r):
			return false
		case !r.deny && !allowed:
			allowed = counts(r)
		}
	}
	return allowed
}

// Key is the same for callers of one Set for whom all decisions are the same.
func (g *Grant) Key() string {
	if g == nil {
		return ""
	}
	var text []byte
	for _, scope := range g.caller.Scopes {
		text = append(append(text, scope...), 0)
	}
	for _, r := range g.rules {
		text = binary.AppendUvarint(text, uint64(r.at))
	}
	return string(text)
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

// Decide decides on a request of a method. name is what it is about: a tool, by the server's name for it, also of a task; a prompt;
// a URI, or the text of a template. It is empty for a request that names nothing, for a task whose tool is not known, and for the
// whole of a list or subscription. hints returns what is known of a tool, or false if it is not known; it is called if a
// rule depends on that.
func (g *Grant) Decide(method, name string, hints func() (Hints, bool)) Verdict {
	if g == nil {
		return Verdict{Allowed: true}
	}
	m := methods[method]
	switch m.kind {
	case tool, prompt, resource:
		return g.named(method, m.kind, name, hints)
	case task:
		return g.task(method, name, hints)
	case basic, list, listen, completion:
		v := g.basic(method)
		switch {
		case !v.Allowed || name == "":
		case m.kind == list:
			return g.listed(method, m.uses, name, hints)
		case m.kind == listen:
			return g.named(protocol.MethodSubscribe, resource, name, nil)
		case m.kind == completion && strings.Contains(name, ":"): // a URI
			return g.named(protocol.MethodReadResource, resource, name, nil)
		case m.kind == completion:
			return g.named(protocol.MethodGetPrompt, prompt, name, nil)
		}
		return v
	}
	return g.other(method)
}

// named decides on a request about a tool, prompt or resource.
func (g *Grant) named(method string, k kind, name string, hints func() (Hints, bool)) (v Verdict) {
	for _, r := range g.rules {
		switch {
		case !r.covers(method) || !r.fits(k, name, hints):
		case r.deny:
			return Verdict{Rule: r}
		default:
			g.allow(&v, r)
		}
	}
	return v
}

// listed decides on an element of a list: who may use it sees it, unless a rule that names the list's method says otherwise.
func (g *Grant) listed(method, uses, name string, hints func() (Hints, bool)) Verdict {
	k := methods[uses].kind
	for _, r := range g.rules {
		if r.deny && len(r.methods) > 0 && r.covers(method) && r.fits(k, name, hints) {
			return Verdict{Rule: r}
		}
	}
	return g.named(uses, k, name, hints)
}

// basic decides on what every client needs. It takes no scope.
func (g *Grant) basic(method string) (v Verdict) {
	for _, r := range g.rules {
		switch {
		case r.deny && r.general() && r.covers(method):
			return Verdict{Rule: r}
		case !r.deny && !v.Allowed:
			v = Verdict{Allowed: true, Rule: r}
		}
	}
	return v
}

// task decides on a request about a task: that is allowed to whom its tool is, or if that is not known, to whom any tool is.
func (g *Grant) task(method, name string, hints func() (Hints, bool)) Verdict {
	var v Verdict
	about := func(r *Rule) bool {
		return name == "" && (!r.named || r.tools != nil) || name != "" && r.fits(tool, name, hints)
	}
	for _, r := range g.rules {
		switch {
		case r.deny && r.covers(method) && (r.general() || len(r.methods) > 0 && about(r)):
			return Verdict{Rule: r}
		case !r.deny && about(r) && (r.covers(method) || r.covers(protocol.MethodCallTool)):
			g.allow(&v, r)
		}
	}
	if name == "" || !v.Shown() {
		return v
	}
	if of := g.named(protocol.MethodCallTool, tool, name, hints); !of.Allowed && of.Rule != nil && of.Rule.deny {
		return of
	}
	return v
}

// other decides on a request of a method that rules do not know. What it names is not known either, so one that is about
// something else does not allow it, and one that names the method denies it whatever it is about.
func (g *Grant) other(method string) (v Verdict) {
	for _, r := range g.rules {
		switch {
		case !r.covers(method) || !r.general() && (len(r.methods) == 0 || !r.deny && len(r.hints) > 0):
		case r.deny:
			return Verdict{Rule: r}
		default:
			g.allow(&v, r)
		}
	}
	return v
}

// allow adds to a verdict that a rule allows something, if the caller has its scopes.
func (g *Grant) allow(v *Verdict, r *Rule) {
	switch lacks := g.lacks(r); {
	case v.Allowed:
	case len(lacks) == 0:
		*v = Verdict{Allowed: true, Rule: r}
	case v.Rule == nil:
		v.Scopes, v.Rule = lacks, r
	}
}

// general reports whether a rule is about no tools, prompts or resources in particular.
func (r *Rule) general() bool { return !r.named && len(r.hints) == 0 }

// covers reports whether a rule is about a method, or about that which does the same in the other era.
func (r *Rule) covers(method string) bool {
	if len(r.methods) == 0 || pattern.Any(r.methods, method) {
		return true
	}
	equal := methods[method].equal
	return equal != "" && pattern.Any(r.methods, equal)
}

// fits reports whether a rule is about a tool, prompt or resource.
func (r *Rule) fits(k kind, name string, hints func() (Hints, bool)) bool {
	if r.named {
		patterns := r.tools
		switch k {
		case prompt:
			patterns = r.prompts
		case resource:
			patterns = r.resources
		}
		if !pattern.Any(patterns, name) {
			return false
		}
	}
	return r.applies(hints)
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
