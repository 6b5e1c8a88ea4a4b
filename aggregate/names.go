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

// A wish is a name that something of a member would have.
type wish struct {
	member  int    // its place in the group
	whose   string // the member's name
	own     string // what the member calls it
	full    string // what it would be called here
	foreign bool   // full lies where the names of another member are
}

// assign returns a name for each wish: of the characters A-Z a-z 0-9 _ -, at most
// MaxName long, no two the same. It depends on the wishes alone, not on their
// order.
//
// A name that is fine and that nobody before wants stays as it is. Otherwise
// illegal characters become "_", and where that is not enough, a digest of the full
// name stands at its end. If plain, a name that a member before has is "" instead:
// the first one wins.
func assign(wishes []wish, plain bool) []string {
	order := make([]int, len(wishes))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &wishes[i], &wishes[j]
		member, exact := cmp.Compare(a.member, b.member), cmp.Compare(a.unclean(), b.unclean())
		if plain {
			return cmp.Or(member, exact, cmp.Compare(a.own, b.own))
		}
		return cmp.Or(exact, member, cmp.Compare(a.own, b.own))
	})
	names := make([]string, len(wishes))
	taken := make(map[string]int, len(wishes)) // by which member
	var rest []int
	for _, i := range order {
		w := &wishes[i]
		name := clean(w.full)
		if len(name) > MaxName || name == "" || w.foreign {
			rest = append(rest, i)
			continue
		}
		owner, gone := taken[name]
		switch {
		case !gone:
			taken[name], names[i] = w.member, name
		case !plain || owner == w.member:
			rest = append(rest, i)
		}
	}
	for _, i := range rest {
		w := &wishes[i]
		for n := 0; names[i] == ""; n++ {
			name := w.marked(plain, n)
			owner, gone := taken[name]
			if !gone {
				taken[name], names[i] = w.member, name
			} else if plain && owner != w.member && n == 0 {
				break
			}
		}
	}
	return names
}

// unclean is 0 if the full name can stay as it is.
func (w *wish) unclean() int {
	if clean(w.full) == w.full {
		return 0
	}
	return 1
}

// marked returns the name with a digest. n tells several attempts apart.
func (w *wish) marked(plain bool, n int) string {
	text := w.full
	if !plain {
		text += "\x00" + w.whose + "\x00" + w.own
	} else {
		text += "\x00" + w.own
	}
	if n > 0 {
		text += "\x00" + strconv.Itoa(n)
	}
	sum := sha256.Sum256([]byte(text))
	head := clean(w.full)
	return head[:min(len(head), headLen)] + "_" + digits.EncodeToString(sum[:])[:digestLen]
}

var digits = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

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

// wish returns how something that a member offers would be called here.
func (g *group) wish(m *member, k kind, own string) wish {
	offered := own
	if k == tools && m.offers.Rename[own] != "" {
		offered = m.offers.Rename[own]
	}
	w := wish{member: m.at, whose: m.Name(), own: own, full: m.prefix + offered}
	w.foreign = !g.plain && g.isForeign(m, w.full)
	return w
}

// isForeign tells whether a name of a member lies among those of another one, whose
// prefix is longer. Whether that one has something of this name does not matter: a
// name must not mean one thing while a server is there and another while it is not.
func (g *group) isForeign(m *member, full string) bool {
	full, mine := clean(full), clean(m.prefix)
	return slices.ContainsFunc(g.members, func(other *member) bool {
		p := clean(other.prefix)
		return len(p) > len(mine) && strings.HasPrefix(full, p)
	})
}
