package config

import (
	"fmt"
	"strings"
)

// maxEdits is how far a word may be from the one that was meant.
const maxEdits = 2

// didYouMean returns a hint with the word of the list that is nearest, or "".
func didYouMean(word string, list []string) string {
	if near := nearest(word, list); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return ""
}

// nearest returns the word of the list that differs by at most maxEdits letters,
// and by less than half of them. Case, _ and - do not count.
func nearest(word string, list []string) string {
	best, least := "", maxEdits+1
	w := plain(word)
	for _, other := range list {
		o := plain(other)
		if d := edits(w, o); d < least && 2*d < max(len(w), len(o)) {
			best, least = other, d
		}
	}
	return best
}

var separators = strings.NewReplacer("_", "", "-", "")

func plain(word string) string { return strings.ToLower(separators.Replace(word)) }

// edits is the Levenshtein distance, or something over maxEdits. Two neighbours
// that changed places count as one.
func edits(a, b string) int {
	if len(a)-len(b) > maxEdits || len(b)-len(a) > maxEdits {
		return maxEdits + 1
	}
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
