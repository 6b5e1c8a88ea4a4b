//go:build race

package peertest

const (
	slowdown    = 3       // how much longer things may take
	sizeDivisor = 40      // see Less
	floodCount  = 160     // notifications
	floodSize   = 4 << 10 // bytes of each
)
