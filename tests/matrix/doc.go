// Package matrix shows that every client works with every server: each revision
// on each transport, on either side of one bridge. It has tests only.
package matrix
