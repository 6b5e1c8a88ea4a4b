// Package bench compares this module with servers of others. Each benchmark runs
// all sides by turns in one process, because a ratio can be compared between
// machines and a time cannot.
package bench
