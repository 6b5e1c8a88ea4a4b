package jsonrpc_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// TestRequestOfAClientIsNoPartOfOurQuestion has a client that makes a request while
// one question waits for its answer. The request continues when that has come.
func TestRequestOfAClientIsNoPartOfOurQuestion(t *testing.T) {
	release := make(chan struct{})
	local := dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		select {
		case <-release:
			return req.Reply(map[string]string{"by": "local"})
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}}
	c, w := start(t, local, &jsonrpc.Options{Server: true})
	asker := make(notes, 1)
	answered := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":"q","method":"elicitation/create"}`), asker)
	question := w.hear(t)
	w.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"b"}}`)
	w.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, question.ID()))
	if r := await(t, answered); r.err != nil || r.resp.IsError() {
		t.Errorf("the question: %v, %v", r.resp, r.err)
	}
	close(release)
	if got := w.hearText(t); got != `{"jsonrpc":"2.0","id":1,"result":{"by":"local"}}` {
		t.Errorf("the request is answered by %s", got)
	}
}

// A client has no log messages in the protocol; one that sends them does not say to
// which question they belong.
func TestLogMessageOfAClientGoesToTheLocalPeer(t *testing.T) {
	local, asker := make(notes, 1), make(notes, 1)
	c, w := start(t, local, &jsonrpc.Options{Server: true})
	answered := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":"q","method":"elicitation/create"}`), asker)
	question := w.hear(t)
	w.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"x"}}`)
	if note := await(t, local); note.Method() != protocol.NoteMessage {
		t.Errorf("the local peer is told %s", note)
	}
	w.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, question.ID()))
	await(t, answered)
	if len(asker) > 0 {
		t.Errorf("whoever asked is told %s", <-asker)
	}
}
