package jsonrpc_test

import (
	"fmt"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
)

func TestS23_D04_NoTwoConversationsUseTheSameID(t *testing.T) {
	const each = 50
	seen := make(map[string]bool)
	for range 2 {
		c, w := start(t, nil, nil)
		for range each {
			done := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"progressToken":1}}}`), nil)
			m := w.hear(t)
			id, ok := m.ID().Int()
			if !ok || id < 1<<30 || id >= 1<<31 {
				t.Errorf("the id is %s, want one that an int32 holds and that nobody comes to who counts from 1", m.ID())
			}
			if seen[m.ID().String()] {
				t.Errorf("the id %s is used again", m.ID())
			}
			seen[m.ID().String()] = true
			if token := string(m.Meta("progressToken")); token != m.ID().String() {
				t.Errorf("the progress token is %s, the id %s", token, m.ID())
			}
			w.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID()))
			await(t, done)
		}
	}
	if len(seen) != 2*each {
		t.Errorf("%d ids for %d calls", len(seen), 2*each)
	}
}

// TestWhatIsAnotherConversationsIsDropped has a server that sends its answers and
// progress to all of its clients.
func TestWhatIsAnotherConversationsIsDropped(t *testing.T) {
	const ask = `{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"progressToken":1}}}`
	c, w := start(t, nil, nil)
	other, wire := start(t, nil, nil)
	received := make(notes, 1)
	done := call(t.Context(), c, peertest.Parse(t, ask), received)
	w.hear(t)
	theirs := call(t.Context(), other, peertest.Parse(t, ask), received)
	id := wire.hear(t).ID()
	for _, text := range []string{
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`,
		`{"jsonrpc":"2.0","id":%s,"result":{"for":"the other"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`,
	} {
		w.say(fmt.Sprintf(text, id))
	}
	w.say(`{"jsonrpc":"2.0","id":#1,"result":{"for":"us"}}`)
	if r := await(t, done); r.err != nil || string(r.resp.Get("for")) != `"us"` || len(received) > 0 {
		t.Errorf("answer: %v, %v, after %d notifications", r.resp, r.err, len(received))
	}
	wire.say(`{"jsonrpc":"2.0","id":#1,"result":{}}`)
	await(t, theirs)
}

func TestIDThatIsUnderWayIsNotMintedAgain(t *testing.T) {
	next := jsonrpc.NewID[any](nil) + 1
	if id := jsonrpc.NewID(map[int64]bool{next: true}); id != next+1 {
		t.Errorf("the id is %d while %d is in progress, want %d", id, next, next+1)
	}
}
