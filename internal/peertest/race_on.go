//go:build race

package peertest

const (
	slowdown    = 3 // how much longer things may take
	sizeDivisor = 9 // how much less of what is large is sent
)
