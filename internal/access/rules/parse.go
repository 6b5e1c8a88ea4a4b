package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/util/pattern"
)

// ParseOptions is what rules may refer to.
type ParseOptions struct {
	// Groups are the groups of servers, by name.
	Groups map[string][]string

	// Servers are the names of the servers; nil means that they are not known.
	Servers []string

	// Issuers are those of tokens, as they are in names of users.
	Issuers []string
}

// Parse reads rules, one in each text, and returns what is wrong with which of them.
func Parse(texts []string, o *ParseOptions) (set *Set, wrong map[int]error) {
	set, wrong = &Set{}, make(map[int]error)
	for i, text := range texts {
		r, err := parseRule(text, o)
		if err != nil {
			wrong[i] = err
			continue
		}
		r.at = len(set.list)
		set.list = append(set.list, r)
	}
	return set, wrong
}

// parseRule reads a rule:
//
//	(allow | deny) WHO, … [on SERVER, …] [tools|prompts|resources|methods PATTERN, …] [if HINT and …] [with SCOPE, …]
func parseRule(text string, o *ParseOptions) (*Rule, error) {
	words := lex(text)
	r := &Rule{text: strings.Join(strings.Fields(text), " ")}
	if len(words) == 0 {
		return nil, errors.New("a rule is empty; begin with allow or deny")
	}
	switch words[0] {
	case "allow":
	case "deny":
		r.deny = true
	default:
		return nil, fmt.Errorf("a rule begins with allow or deny, not with %q", words[0])
	}
	who, rest, err := takeList(words[1:], words[0])
	if err != nil {
		return nil, err
	}
	for _, w := range who {
		m, err := parseWho(w, o)
		if err != nil {
			return nil, err
		}
		r.who = append(r.who, m)
	}
	seen := map[string]bool{}
	for len(rest) > 0 {
		key := rest[0]
		if seen[key] {
			return nil, fmt.Errorf("%s is there twice; join what follows with commas", key)
		}
		seen[key] = true
		if rest, err = r.clause(key, rest[1:], o); err != nil {
			return nil, err
		}
	}
	err = r.check()
	return r, err
}

// clause reads what follows a word, and returns what is left.
func (r *Rule) clause(key string, rest []string, o *ParseOptions) ([]string, error) {
	if !isKeyword(key) {
		return nil, fmt.Errorf("%q is not understood; what can follow is on, tools, prompts, resources, methods, if, with; names are joined by commas", key)
	}
	if key == "if" {
		return r.conditions(rest)
	}
	list, rest, err := takeList(rest, key)
	if err != nil {
		return nil, err
	}
	switch key {
	case "on":
		err = r.on(list, o)
	case "tools":
		r.tools, r.named = list, true
	case "prompts":
		r.prompts, r.named = list, true
	case "resources":
		r.resources, r.named = list, true
	case "methods":
		r.methods = list
	case "with":
		r.scopes = list
	}
	return rest, err
}

// on reads the servers that a rule is about. @NAME stands for those of a group.
func (r *Rule) on(list []string, o *ParseOptions) error {
	for _, name := range list {
		group, ok := strings.CutPrefix(name, "@")
		if !ok {
			if o.Servers != nil && !slices.ContainsFunc(o.Servers, func(s string) bool { return pattern.Match(name, s) }) {
				return fmt.Errorf("there is no server %s", name)
			}
			r.servers = append(r.servers, name)
			continue
		}
		members, ok := o.Groups[group]
		if !ok {
			return fmt.Errorf("there is no group of servers %s", group)
		}
		r.members = append(append([]string{}, r.members...), members...)
	}
	return nil
}

// conditions reads what must be true of a tool.
func (r *Rule) conditions(rest []string) ([]string, error) {
	for {
		h := hint{}
		if len(rest) > 0 && rest[0] == "not" {
			h.not, rest = true, rest[1:]
		}
		if len(rest) == 0 || !slices.Contains(hintNames, rest[0]) {
			return nil, errors.New("if is followed by one of " + strings.Join(hintNames, ", ") + ", or not and one of these")
		}
		h.name, rest = rest[0], rest[1:]
		r.hints = append(r.hints, h)
		if len(rest) == 0 || rest[0] != "and" {
			return rest, nil
		}
		rest = rest[1:]
	}
}

// check refuses what would not mean what it seems to.
func (r *Rule) check() error {
	switch {
	case r.deny && len(r.scopes) > 0:
		return errors.New("with says what is needed for something that is allowed; deny it, or allow it with the scope")
	case len(r.hints) > 0 && r.named && r.tools == nil:
		return errors.New("if is about tools, and the rule is not")
	}
	if len(r.hints) > 0 && !r.named {
		r.tools, r.named = []string{"*"}, true
	}
	return nil
}

var (
	keywords  = []string{"on", "tools", "prompts", "resources", "methods", "if", "with"}
	hintNames = []string{"read-only", "destructive", "idempotent", "open-world"}
	whoKinds  = []string{"token", "user", "cert", "local", "group", "scope", "claim"}
)

func isKeyword(w string) bool { return slices.Contains(keywords, w) }

// lex splits a rule into words and commas.
func lex(text string) (words []string) {
	return strings.Fields(strings.ReplaceAll(text, ",", " , "))
}

// takeList reads words that are joined by commas.
func takeList(words []string, after string) (list, rest []string, err error) {
	for {
		if len(words) == 0 || words[0] == "," || isKeyword(words[0]) {
			return nil, nil, fmt.Errorf("something is missing behind %s", after)
		}
		list = append(list, words[0])
		words = words[1:]
		if len(words) == 0 || words[0] != "," {
			return list, words, nil
		}
		words, after = words[1:], "a comma"
	}
}

// parseWho reads who a rule is for.
func parseWho(w string, o *ParseOptions) (matcher, error) {
	if w == "anyone" {
		return matcher{kind: w}, nil
	}
	kind, value, ok := strings.Cut(w, ":")
	if !ok || value == "" || !slices.Contains(whoKinds, kind) {
		return matcher{}, fmt.Errorf("%q is nobody: write anyone, or %s:NAME", w, strings.Join(whoKinds, ":NAME, "))
	}
	m := matcher{kind: kind, value: value}
	switch kind {
	case "claim":
		if m.name, m.value, ok = strings.Cut(value, "="); !ok || m.name == "" || m.value == "" {
			return m, fmt.Errorf("%q says nothing of a claim: write claim:NAME=VALUE", w)
		}
	case "user":
		m.bare = len(o.Issuers) <= 1
		known := func(issuer string) bool { return strings.HasSuffix(value, "@"+issuer) }
		if !m.bare && !known("*") && !slices.ContainsFunc(o.Issuers, known) {
			return m, fmt.Errorf("%q may be several people, since there are several issuers: write user:NAME@ISSUER, or user:NAME@* for all", w)
		}
	}
	return m, nil
}
