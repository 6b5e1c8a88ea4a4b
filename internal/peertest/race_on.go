//go:build race

package peertest

const (
	slowdown = 3 // how much longer things may take
	dear     = 9 // how much less of what is large is sent
)
