//go:build !race

package peertest

// slowdown is how much longer things may take.
const slowdown = 1
