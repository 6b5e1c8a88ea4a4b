// Package bench holds the benchmarks whose numbers the documentation quotes.
// Each runs both sides of a comparison by turns in one process, because a ratio
// can be compared between machines and a time cannot.
package bench
