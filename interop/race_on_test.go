//go:build race

package interop_test

// buildFlags makes the race detector watch what the tests start, too.
var buildFlags = []string{"-race"}

// large is how much a large result has, in bytes, each of which the race detector looks
// at: more than any buffer on the way.
const large = 128 << 10
