package humanize

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Limits of the search. Whoever asks may be a stranger, so it is bounded: names that
// are longer than maxName are near to none, and maxCompared are compared.
const (
	maxNames    = 3
	maxEdits    = 2
	maxName     = 128
	maxCompared = 2000
)

// SuggestHint returns a question with the names that are nearest to a word, such as
// `did you mean "echo" or "echos"?`, or "" if none is near.
func SuggestHint(word string, names iter.Seq[string]) string {
	list := Suggest(word, names)
	if len(list) == 0 {
		return ""
	}
	for i, name := range list {
		list[i] = fmt.Sprintf("%q", name)
	}
	return "did you mean " + strings.Join(list, " or ") + "?"
}

// Suggest returns the names that are nearest to a word, three at most. Near is what differs
// by at most two letters, and by less than half of them, and the word itself behind a
// prefix. Case, _ and - do not count.
func Suggest(word string, names iter.Seq[string]) []string {
	w := Fold(word)
	if w == "" || len(word) > maxName {
		return nil
	}
	var found []string
	least, compared := maxEdits, 0
	for name := range names {
		if compared++; compared > maxCompared {
			break
		}
		if d := distance(w, word, name); d < least {
			found, least = []string{name}, d
		} else if d == least {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	return found[:min(len(found), maxNames)]
}

// distance returns how far a name is from a word, whose plain spelling is w. It is above
// maxEdits if the name is not near.
func distance(w, word, name string) int {
	if len(name) > maxName {
		return maxEdits + 1
	}
	if strings.HasSuffix(name, "_"+word) || strings.HasSuffix(name, "-"+word) {
		return 1 // less than the word in another spelling
	}
	n := Fold(name)
	if d := edits(w, n, maxEdits); 2*d < max(len(w), len(n)) {
		return d
	}
	return maxEdits + 1
}

var separators = strings.NewReplacer("_", "", "-", "")

// Fold returns a word without what does not matter: upper case, _ and -.
func Fold(word string) string { return strings.ToLower(separators.Replace(word)) }

// edits is how many letters must be put in, left out, replaced or swapped with their
// neighbour to make b of a, or something over most.
func edits(a, b string, most int) int {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	switch {
	case a == "" || b == "":
		return len(a) + len(b)
	case most == 0:
		return 1
	}
	least := min(edits(a[1:], b, most-1), edits(a, b[1:], most-1), edits(a[1:], b[1:], most-1))
	if len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] {
		least = min(least, edits(a[2:], b[2:], most-1))
	}
	return 1 + least
}
