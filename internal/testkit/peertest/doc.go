// Package peertest is the one suite that every transport must pass: what a
// [dragoman.Peer] promises, asked of it from both sides.
//
// A transport's test says how a conversation is opened and what the transport
// cannot do, and [Run] does the rest:
//
//	func TestPeer(t *testing.T) {
//		peertest.Run(t, connect, nil)
//	}
//
// Each behaviour is a subtest over a conversation of its own. Most are shown
// twice: the dialling side asks the accepting one, and the other way round. The
// letters and digits in front of some names are those of the project's list of
// requirements.
//
// After each subtest no goroutine may be left, so Run is not for tests that run
// in parallel with others.
package peertest
