//go:build !race

package peertest

const (
	slowdown    = 1        // how much longer things may take
	sizeDivisor = 1        // see Less
	floodCount  = 2048     // notifications
	floodSize   = 32 << 10 // bytes of each
)
