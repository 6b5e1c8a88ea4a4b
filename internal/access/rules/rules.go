// Package rules decides who may use what of the servers. The configuration has its rules
// parsed here; the gateway and "policy explain" ask [Grant.Decide], the only function that
// decides. A rule is a line:
//
//	allow group:dev tools read_*, list_* on files, search
//	allow anyone on search if read-only
//	deny token:ci tools delete_*
//
// methods.go has the table of methods: what a request of each is about, and which methods of
// the two eras mean the same.
package rules

import (
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/pattern"
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
	at   int    // in its set

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

func (r *Rule) isFor(c *dragoman.Caller, server string) bool {
	if len(r.servers)+len(r.members) > 0 || r.members != nil {
		if !slices.Contains(r.members, server) && !pattern.Any(r.servers, server) {
			return false
		}
	}
	return slices.ContainsFunc(r.who, func(m matcher) bool { return m.matches(c) })
}
