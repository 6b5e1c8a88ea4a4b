package aggregate

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strconv"
	"strings"
)

const (
	// MaxName is how long the names of tools and prompts are at most. Clients and
	// models allow no more.
	MaxName = 64

	// digestLen is how many characters of a digest make a name its own.
	digestLen = 8

	// headLen is what is left of a name before its digest.
	headLen = MaxName - 1 - digestLen
)

// isRenamed reports whether things of a kind have other names here than at their member.
// What has a URI keeps that, and so do events, whose names are in what is delivered past us.
func (k kind) isRenamed() bool { return k == tools || k == prompts }

// names returns what things of a member are called here, in the order of keys: those
// that are not renamed as they are, tools and prompts by names of the characters A-Z a-z 0-9
// _ -, at most MaxName long, no two the same.
//
// That depends on the configuration and on what the member itself has, and on no
// other member's list: a name must not mean one thing while a server is there and
// another while it is not. A name is the member's prefix and its own name, with "_"
// for characters that names must not have. A digest stands at its end if it is too
// long, if another member owns it, or if another thing of this member has it.
func (g *group) names(m *member, k kind, keys []string) []string {
	if !k.isRenamed() {
		return keys
	}
	ranks, order := make([]int, len(keys)), make([]int, len(keys))
	for i, own := range keys {
		if order[i] = i; clean(own) != own {
			ranks[i] = 1 // behind what is called so without a change
		}
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Or(ranks[i]-ranks[j], strings.Compare(keys[i], keys[j])) })
	names := make([]string, len(keys))
	taken := make(map[string]bool, len(keys))
	var rest []int
	for _, i := range order {
		name := m.start + clean(keys[i])
		if len(name) > MaxName || taken[name] || !g.plain && g.owner(name) != m {
			rest = append(rest, i)
			continue
		}
		names[i], taken[name] = name, true
	}
	for _, i := range rest {
		for n := 0; names[i] == ""; n++ {
			if name := g.withDigest(m, keys[i], n); !taken[name] {
				names[i], taken[name] = name, true
			}
		}
	}
	return names
}

// owner returns the member that a name without a digest belongs to where names have
// prefixes: the one with the longest prefix. Of those with the same, it is one whose
// prefix needed no change, or else the first.
func (g *group) owner(name string) (best *member) {
	for _, m := range g.members {
		if !strings.HasPrefix(name, m.start) {
			continue
		}
		if best == nil || len(m.start) > len(best.start) || len(m.start) == len(best.start) && m.start == m.prefix && best.start != best.prefix {
			best = m
		}
	}
	return best
}

// mayHave reports whether a member can have something of this name, whatever is in
// its list. Where names are plain, it also must be known not to have it.
func (g *group) mayHave(m *member, k kind, name string) bool {
	switch {
	case !k.isRenamed():
		return true
	case len(name) > MaxName || clean(name) != name:
		return false
	case g.plain || g.owner(name) == m:
		return true
	}
	end := len(name) - digestLen
	return end > 0 && name[end-1] == '_' && strings.Trim(name[end:], digits) == "" && strings.HasPrefix(name, m.start[:min(len(m.start), headLen)])
}

// guessOwner returns what a member has to have of a name that it owns, if it has
// anything: the member itself will know.
func (g *group) guessOwner(m *member, k kind, name string) (target, bool) {
	if !k.isRenamed() || g.plain || m.start == "" || g.owner(name) != m {
		return target{}, false
	}
	own := strings.TrimPrefix(name, m.start)
	return target{m, own}, own != ""
}

// withDigest returns the name of something with a digest. n tells several attempts
// apart.
func (g *group) withDigest(m *member, own string, n int) string {
	text := m.prefix + own
	if !g.plain {
		text += "\x00" + m.Name()
	}
	text += "\x00" + own
	if n > 0 {
		text += "\x00" + strconv.Itoa(n)
	}
	sum := sha256.Sum256([]byte(text))
	head := m.start + clean(own)
	return head[:min(len(head), headLen)] + "_" + encoding.EncodeToString(sum[:])[:digestLen]
}

// digits are the characters of digests.
const digits = "abcdefghijklmnopqrstuvwxyz234567"

var encoding = base32.NewEncoding(digits).WithPadding(base32.NoPadding)

// clean returns a name with "_" for each character that names must not have.
func clean(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
}
