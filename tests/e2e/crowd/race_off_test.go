//go:build !race

package crowd

const scarce = 1
