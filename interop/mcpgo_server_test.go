package interop_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// mcpGoTools says what each tool of the mcp-go server does. Two are not in it:
// raise and wait.
var mcpGoTools = map[string]expected{
	"echo":     {args: object{"text": "hello"}, text: "hello"},
	"picture":  {kinds: "text image"},
	"fail":     {isError: true, text: "failed as asked"},
	"progress": {text: "three steps", progress: 3},
	"log":      {text: "two messages", logs: 2},
	"ask":      {text: "some text"},
	"update":   {text: "updated"},
	"change":   {text: "changed"},
}

func mcpGoServer(t *testing.T) *stdio.Command { return &stdio.Command{Path: mcpGoProgram.in(t)} }

func TestD03_OurClientCallsEveryToolOfTheMCPGoServer(t *testing.T) {
	t.Parallel()
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		c, _ := begin(t, mcpGoServer(t), rev)
		if rev.HasSessions() {
			c.want(protocol.MethodSetLevel, object{"level": "debug"})
			c.want(protocol.MethodPing, object{})
		} else {
			c.level = "debug"
		}
		c.callAll(mcpGoTools)
	})
}
