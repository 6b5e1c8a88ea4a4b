//go:build !race

package interop_test

var buildFlags []string

const large = 1 << 20
