package dragoman

import "time"

// PeerAs finds what a Peer can do beyond its two methods. A capability is an interface
// with one method, such as [Correlator]; PeerAs returns the first of p and of those that
// p is wrapped around that implements it. A Peer that wraps another has a method Unwrap
// that returns the Peer or the [Conn] that it wraps, so that it hides nothing.
//
// The capabilities that a Peer or Conn of another module can have are those in this package.
func PeerAs[T any](p Peer) (t T, ok bool) {
	for p != nil {
		if t, ok = p.(T); ok {
			return t, true
		}
		switch wrapper := p.(type) {
		case interface{ Unwrap() Conn }:
			p = wrapper.Unwrap()
		case interface{ Unwrap() Peer }:
			p = wrapper.Unwrap()
		default:
			return t, false
		}
	}
	return t, false
}

// A Correlator is a Conn that may know which call of ours a question or a log message
// of the other side belongs to, and give it to the from of that call. Other Conns do so
// only while there is one call.
type Correlator interface {
	Correlates() bool
}

// Correlates reports whether c is a [Correlator] that does.
func Correlates(c Conn) bool {
	inner, ok := PeerAs[Correlator](c)
	return ok && inner.Correlates()
}

// A BackgroundReceiver is a Conn that may know that nothing reaches us on it outside of
// our calls: then ReceivesBackground is false.
type BackgroundReceiver interface {
	ReceivesBackground() bool
}

// ReceivesBackground reports whether something may reach us on c outside of our calls:
// c is not a [BackgroundReceiver] that knows better.
func ReceivesBackground(c Conn) bool {
	inner, ok := PeerAs[BackgroundReceiver](c)
	return !ok || inner.ReceivesBackground()
}

// A CallLimiter is a Conn that limits how long the other side may take over each call of
// ours, reset by each progress message, and not while it waits for an answer of ours.
type CallLimiter interface {
	LimitCalls(after time.Duration)
}

// A LocalAsker is a Conn that can be told to give every question of the other side to
// the local peer, also one that it would give to the from of a call.
type LocalAsker interface {
	AskLocal()
}

// A StreamCutter is a from whose stream can be cut: the client loses the connection, not
// the call, and is asked to come back for the rest after retry.
type StreamCutter interface {
	CutStream(retry time.Duration)
}
