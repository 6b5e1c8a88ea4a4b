//go:build race

package peertest

const (
	slowdown    = 3  // how much longer things may take
	sizeDivisor = 13 // see Less
)
