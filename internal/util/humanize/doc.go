// Package humanize formats numbers, sizes and durations for people, and suggests names that a
// misspelled one may have meant.
package humanize
