package peertest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// waitLimit is how long a test waits for what must come at once.
const waitLimit = 15 * time.Second * slowdown

// A test is one behaviour shown over one conversation, in which one side, the
// asker, asks the other.
type test struct {
	*testing.T
	opts    *Options
	connect Connect
	reverse bool            // the asker is the accepting side
	silent  bool            // open sends nothing; set before open
	ctx     context.Context // ends when patience does
	before  map[string]string
}

func newTest(t *testing.T, s *suite, reverse bool, before map[string]string) *test {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*waitLimit, fmt.Errorf("peertest: %s took too long", t.Name()))
	t.Cleanup(cancel)
	return &test{T: t, opts: &s.opts, connect: s.connect, reverse: reverse, ctx: ctx, before: before}
}

// other is the same test with the sides exchanged: what the answerer asks.
func (t *test) other() *test {
	o := *t
	o.reverse = !t.reverse
	return &o
}

// hello is the name of the tool that open calls.
const hello = "peertest-hello"

// open opens the conversation. It returns what the asker asks, and what the
// answerer would ask; of the two, that of the accepting side is nil if the
// transport is stateless. asker may be nil if it is the dialling side.
func (t *test) open(asker, answerer dragoman.Peer) (toAnswerer, toAsker dragoman.Conn) {
	t.Helper()
	client, server := asker, answerer
	if t.reverse {
		client, server = answerer, asker
	}
	g := &handshakePeer{Peer: server, revision: t.opts.Revision, accepted: make(chan dragoman.Conn, 1), ready: make(chan struct{}, 1)}
	dialled := t.connect(t.T, client, g)
	if dialled == nil {
		t.Fatal("Connect returned no conversation")
	}
	t.Cleanup(func() { t.close("the dialling side, at the end of the test", dialled) })
	if !t.silent {
		t.handshake(dialled, g)
	}
	var accepted dragoman.Conn
	if !t.opts.Stateless {
		accepted = receive(t, g.accepted, "the server accepts the conversation")
	}
	if t.reverse {
		return accepted, dialled
	}
	return dialled, accepted
}

// handshake makes sure that the conversation has begun on both sides.
func (t *test) handshake(dialled dragoman.Conn, g *handshakePeer) {
	t.Helper()
	if r := t.opts.Revision; r != protocol.Unknown && r.HasSessions() {
		req := t.parse(fmt.Sprintf(`{"jsonrpc":"2.0","id":"peertest-init","method":"initialize","params":{"protocolVersion":%q,`+
			`"capabilities":{"roots":{"listChanged":true},"sampling":{}},"clientInfo":{"name":"peertest","version":"1"}}}`, r))
		if resp, err := dialled.Call(t.ctx, req, nil); err != nil || resp.IsError() {
			t.Fatalf("initialize: got %v, error %v", resp, err)
		}
		note := t.parse(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		if err := dialled.Notify(t.ctx, note); err != nil {
			t.Fatalf("notifications/initialized: %v", err)
		}
		receive(t, g.ready, "the server receives notifications/initialized")
	}
	req := t.withEnvelope(t.parse(`{"jsonrpc":"2.0","id":"peertest-hello","method":"tools/call","params":{"name":"` + hello + `","arguments":{}}}`))
	if resp, err := dialled.Call(t.ctx, req, nil); err != nil || resp.IsError() {
		t.Fatalf("first call of the conversation: got %v, error %v", resp, err)
	}
}

// close closes a side, which must not take long.
func (t *test) close(who string, c dragoman.Conn) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Close() // what it returns is the transport's affair
	}()
	t.within(done, "Close returns: "+who)
}

// A handshakePeer is the acceptor of a conversation and answers what opens it; all
// else it leaves to the test's own peer.
type handshakePeer struct {
	dragoman.Peer
	revision protocol.Revision
	accepted chan dragoman.Conn
	ready    chan struct{}
}

func (g *handshakePeer) Accept(_ context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	select {
	case g.accepted <- client:
	default: // a stateless endpoint may accept each request
	}
	return g, nil
}

func (g *handshakePeer) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	switch {
	case req.Method() == protocol.MethodInitialize:
		return req.Reply(json.RawMessage(fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"logging":{},"tools":{}},`+
			`"serverInfo":{"name":"peertest","version":"1"}}`, g.revision)))
	case req.Method() == protocol.MethodCallTool && req.Name() == hello:
		return req.Reply(content(g.revision, "hello"))
	}
	return g.Peer.Call(ctx, req, from)
}

func (g *handshakePeer) Notify(ctx context.Context, note *dragoman.Message) error {
	if note.Method() == protocol.NoteInitialized {
		select {
		case g.ready <- struct{}{}:
		default:
		}
		return nil
	}
	return g.Peer.Notify(ctx, note)
}

// within fails the test if ch is not closed soon.
func (t *test) within(ch <-chan struct{}, what string) {
	t.Helper()
	receive(t, ch, what)
}

// receive returns the next value of ch, or the zero one if it is closed. It
// fails the test if that takes long.
func receive[T any](t *test, ch <-chan T, what string) T {
	t.Helper()
	timer := time.NewTimer(waitLimit)
	defer timer.Stop()
	select {
	case v := <-ch:
		return v
	case <-timer.C:
	}
	t.Fatalf("waited %v for this: %s\n\ngoroutines:\n\n%s", waitLimit, what, strings.Join(leftover(t.before), "\n\n"))
	panic("unreachable")
}
