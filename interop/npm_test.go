//go:build npm

package interop_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// npmForeign are the servers from npm and PyPI.
func npmForeign() []foreign {
	small := foreign{
		name: "Python", transport: "http", revisions: []protocol.Revision{protocol.V20260728, protocol.V20251125, protocol.V20250326},
		start: func(t *testing.T, _ protocol.Revision) dragoman.Dialer {
			return &streamable.Client{URL: pythonServer(t) + "/mcp"}
		},
		era: always(protocol.Modern), tools: func(protocol.Revision) map[string]expected { return smallTools() }, resources: 1, prompts: 1, templates: -1,
		changes: changeSmall, quiet: true,
	}
	smallSSE, smallFound := small, small
	smallSSE.transport, smallSSE.revisions, smallSSE.era = "sse", oldestAndNewest, nil
	smallSSE.start = func(t *testing.T, _ protocol.Revision) dragoman.Dialer {
		return &sse.Client{URL: pythonServer(t, "sse") + "/sse"}
	}
	smallFound.transport, smallFound.revisions, smallFound.era = "sse that is found out", oldestAndNewest, nil
	smallFound.start = foundOut(func(t *testing.T) string { return pythonServer(t, "sse") + "/sse" })

	reference := foreign{
		name: "reference", transport: "stdio", revisions: npmRevisions,
		start: func(t *testing.T, _ protocol.Revision) dragoman.Dialer { return npmServer(t) },
		tools: func(protocol.Revision) map[string]expected { return npmTools() }, caps: canTasks(), resources: -1, prompts: 4, templates: 2,
		read: []string{"demo://resource/dynamic/text/7", "demo://resource/dynamic/blob/7"},
		complete: object{
			"ref": object{"type": "ref/prompt", "name": "completable-prompt"}, "argument": object{"name": "name", "value": "A"},
			"context": object{"arguments": object{"department": "Engineering"}},
		},
		values: []string{"Alice"}, changes: changeOfNpm,
	}
	http, old, found := reference, reference, reference
	http.transport, http.revisions, http.era = "http", npmRevisions[:3], always(protocol.Legacy)
	http.start = func(t *testing.T, _ protocol.Revision) dragoman.Dialer { return npmServerOverHTTP(t) }
	old.transport, old.revisions = "sse", oldestAndNewest
	old.start = func(t *testing.T, _ protocol.Revision) dragoman.Dialer { return &sse.Client{URL: npmSSEServer(t)} }
	found.transport, found.revisions, found.start = "sse that is found out", oldestAndNewest, foundOut(npmSSEServer)

	second := small
	second.name, second.revisions = "TypeScript 2", bothEras
	second.start = func(t *testing.T, _ protocol.Revision) dragoman.Dialer {
		return &streamable.Client{URL: serve(t, exec.Command(node22(t), filepath.Join("ts", "server2.mjs"), npmFolder(t)), `http://\S+`) + "/mcp"}
	}
	second.tools = func(rev protocol.Revision) map[string]expected {
		tools := smallTools()
		if rev.HasSessions() { // the server keeps none, so it can neither ask nor notify
			delete(tools, "ask")
			delete(tools, "change")
		}
		return tools
	}
	second.changes = func(t *testing.T, c *dragomanClient) {
		if !c.rev.HasSessions() {
			changeSmall(t, c)
		}
	}
	return []foreign{reference, http, old, found, small, smallSSE, smallFound, second}
}

func TestNpmPipB15_OurClientUsesServers(t *testing.T) {
	t.Parallel()
	useForeign(t, npmForeign())
}

// foundOut reaches a server that speaks HTTP+SSE only by the client for Streamable HTTP, which
// falls back: after a probe, and without one at its first message.
func foundOut(start func(t *testing.T) string) func(*testing.T, protocol.Revision) dragoman.Dialer {
	return func(t *testing.T, rev protocol.Revision) dragoman.Dialer {
		t.Helper()
		url := start(t)
		c, _ := begin(t, &streamable.Client{URL: url, Fallback: &sse.Client{URL: url}}, rev)
		c.want(protocol.MethodListTools, object{})
		client := &streamable.Client{URL: url, Fallback: &sse.Client{URL: url}}
		if v, err := client.Probe(t.Context()); err != nil || !v.SSE {
			t.Errorf("the probe finds %+v, %v", v, err)
		}
		return client
	}
}

// pythonServer starts py/server.py and returns its address.
func pythonServer(t *testing.T, args ...string) string {
	t.Helper()
	return serve(t, exec.Command(python(t), append([]string{filepath.Join("py", "server.py")}, args...)...), `http://[0-9.:]+`)
}

// smallTools says what the tools of py/server.py and ts/server2.mjs do.
func smallTools() map[string]expected {
	return map[string]expected{
		"echo":     {args: object{"text": "hello, wörld \n"}, text: "hello, wörld \n"},
		"add":      {args: object{"a": 2, "b": 40}, text: "42"},
		"fail":     {isError: true, text: "as asked"},
		"progress": {text: "three times", progress: 3},
		"change":   {text: "changed"},
		"ask":      {text: "Hello, some text!"},
	}
}

// changeSmall lets the tools of a server like py/server.py change.
func changeSmall(t *testing.T, c *dragomanClient) {
	t.Helper()
	if !c.rev.HasSessions() {
		defer c.listen(object{"toolsListChanged": true})()
	}
	c.tool("change")
	c.notes.wait(t, 1, protocol.NoteToolsChanged, "")
}

// npmRevisions are the revisions that the reference server speaks.
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

// npmServerOverHTTP starts the reference server of the TypeScript SDK on HTTP.
func npmServerOverHTTP(t *testing.T) *streamable.Client {
	t.Helper()
	port := freePort(t)
	cmd := exec.Command("node", filepath.Join(npmFolder(t), "server-everything", "dist", "index.js"), "streamableHttp")
	cmd.Env = append(os.Environ(), "PORT="+port)
	serve(t, cmd, "listening on port")
	return &streamable.Client{URL: "http://127.0.0.1:" + port + "/mcp"}
}

// npmSSEServer starts the reference server of the TypeScript SDK on HTTP+SSE.
func npmSSEServer(t *testing.T) string {
	t.Helper()
	port := freePort(t)
	// It does not end in good order when its input does.
	cmd := exec.Command("node", "--import", `data:text/javascript,process.once("SIGINT",()=>process.exit())`,
		filepath.Join(npmFolder(t), "server-everything", "dist", "index.js"), "sse")
	cmd.Env = append(os.Environ(), "PORT="+port)
	serve(t, cmd, "running on port")
	return "http://127.0.0.1:" + port + "/sse"
}

// canTasks is what a client declares that can do everything, tasks included.
func canTasks() object {
	caps := maps.Clone(canAll)
	caps["tasks"] = object{"requests": object{
		"sampling": object{"createMessage": object{}}, "elicitation": object{"create": object{}},
	}}
	return caps
}

// beginNpm connects to the reference server as a client that can do everything.
func beginNpm(t *testing.T, server dragoman.Dialer, rev protocol.Revision) *dragomanClient {
	t.Helper()
	return (&foreign{caps: canTasks()}).begin(t, server, rev)
}

// changeOfNpm lets the npm server tell of changes and ask for roots.
func changeOfNpm(t *testing.T, c *dragomanClient) {
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
