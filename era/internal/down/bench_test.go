package down_test

import (
	"context"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/adapt"
	"github.com/dragoman-mcp/dragoman/era/internal/down"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// BenchmarkCall measures what the crossing costs, with a server that costs
// nothing: of calls that cannot be asked, of those that can, and of the mere
// adaptation of both messages.
func BenchmarkCall(b *testing.B) {
	hello, _ := dragoman.NewResult(dragoman.IntID(1), object{"protocolVersion": "2025-11-25", "capabilities": object{"tools": object{}}, "serverInfo": object{"name": "s", "version": "1"}})
	answer, _ := dragoman.NewResult(dragoman.IntID(1), text("hello"))
	local := dragoman.Local(dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
		return dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			if req.Method() == protocol.MethodInitialize {
				return hello, nil
			}
			return answer.WithID(req.ID()), nil
		}}, nil
	}))
	s := down.New(local.Dial, nil)
	defer s.Close()
	ctx := context.Background()
	run := func(name string, caps object) {
		req := request(b, 1, protocol.MethodCallTool, caps, callParams("echo", object{"text": "hello"}))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if resp, err := s.Call(ctx, req, nil); err != nil || resp.IsError() {
					b.Fatal(resp, err)
				}
			}
		})
	}
	run("plain", nil)
	run("may-ask", canAll)
	b.Run("adapt-only", func(b *testing.B) {
		b.ReportAllocs()
		req := request(b, 1, protocol.MethodCallTool, nil, callParams("echo", object{"text": "hello"}))
		route := adapt.Route{Client: protocol.Latest, Server: protocol.LatestLegacy}
		for b.Loop() {
			if _, err := protocol.ReadEnvelope(req); err != nil {
				b.Fatal(err)
			}
			if _, err := route.Request(req, nil); err != nil {
				b.Fatal(err)
			}
			if _, err := route.Response(protocol.MethodCallTool, answer, []byte(`{"name":"s","version":"1"}`)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
