package dragoman_test

import (
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
)

// A cutter is a caller whose stream can be cut.
type cutter struct {
	dragoman.Funcs
	after time.Duration
}

func (c *cutter) CutStream(retry time.Duration) { c.after = retry }

// Wrappers that say what they wrap, and one that does not.
type (
	openPeer   struct{ dragoman.Peer }
	openConn   struct{ dragoman.Conn }
	closedPeer struct{ dragoman.Peer }
)

func (p openPeer) Unwrap() dragoman.Peer { return p.Peer }
func (c openConn) Unwrap() dragoman.Conn { return c.Conn }

func TestCapabilitiesAreFoundBehindWrappers(t *testing.T) {
	conn, _ := dragoman.Pipe(nil, nil)
	defer func() { _ = conn.Close() }()
	for _, p := range []dragoman.Peer{conn, openConn{conn}, openPeer{openConn{openConn{conn}}}} {
		if _, ok := dragoman.PeerAs[dragoman.Correlator](p); !ok {
			t.Errorf("%T hides that it correlates", p)
		}
	}
	c := new(cutter)
	found, ok := dragoman.PeerAs[dragoman.StreamCutter](openPeer{openPeer{c}})
	if !ok {
		t.Fatal("the stream cannot be cut")
	}
	if found.CutStream(time.Second); c.after != time.Second {
		t.Error("another stream was cut")
	}
	for _, p := range []dragoman.Peer{nil, dragoman.NoPeer, closedPeer{c}, openPeer{}, openConn{}} {
		if got, ok := dragoman.PeerAs[dragoman.StreamCutter](p); ok {
			t.Errorf("%T is said to be %T", p, got)
		}
	}
}

// deaf is a Conn on which nothing comes outside of calls.
type deaf struct{ dragoman.Conn }

func (deaf) ReceivesBackground() bool { return false }

func TestConnsAreTakenToReceiveAndNotToCorrelate(t *testing.T) {
	conn, _ := dragoman.Pipe(nil, nil)
	defer func() { _ = conn.Close() }()
	plain := struct{ dragoman.Conn }{conn}
	if dragoman.Correlates(plain) || !dragoman.ReceivesBackground(plain) {
		t.Error("a Conn that says nothing is taken for one that knows")
	}
	if !dragoman.Correlates(openConn{conn}) || dragoman.ReceivesBackground(openConn{deaf{conn}}) {
		t.Error("what a Conn knows is not found behind a wrapper")
	}
}
