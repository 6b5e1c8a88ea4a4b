// Package humanize writes numbers, sizes and durations as people read them, and suggests the
// names that somebody may have meant who wrote another.
package humanize
