//go:build !race

package peertest

const (
	slowdown    = 1 // how much longer things may take
	sizeDivisor = 1 // how much less of what is large is sent
)
