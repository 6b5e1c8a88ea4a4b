//go:build !race

package interop_test

var buildFlags []string
