package streamable_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestS23_NoTwoConversationsOfTheClientUseTheSameID(t *testing.T) {
	s, client := serveScript(t, func(w http.ResponseWriter, k *took) {
		if !shakes(w, k, "2025-11-25") {
			replyTo(w, k, `{}`)
		}
	})
	seen := make(map[string]bool)
	for range 2 {
		conn := dialScript(t, client, nil)
		shake(t, conn, "2025-11-25")
		for range 5 {
			if _, err := conn.Call(t.Context(), peertest.Parse(t, callTool), nil); err != nil {
				t.Fatal(err)
			}
			seen[fmt.Sprint(jsonrpc.NewID[any](nil))] = true // of a conversation over another transport
		}
	}
	_, hellos := s.taken("initialize")
	_, calls := s.taken("tools/call")
	for _, k := range append(hellos, calls...) {
		if id := k.m.ID().String(); seen[id] {
			t.Errorf("the id %s is used again", id)
		}
		seen[k.m.ID().String()] = true
		if token := k.m.Meta(protocol.MetaProgressToken); token != nil && string(token) != k.m.ID().String() {
			t.Errorf("the progress token is %s, the id %s", token, k.m.ID())
		}
	}
	if want := 2*(1+5) + 10; len(seen) != want {
		t.Errorf("%d ids, want %d", len(seen), want)
	}
}

// TestClientDropsWhatIsAnotherConversations has a server that sends what belongs to
// one of its clients to the other too.
func TestClientDropsWhatIsAnotherConversations(t *testing.T) {
	asked, release := make(chan dragoman.ID, 1), make(chan struct{})
	_, client := serveScript(t, func(w http.ResponseWriter, k *took) {
		switch {
		case shakes(w, k, "2025-11-25"):
		case k.m.Name() == "first":
			asked <- k.m.ID()
			<-release
			replyTo(w, k, `{"for":"first"}`)
		default:
			other := <-asked
			sendEvents(w,
				oneEvent("", fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, other)),
				oneEvent("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"for":"first"}}`, other)),
				oneEvent("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"for":"second"}}`, k.m.ID())))
		}
	})
	received := newHeard()
	var done [2]chan string
	for i, name := range []string{"first", "second"} {
		conn := dialScript(t, client, nil)
		shake(t, conn, "2025-11-25")
		done[i] = make(chan string, 1)
		go func() { // ends with the call
			resp, err := conn.Call(t.Context(), peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`","_meta":{"progressToken":1}}}`), received)
			done[i] <- fmt.Sprint(resp, err)
		}()
	}
	if got := <-done[1]; got != `{"jsonrpc":"2.0","id":1,"result":{"for":"second"}} <nil>` {
		t.Errorf("the second call returns %s", got)
	}
	close(release)
	if got := <-done[0]; got != `{"jsonrpc":"2.0","id":1,"result":{"for":"first"}} <nil>` {
		t.Errorf("the first call returns %s", got)
	}
	if all := received.all(); all != "" {
		t.Errorf("the callers receive %s", all)
	}
}

func TestS23_QuestionsOfTwoServersHaveDifferentIDs(t *testing.T) {
	seen := make(map[dragoman.ID]bool)
	for range 2 {
		v := open(t, nil).hello(protocol.LatestLegacy)
		for range 2 {
			stream := v.events(v.do(t.Context(), http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test_sampling","arguments":{"prompt":"hi"}}}`))
			q := stream.message()
			if q.Method() != protocol.MethodCreateMessage || seen[q.ID()] {
				t.Errorf("the question is %s; ids used before: %v", q, seen)
			}
			seen[q.ID()] = true
			v.want(`{"jsonrpc":"2.0","id":`+q.ID().String()+`,"result":{"role":"assistant","model":"m","content":{"type":"text","text":"hi"}}}`, http.StatusAccepted, "")
			stream.message()
		}
	}
}
