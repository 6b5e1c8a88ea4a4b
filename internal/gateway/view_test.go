package gateway

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/rules"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// TestAnAnswerInHandDoesNotWaitForAList has a server that refuses a call. Nobody is to ask it
// for its tools to say it better.
func TestAnAnswerInHandDoesNotWaitForAList(t *testing.T) {
	for _, test := range []struct {
		name  string
		tools config.Tools
		want  string
	}{
		{"everything is offered", config.Tools{}, "Unknown tool: ecko, there is secret"},
		{"not everything is", config.Tools{Exclude: []string{"secret"}}, "Unknown tool, or arguments that do not fit it: ecko; tools/list names what there is"},
	} {
		t.Run(test.name, func(t *testing.T) {
			lists := 0
			server := dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
				if req.Method() == protocol.MethodListTools {
					lists++
					return req.Reply(map[string]any{"tools": []any{map[string]any{"name": "echo", "inputSchema": map[string]any{"type": "object"}}}})
				}
				return req.Fail(&dragoman.Error{Code: protocol.CodeInvalidParams, Message: "Unknown tool: ecko, there is secret"}), nil
			}}
			f := &filter{Peer: server, views: &views{server: "s", config: func() *config.Server { return &config.Server{Tools: test.tools} }, rules: &atomic.Pointer[rules.Set]{}}}
			ask := func(method string, params any) string {
				t.Helper()
				req, err := dragoman.NewRequest(dragoman.IntID(1), method, params)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := f.Call(t.Context(), req, nil)
				if err != nil {
					t.Fatal(err)
				}
				if !resp.IsError() {
					return ""
				}
				return resp.RPCError().Message
			}
			call := map[string]string{"name": "ecko"}
			if text := ask(protocol.MethodCallTool, call); text != test.want || lists != 0 {
				t.Errorf("%q after %d lists, want %q", text, lists, test.want)
			}
			ask(protocol.MethodListTools, nil)
			if text := ask(protocol.MethodCallTool, call); !strings.HasSuffix(text, `did you mean "echo"?`) || lists != 1 {
				t.Errorf("with a known list: %q after %d lists", text, lists)
			}
		})
	}
}
