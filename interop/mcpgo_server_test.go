package interop_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// mcpGoTools says what each tool of the mcp-go server does.
var mcpGoTools = map[string]expected{
	"echo":     {args: object{"text": "hello"}, text: "hello"},
	"picture":  {kinds: "text image"},
	"fail":     {isError: true, text: "failed as asked"},
	"raise":    {raises: "raised as asked"},
	"wait":     {waits: true},
	"progress": {text: "three steps", progress: 3},
	"log":      {text: "two messages", logs: 2},
	"ask":      {text: "map[name:some text]"},
	"update":   {text: "updated"},
	"change":   {text: "changed"},
}

func TestD03_OurClientCallsEveryToolOfTheMCPGoServer(t *testing.T) {
	t.Parallel()
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		c, _ := begin(t, mcpGoProgram.command(t), rev)
		if rev.HasSessions() {
			c.want(protocol.MethodSetLevel, object{"level": "debug"})
			c.want(protocol.MethodPing, object{})
		} else {
			c.level = "debug"
		}
		c.callAll(mcpGoTools)
	})
}

func TestOurClientReadsEverythingElseOfTheMCPGoServer(t *testing.T) {
	t.Parallel()
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		c, _ := begin(t, mcpGoProgram.command(t), rev)
		if n := c.readAll(); n != 4 {
			t.Errorf("%d resources on two pages, want 4", n)
		}
		if n := c.promptAll(nil); n != 1 {
			t.Errorf("%d prompts, want 1", n)
		}
		if n := len(c.list(protocol.MethodListTemplates, "resourceTemplates")); n != 1 {
			t.Errorf("%d templates, want 1", n)
		}
		c.want(protocol.MethodReadResource, object{"uri": "test://template/7"})
		c.wantError(rev.CodeNoResource(), protocol.MethodReadResource, object{"uri": "test://nowhere"})
		c.want(protocol.MethodComplete, object{
			"ref":      object{"type": "ref/prompt", "name": "greeting"},
			"argument": object{"name": "name", "value": "w"},
		})
	})
}

func TestOurClientHearsOfChangesOfTheMCPGoServer(t *testing.T) {
	t.Parallel()
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		c, _ := begin(t, mcpGoProgram.command(t), rev)
		stop := func() {}
		if rev.HasListen() {
			stop = c.listen(object{"promptsListChanged": true, "resourceSubscriptions": []string{watched}})
		} else {
			c.want(protocol.MethodSubscribe, object{"uri": watched})
		}
		c.tool("change")
		c.tool("update")
		c.notes.wait(t, 1, protocol.NotePromptsChanged, "")
		c.notes.wait(t, 1, protocol.NoteResourceUpdated, watched)
		stop()
		c.tool("progress")
	})
}

// The server has five workers for tools, so calls that went on after they were
// cancelled would keep others from being served. A cancel counts only once the
// call has begun: the server loses those of calls that wait for a worker.
func TestD10_OurCancelReachesTheMCPGoServer(t *testing.T) {
	t.Parallel()
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		c, _ := begin(t, mcpGoProgram.command(t), rev)
		for i := range 6 {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			token := fmt.Sprintf("call %d", i)
			go func() { // ends when ctx does
				_, err := c.call(ctx, "wait", nil, token)
				ended <- err
			}()
			c.notes.wait(t, 1, protocol.NoteProgress, token)
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the cancelled call returned %v", err)
			}
		}
		c.tool("picture")
	})
}
