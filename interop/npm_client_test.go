//go:build npm

package interop_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// npmClient is a client of an SDK in another language, in a process that is
// driven by lines of JSON; see ts/drive.mjs.
type npmClient struct {
	t     *testing.T
	stdin io.WriteCloser
	notes *notifications
	gone  chan struct{} // closed when the process writes no more
	rev   string        // of the conversation, over HTTP

	mu      sync.Mutex
	last    int                  // guarded by mu
	waiting map[int]chan npmLine // calls under way; guarded by mu
}

// npmLine is a line that the process writes.
type npmLine struct {
	ID     *int            `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *dragoman.Error `json:"error"`
	Ask    int             `json:"ask"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// dialNpm starts our built-in server under a client of the TypeScript SDK.
func dialNpm(t *testing.T) *npmClient {
	t.Helper()
	return drive(t, "node", filepath.Join("ts", "client.mjs"), filepath.Join(npmFolder(t), "sdk"), dragomanProgram.in(t), "everything")
}

// drive starts a client of our built-in server.
func drive(t *testing.T, name string, args ...string) *npmClient {
	t.Helper()
	c, server := launch(t, name, args...)
	if server != "dragoman-everything" {
		t.Errorf("the server is %q", server)
	}
	return c
}

// launch starts a client, waits until it is connected, and returns it with the name
// of the server.
func launch(t *testing.T, name string, args ...string) (c *npmClient, server string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hello := make(chan npmLine, 1)
	c = &npmClient{t: t, stdin: stdin, notes: newNotifications(), gone: make(chan struct{}), waiting: map[int]chan npmLine{0: hello}}
	go func() { // ends with the process
		defer close(c.gone)
		c.read(stdout)
	}()
	t.Cleanup(func() {
		stdin.Close()
		kill := time.AfterFunc(patience, func() { cmd.Process.Kill() })
		defer kill.Stop()
		<-c.gone
		if err := cmd.Wait(); err != nil {
			t.Errorf("the client did not end in good order: %v", err)
		}
	})
	select {
	case line := <-hello:
		got := decode[struct {
			Server   struct{ Name string }
			Revision string
		}](t, line.Result)
		c.rev, server = got.Revision, got.Server.Name
	case <-c.gone:
		t.Fatal("the client has gone")
	case <-time.After(3 * patience): // interpreters start slowly on a busy machine
		t.Fatal("the client does not connect")
	}
	return c, server
}

// read takes what the process writes.
func (c *npmClient) read(stdout io.Reader) {
	lines := bufio.NewReader(stdout)
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var line npmLine
		if err := json.Unmarshal(text, &line); err != nil {
			c.t.Errorf("the client wrote %q", text)
			continue
		}
		switch {
		case line.ID != nil:
			c.mu.Lock()
			done := c.waiting[*line.ID]
			delete(c.waiting, *line.ID)
			c.mu.Unlock()
			if done != nil {
				done <- line
			}
		case line.Ask != 0 && bytes.Contains(text, []byte(crossRefuse)):
			c.write(object{"answer": line.Ask, "result": object{"action": "decline"}})
		case line.Ask != 0:
			result, err := answerAs[object](line.Method, line.Params)
			if err != nil {
				c.t.Error(err)
			}
			c.write(object{"answer": line.Ask, "result": result})
		default:
			c.notes.add(line.Method, line.Params)
		}
	}
}

func (c *npmClient) write(line object) {
	text, err := json.Marshal(line)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, err = c.stdin.Write(append(text, '\n'))
	}
	if err != nil {
		c.t.Error(err)
	}
}

// do calls a method of the client.
func (c *npmClient) do(ctx context.Context, method string, params object) (json.RawMessage, error) {
	done := make(chan npmLine, 1)
	c.mu.Lock()
	c.last++
	id := c.last
	c.waiting[id] = done
	c.mu.Unlock()
	c.write(object{"id": id, "method": method, "params": params})
	select {
	case line := <-done:
		if line.Error != nil {
			return nil, line.Error
		}
		return line.Result, nil
	case <-c.gone:
		return nil, fmt.Errorf("%s: the client has gone", method)
	case <-ctx.Done():
		c.write(object{"cancel": id})
		return nil, ctx.Err()
	}
}

