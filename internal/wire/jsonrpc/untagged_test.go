package jsonrpc_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

// listener returns a peer that gives what it is told to a channel.
func listener() (dragoman.Peer, chan string) {
	heard := make(chan string, 8)
	return dragoman.Funcs{OnNotify: func(_ context.Context, note *dragoman.Message) error {
		heard <- string(note.Bytes())
		return nil
	}}, heard
}

func TestChangeThatNamesNoSubscriptionReachesAllThatWantIt(t *testing.T) {
	local, others := listener()
	c, w := start(t, local, nil)
	var told []chan string
	for i, wanted := range []string{`{"toolsListChanged":true}`, `{"promptsListChanged":true}`, `{"toolsListChanged":true,"resourceSubscriptions":["a:b"]}`} {
		from, heard := listener()
		told = append(told, heard)
		call(t.Context(), c, peertest.Parse(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":"l%d","method":"subscriptions/listen","params":{"notifications":%s}}`, i, wanted)), from)
		w.hear(t)
	}
	tagged := func(params string, i int) string {
		return fmt.Sprintf(`"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"l%d"}%s}}`, i, params)
	}
	w.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	for _, i := range []int{0, 2} {
		if got, want := await(t, told[i]), `{"jsonrpc":"2.0","method":"notifications/tools/list_changed",`+tagged("", i); got != want {
			t.Errorf("listen %d is told %s, want %s", i, got, want)
		}
	}
	w.say(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}`)
	if got, want := await(t, told[2]), `{"jsonrpc":"2.0","method":"notifications/resources/updated",`+tagged(`,"uri":"a:b"`, 2); got != want {
		t.Errorf("listen 2 is told %s, want %s", got, want)
	}
	w.say(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"c:d"}}`)
	if got := await(t, others); got != `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"c:d"}}` {
		t.Errorf("what nobody wants is %s", got)
	}
	for i, heard := range told {
		if len(heard) > 0 {
			t.Errorf("listen %d is told %s too", i, <-heard)
		}
	}
}
