//go:build npm

package interop_test

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// npmRevisions are the revisions that the npm server speaks.
var npmRevisions = []protocol.Revision{protocol.V20251125, protocol.V20250618, protocol.V20250326, protocol.V20241105}

// npmServer is the reference server of the TypeScript SDK.
func npmServer(t *testing.T) *stdio.Command {
	return &stdio.Command{
		Path: "node", Args: []string{filepath.Join(npmFolder(t), "server-everything", "dist", "index.js"), "stdio"},
		Grace: 500 * time.Millisecond, // it ends by SIGTERM only while its timers run
	}
}

// npmTools says what each tool of the npm server does.
func npmTools() map[string]expected {
	rows := map[string]expected{
		"echo":                           {text: "some text"},
		"get-annotated-message":          {args: object{"messageType": "error", "includeImage": true}, kinds: "text image"},
		"get-env":                        {text: "PATH"},
		"get-resource-links":             {args: object{"count": 2}, kinds: "text resource_link resource_link"},
		"get-resource-reference":         {args: object{"resourceType": "Blob", "resourceId": 3}, kinds: "text resource text"},
		"get-structured-content":         {text: "temperature"},
		"get-sum":                        {args: object{"a": 40, "b": 2}, text: "42"},
		"get-tiny-image":                 {kinds: "text image text"},
		"gzip-file-as-resource":          {args: object{"data": "data:text/plain,hello", "outputType": "resource"}, kinds: "resource"},
		"toggle-simulated-logging":       {},
		"toggle-subscriber-updates":      {},
		"trigger-long-running-operation": {args: object{"duration": 0.2, "steps": 4}, text: "Steps: 4", progress: 4},

		"get-roots-list":                    {text: rootURI},
		"trigger-elicitation-request":       {kinds: "text text text", text: "provided"},
		"trigger-url-elicitation":           {args: object{"url": "https://example.com/"}, kinds: "text text", text: "completed"},
		"trigger-sampling-request":          {args: object{"prompt": "What is the capital?"}, text: modelSays},
		"trigger-sampling-request-async":    {args: object{"prompt": "What is the capital?"}, text: modelSays},
		"trigger-elicitation-request-async": {text: "some text"},
		"simulate-research-query":           {isError: true, text: "requires task"},
	}
	for name, row := range rows {
		row.logs = -1 // the server logs when it likes
		rows[name] = row
	}
	return rows
}

// beginNpm begins a conversation with the npm server as a client that can do
// everything, tasks included.
func beginNpm(t *testing.T, server dragoman.Dialer, rev protocol.Revision) *ours {
	t.Helper()
	c := dial(t, server)
	c.rev = rev
	c.caps = maps.Clone(canAll)
	c.caps["tasks"] = object{"requests": object{
		"sampling": object{"createMessage": object{}}, "elicitation": object{"create": object{}},
	}}
	hello := c.initialize()
	if info, _ := hello["serverInfo"].(object); !strings.Contains(info["name"].(string), "everything") {
		t.Errorf("the server says %v", hello)
	}
	return c
}

func TestNpmServerToolsAreListedAndCalledByOurClient(t *testing.T) {
	t.Parallel()
	for _, rev := range npmRevisions {
		t.Run(rev.String(), func(t *testing.T) {
			t.Parallel()
			c := beginNpm(t, npmServer(t), rev)
			c.callAll(npmTools())
		})
	}
}

