//go:build race

package interop_test

// buildFlags makes the race detector watch what the tests start, too.
var buildFlags = []string{"-race"}
