// Package syncs holds two pieces that package sync lacks: a [Flight] makes a value once
// for all callers that want it at the same time, and a [Group] counts goroutines so that
// their owner can wait for them.
package syncs
