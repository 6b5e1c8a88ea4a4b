package jsonrpc_test

import (
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

func TestEventsOfAStreamReachItsCallerUnderItsOwnId(t *testing.T) {
	local, others := listener()
	c, w := start(t, local, nil)
	from, heard := listener()
	done := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":"s","method":"events/stream","params":{"name":"n"}}`), from)
	w.hear(t)
	w.say(`{"jsonrpc":"2.0","method":"notifications/events/event","params":{"name":"n","_meta":{"io.modelcontextprotocol/subscriptionId":#1}}}`)
	const want = `{"jsonrpc":"2.0","method":"notifications/events/event","params":{"name":"n","_meta":{"io.modelcontextprotocol/subscriptionId":"s"}}}`
	if got := await(t, heard); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	w.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	await(t, others)
	w.say(`{"jsonrpc":"2.0","id":#1,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":#1}}}`)
	if r := await(t, done); r.err != nil || string(r.resp.Meta("io.modelcontextprotocol/subscriptionId")) != `"s"` {
		t.Errorf("answer: %v, %v", r.resp, r.err)
	}
	if len(heard) > 0 {
		t.Errorf("the stream got %s", <-heard)
	}
}
