package down_test

import (
	"context"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A request for the roots mostly has no params. Clients of the Go SDK cannot read
// an entry of inputRequests without any.
func TestQuestionWithoutParamsIsAskedWithEmptyOnes(t *testing.T) {
	t.Parallel()
	s := &script{rev: protocol.V20251125}
	s.on = map[string]handler{
		protocol.MethodCallTool: func(ctx context.Context, c *scripted, _ *dragoman.Message, from dragoman.Peer) (any, error) {
			got, err := c.ask(ctx, from, protocol.MethodListRoots, nil)
			return text(got), err
		},
	}
	r := newRig(t, dragoman.Local(s), nil, nil)
	questions, _ := asked(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, callParams("roots", nil)), nil))
	if q, ok := questions["1"]["params"].(object); !ok || len(q) != 0 {
		t.Errorf("got %v", questions)
	}
}
