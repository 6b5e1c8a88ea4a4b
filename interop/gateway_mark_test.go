package interop_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestGatewayClientsUseTheMCPGoServer(t *testing.T) {
	t.Parallel()
	for _, era := range []protocol.Era{protocol.Legacy, protocol.Modern} {
		t.Run(era.String()+" server", func(t *testing.T) {
			t.Parallel()
			url := gatewayOf(t, crossGoServerOf(t, crossOther(era), "http"), era)
			for _, client := range gatewayClients {
				t.Run(fmt.Sprintf("%s %s among all", client.name, client.rev), func(t *testing.T) {
					tryMark(t, mark(client.connect.open(t, []string{url + "/mcp"}, gatewayName, client.rev)))
				})
				t.Run(fmt.Sprintf("%s %s by itself", client.name, client.rev), func(t *testing.T) {
					tryMark(t, client.connect.open(t, []string{url + "/servers/mark/mcp"}, "mcpgoserver", client.rev))
				})
			}
		})
	}
}

// tryMark uses the server of mcp-go.
func tryMark(t *testing.T, x *session) {
	t.Helper()
	if x.rev.HasSessions() {
		x.want(t, "setLoggingLevel", object{"level": "debug"})
		x.want(t, "subscribeResource", object{"uri": watched})
	} else {
		x.want(t, "listen", object{
			"toolsListChanged": false, "promptsListChanged": true, "resourcesListChanged": false, "resourceSubscriptions": []string{watched},
		})
	}
	names, err := x.tools(t.Context())
	if err != nil || len(names) != len(mcpGoTools) {
		t.Errorf("tools: %q, %v", names, err)
	}
	cancels := x.cannot["cancellation"] == ""
	for _, name := range names {
		want, ok := mcpGoTools[name]
		switch {
		case !ok:
			t.Errorf("the tool %s is new: say what is expected of it", name)
		case name == "ask" && x.hasty && !x.rev.HasSessions():
			// The Go SDK 1.8.0 cannot read the question for roots, which has no params.
		case want.waits && !cancels:
			// It would continue, and the calls after it might be in another process.
		default:
			callTool(t, x, name, want)
		}
	}
	// In the modern era a server of mcp-go 1.2.1 does not say on stdio to which
	// subscription a notification belongs; it reaches all that want to know.
	if !x.hasty { // which does not want to know
		x.until(t, "change", object{}, "changed", protocol.NotePromptsChanged)
	}
	x.until(t, "update", object{}, "updated", protocol.NoteResourceUpdated)
	if cancels {
		cancelMark(t, x)
	}
}

// cancelMark cancels more calls than the server has workers for, so that those
// which continued would keep others from being served.
func cancelMark(t *testing.T, x *session) {
	t.Helper()
	for i := range 6 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		token := fmt.Sprintf("call %d", i)
		go func() { // ends when ctx does
			_, err := x.call(ctx, "wait", object{}, token)
			ended <- err
		}()
		x.notes.wait(t, 1, protocol.NoteProgress, token)
		cancel()
		select {
		case err := <-ended:
			if err == nil {
				t.Error("the cancelled call ended by itself")
			}
		case <-time.After(patience):
			t.Fatal("the cancelled call does not end")
		}
	}
	callTool(t, x, "picture", mcpGoTools["picture"])
	// The gateway notices a moment later that a call is over. The next client must not come
	// before: log messages of a legacy server that has two calls belong to neither.
	x.repeat(t, "log", object{}, "two messages", protocol.NoteMessage)
}
