package stdio

import (
	"fmt"
	"slices"
	"strings"
)

// tagVar holds, in the environment of every process that a server starts, the
// tag by which those are found again that left the server's process group. A
// server that is started by another one carries both tags.
const tagVar = "DRAGOMAN_CHILD"

// environment returns what the server sees of ours, less what looks like a
// shell function, plus account, c.Env and the tag.
func (c *Command) environment(ours, account []string, tag string) ([]string, error) {
	all := slices.Contains(c.InheritEnv, "*")
	var env []string
	for _, entry := range ours {
		name, value, ok := cutVariable(entry)
		if !ok || strings.HasPrefix(value, "()") {
			continue
		}
		if all || hasName(usualVars, name) || hasName(c.InheritEnv, name) {
			env = setVariable(env, name, value)
		}
	}
	for _, entry := range account {
		name, value, _ := cutVariable(entry)
		env = setVariable(env, name, value)
	}
	for i, entry := range c.Env {
		name, value, ok := cutVariable(entry)
		if !ok || strings.ContainsRune(entry, 0) {
			// It is not shown: it may be a secret without its name.
			return nil, fmt.Errorf("entry %d of its environment is malformed", i+1)
		}
		env = setVariable(env, name, value)
	}
	if outer := valueOf(ours, tagVar); isTag(outer) {
		tag = outer + "," + tag
	}
	return setVariable(env, tagVar, tag), nil
}

// cutVariable splits KEY=VALUE. On Windows there are variables such as "=C:",
// whose names begin with the sign.
func cutVariable(entry string) (name, value string, ok bool) {
	if entry == "" {
		return "", "", false
	}
	i := strings.IndexByte(entry[1:], '=') + 1
	if i == 0 {
		return "", "", false
	}
	if entry[0] == '=' && !foldNames {
		return "", "", false
	}
	return entry[:i], entry[i+1:], true
}

func setVariable(env []string, name, value string) []string {
	entry := name + "=" + value
	for i := range env {
		if n, _, _ := cutVariable(env[i]); sameName(n, name) {
			env[i] = entry
			return env
		}
	}
	return append(env, entry)
}

func valueOf(env []string, name string) string {
	for _, entry := range env {
		if n, value, ok := cutVariable(entry); ok && sameName(n, name) {
			return value
		}
	}
	return ""
}

func hasName(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return sameName(n, name) })
}

func sameName(a, b string) bool {
	return a == b || foldNames && strings.EqualFold(a, b)
}

// isTag reports whether s is one of our tags or several, so that no text of
// unknown origin is passed on.
func isTag(s string) bool {
	return s != "" && len(s) <= 1024 && strings.Trim(s, "0123456789abcdef,") == ""
}