func (c *npmClient) tools(ctx context.Context) ([]string, error) {
	result, err := c.do(ctx, "listTools", object{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, tool := range decode[struct {
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}](c.t, result).Tools {
		names = append(names, tool.Name)
	}
	return names, nil
}

func (c *npmClient) call(ctx context.Context, name string, args object, token string) (any, error) {
	params := object{"name": name}
	if args != nil {
		params["arguments"] = args
	}
	meta := object{}
	if token != "" {
		meta[protocol.MetaProgressToken] = token
	}
	if c.rev == protocol.V20260728.String() {
		meta[protocol.MetaLogLevel] = "debug"
	}
	if len(meta) > 0 {
		params["_meta"] = meta
	}
	return c.do(ctx, "callTool", params)
}

// want calls a method of the client that succeeds.
func (c *npmClient) want(method string, params object) object {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	result, err := c.do(ctx, method, params)
	if err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	return decode[object](c.t, result)
}

func TestNpmE03_E09_ClientListsAndCallsEveryTool(t *testing.T) {
	t.Parallel()
	c := dialNpm(t)
	c.want("setLoggingLevel", object{"level": "debug"})
	c.want("ping", object{})
	callEveryTool(t, protocol.LatestLegacy, c, c.notes)
}

func TestNpmE06_ClientMakesManyCallsAtOnce(t *testing.T) {
	t.Parallel()
	callAtOnce(t, dialNpm(t), atOnce(protocol.LatestLegacy))
}

func TestNpmClientReadsResourcesPromptsAndCompletions(t *testing.T) {
	t.Parallel()
	dialNpm(t).readEverything()
}

// readEverything reads the resources, gets the prompts and asks for a
// completion.
func (c *npmClient) readEverything() {
	t := c.t
	t.Helper()
	resources := decode[[]object](t, c.want("listResources", object{})["resources"])
	for _, r := range resources {
		if got := c.want("readResource", object{"uri": r["uri"]}); len(decode[[]object](t, got["contents"])) != 1 {
			t.Errorf("%v: %v", r["uri"], got)
		}
	}
	prompts := decode[[]object](t, c.want("listPrompts", object{})["prompts"])
	for _, p := range prompts {
		args := object{}
		for _, a := range decode[[]object](t, p["arguments"]) {
			args[a["name"].(string)] = "test://argument"
		}
		if got := c.want("getPrompt", object{"name": p["name"], "arguments": args}); len(decode[[]object](t, got["messages"])) == 0 {
			t.Errorf("%v: %v", p["name"], got)
		}
	}
	templates := decode[[]object](t, c.want("listResourceTemplates", object{})["resourceTemplates"])
	if len(resources) < 4 || len(prompts) < 5 || len(templates) != 2 {
		t.Errorf("%d resources, %d prompts, %d templates", len(resources), len(prompts), len(templates))
	}
	got := decode[struct {
		Completion struct {
			Values []string `json:"values"`
		} `json:"completion"`
	}](t, c.want("complete", object{
		"ref":      object{"type": "ref/prompt", "name": "test_prompt_with_arguments"},
		"argument": object{"name": "arg1", "value": "par"},
	})).Completion.Values
	if !slices.Equal(got, []string{"paris", "park", "party"}) {
		t.Errorf("completion: %q", got)
	}
}

func TestNpmClientHearsOfUpdatesWhileSubscribed(t *testing.T) {
	t.Parallel()
	dialNpm(t).hearOfUpdates()
}

// hearOfUpdates subscribes to a resource and lets it change.
func (c *npmClient) hearOfUpdates() {
	t := c.t
	t.Helper()
	before, _ := c.notes.count(protocol.NoteResourceUpdated, watched)
	update := object{"name": "update_resource", "arguments": object{}}
	c.want("subscribeResource", object{"uri": watched})
	c.want("callTool", update)
	c.notes.wait(t, before+1, protocol.NoteResourceUpdated, watched)
	c.want("unsubscribeResource", object{"uri": watched})
	c.want("callTool", update)
	c.notes.only(t, before+1, protocol.NoteResourceUpdated, watched)
}
