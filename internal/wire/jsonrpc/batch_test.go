package jsonrpc_test

import (
	"context"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestB01_BatchIsAnsweredByABatchWhereTheRevisionHasThem(t *testing.T) {
	server := dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() == protocol.MethodInitialize {
			return req.Reply(map[string]any{"protocolVersion": string(req.Get("v")[1 : len(req.Get("v"))-1])})
		}
		return req.Reply(nil)
	}}
	const batch = `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/n"},{"jsonrpc":"2.0","id":"2","method":"ping"},{"jsonrpc":"2.0","id":3,"method":"initialize"},{"bad":1}]`
	for _, rev := range protocol.Revisions() {
		t.Run(rev.String(), func(t *testing.T) {
			c, w := start(t, server, &jsonrpc.Options{Server: true})
			w.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"v":"` + rev.String() + `"}}`)
			w.hear(t)
			if c.Revision() != rev {
				t.Fatalf("learnt revision %q, want %q", c.Revision(), rev)
			}
			w.say(batch)
			got := w.hearText(t)
			if !rev.HasBatch() {
				if m := peertest.Parse(t, got); m.RPCError().Code != protocol.CodeInvalidRequest {
					t.Errorf("refused by %s", got)
				}
				return
			}
			parts, err := dragoman.Elements([]byte(got))
			if err != nil || len(parts) != 4 {
				t.Fatalf("answered by %s", got)
			}
			for _, want := range []string{`"id":1,"result"`, `"id":"2","result"`, `"id":3,"error"`, `"id":null,"error"`} {
				if !strings.Contains(got, want) {
					t.Errorf("answer %s lacks %s", got, want)
				}
			}
			w.say(`[]`)
			if m := w.hear(t); m.RPCError().Code != protocol.CodeInvalidRequest {
				t.Errorf("empty batch: %s", m)
			}
			w.say(`[{"jsonrpc":"2.0","method":"notifications/n"}]`) // nothing to answer
			w.say(`{"jsonrpc":"2.0","id":5,"method":"ping"}`)
			if m := w.hear(t); m.ID().String() != "5" {
				t.Errorf("a batch of notifications was answered: %s", m)
			}
		})
	}
}

func TestC16_MethodBatchIsUnwrappedAndAnsweredOneByOne(t *testing.T) {
	told := make(notes, 4)
	_, w := start(t, told, &jsonrpc.Options{Server: true})
	w.say(`{"jsonrpc":"2.0","method":"batch","params":{"messages":[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"notifications/note"},{"jsonrpc":"2.0","id":2,"method":"b"}]}}`)
	got := map[string]bool{w.hear(t).ID().String(): true, w.hear(t).ID().String(): true}
	if !got["1"] || !got["2"] {
		t.Errorf("answered ids %v, want 1 and 2", got)
	}
	if note := await(t, told); note.Method() != "notifications/note" {
		t.Errorf("told %s", note)
	}
	w.say(`{"jsonrpc":"2.0","method":"batch","params":{}}`)
	if m := w.hear(t); m.RPCError().Code != protocol.CodeInvalidRequest {
		t.Errorf("batch without messages: %s", m)
	}
}