func TestNpmServerResourcesPromptsAndCompletionsAreReadByOurClient(t *testing.T) {
	t.Parallel()
	for _, rev := range npmRevisions {
		t.Run(rev.String(), func(t *testing.T) {
			t.Parallel()
			c := beginNpm(t, npmServer(t), rev)
			if n := c.readAll(); n == 0 {
				t.Error("no resources are listed")
			}
			if n := c.promptAll(object{"resourceType": "Text", "resourceId": "1"}); n != 4 {
				t.Errorf("%d prompts, want 4", n)
			}
			if n := len(c.list(protocol.MethodListTemplates, "resourceTemplates")); n != 2 {
				t.Errorf("%d templates, want 2", n)
			}
			c.want(protocol.MethodReadResource, object{"uri": "demo://resource/dynamic/text/7"})
			c.want(protocol.MethodReadResource, object{"uri": "demo://resource/dynamic/blob/7"})
			got := c.want(protocol.MethodComplete, object{
				"ref":      object{"type": "ref/prompt", "name": "completable-prompt"},
				"argument": object{"name": "name", "value": "A"},
				"context":  object{"arguments": object{"department": "Engineering"}},
			})
			if values := decode[[]string](t, got["completion"].(object)["values"]); !slices.Equal(values, []string{"Alice"}) {
				t.Errorf("completion: %q", values)
			}
			c.want(protocol.MethodPing, object{})
		})
	}
}

func TestNpmServerChangesAndLogMessagesAreHeardByOurClient(t *testing.T) {
	t.Parallel()
	beginNpm(t, npmServer(t), protocol.V20251125).hearOfNpm()
}

// hearOfNpm lets the npm server tell of changes and ask for roots.
func (c *ours) hearOfNpm() {
	t := c.t
	t.Helper()
	const uri = "demo://resource/dynamic/text/1"
	c.want(protocol.MethodSetLevel, object{"level": "debug"})
	c.want(protocol.MethodSubscribe, object{"uri": uri})
	c.notes.wait(t, 1, protocol.NoteMessage, uri) // it logs that it was asked
	c.tool("toggle-subscriber-updates")
	c.notes.wait(t, 1, protocol.NoteResourceUpdated, uri)
	c.tool("toggle-simulated-logging")
	c.notes.wait(t, 1, protocol.NoteMessage, "evel") // of a level by chance
	c.want(protocol.MethodUnsubscribe, object{"uri": uri})
	// The server asks for the roots by itself, and again when they changed.
	c.notes.wait(t, 1, protocol.NoteMessage, "Roots updated: 1 root(s)")
	c.tell(protocol.NoteRootsChanged, nil)
	c.notes.wait(t, 2, protocol.NoteMessage, "Roots updated: 1 root(s)")
	if n := c.questions(protocol.MethodListRoots); n != 2 {
		t.Errorf("the server asked %d times for roots, want 2", n)
	}
}

func TestNpmServerRunsATaskForOurClient(t *testing.T) {
	t.Parallel()
	c := beginNpm(t, npmServer(t), protocol.V20251125)
	created := c.want(protocol.MethodCallTool, object{
		"name": "simulate-research-query", "arguments": object{"topic": "python", "ambiguous": true},
		"task": object{"ttl": 60_000},
	})
	id := created["task"].(object)["taskId"]
	if status := c.want(protocol.MethodGetTask, object{"taskId": id})["status"]; status != "working" {
		t.Errorf("the task is %v", status)
	}
	// The server asks the user while we wait for the result.
	checkResult(t, "simulate-research-query", c.want(protocol.MethodTaskResult, object{"taskId": id}), expected{text: "python (programming)"})
	if n := c.questions(protocol.MethodElicit); n != 1 {
		t.Errorf("the server asked %d times, want once", n)
	}
	if status := c.want(protocol.MethodGetTask, object{"taskId": id})["status"]; status != "completed" {
		t.Errorf("the task is %v", status)
	}
}

func TestNpmE03_ServerRefusesAProbeAndIsReachedByInitializeOnAFreshProcess(t *testing.T) {
	t.Parallel()
	c := dial(t, npmServer(t))
	c.rev = protocol.V20260728
	c.wantError(protocol.CodeMethodNotFound, protocol.MethodDiscover, object{})
	beginNpm(t, npmServer(t), protocol.LatestLegacy).want(protocol.MethodListTools, object{})
}

func TestNpmServerIsLeftInOrderAfterACancelledCall(t *testing.T) {
	t.Parallel()
	c := beginNpm(t, npmServer(t), protocol.V20251125)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := c.call(ctx, "trigger-long-running-operation", object{"duration": 60, "steps": 2}, "token")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the cancelled call returned %v", err)
	}
	c.want(protocol.MethodPing, object{})
}
