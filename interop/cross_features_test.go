package interop_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// cross uses every feature of the server.
func cross(t *testing.T, s *crossServer, c crossClient, notes *notifications, rev protocol.Revision) {
	t.Helper()
	x := &crossing{crossClient: c, server: s, notes: notes, rev: rev}
	for _, f := range []struct {
		name string
		try  func(*testing.T, *crossing)
	}{
		{"lists", crossLists}, {"calls", crossCalls}, {"progress", crossHearProgress}, {"logs", crossHearLogs},
		{"sampling", crossAsk("sample", "", modelSays)}, {"roots", crossAsk("roots", "", rootURI)},
		{"elicitation", crossAsk("elicit", "Who are you?", "accept some text")},
		{"elicitation that is declined", crossAsk("elicit", crossRefuse, "decline")},
		{"completion", crossComplete}, {"list changes", crossHearLists}, {"subscriptions", crossHearUpdates},
		{"list changes after subscriptions", crossHearListsAgain}, {"cancellation", crossCancel}, {"calls after all that", crossCalls},
	} {
		t.Run(f.name, func(t *testing.T) {
			if why := s.cannot(f.name); why != "" {
				t.Skip(why)
			}
			if c, ok := c.(interface{ cannot(feature string) string }); ok && c.cannot(f.name) != "" {
				t.Skip(c.cannot(f.name))
			}
			f.try(t, x)
		})
	}
}

type crossing struct {
	crossClient
	server *crossServer
	notes  *notifications
	rev    protocol.Revision
}

// want calls a method that succeeds.
func (x *crossing) want(t *testing.T, method string, params object) object {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := x.do(ctx, method, params)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return decode[object](t, result)
}

// tool calls a tool whose first text is what is wanted.
func (x *crossing) tool(t *testing.T, name, text, want string) {
	t.Helper()
	callTool(t, x, x.notes, name, expected{args: object{"text": text}, text: want, logs: -1})
}

func crossLists(t *testing.T, x *crossing) {
	names, err := x.tools(t.Context())
	if err != nil || !slices.Contains(names, "echo") || !slices.Contains(names, "wait") {
		t.Errorf("tools: %q, %v", names, err)
	}
	if got := decode[[]object](t, x.want(t, "listResources", object{})["resources"]); len(got) != 2 {
		t.Errorf("resources: %v", got)
	}
	got := decode[[]object](t, x.want(t, "readResource", object{"uri": "test://text"})["contents"])
	if len(got) != 1 || got[0]["text"] != "some text" {
		t.Errorf("the resource has %v", got)
	}
	if got := decode[[]object](t, x.want(t, "listPrompts", object{})["prompts"]); len(got) != 1 || got[0]["name"] != "greet" {
		t.Errorf("prompts: %v", got)
	}
	prompt := decode[struct {
		Messages []struct{ Content struct{ Text string } }
	}](t,
		x.want(t, "getPrompt", object{"name": "greet", "arguments": object{"name": "Zoë"}}))
	if len(prompt.Messages) != 1 || prompt.Messages[0].Content.Text != "Greet Zoë." {
		t.Errorf("the prompt has %v", prompt)
	}
	if x.rev.HasSessions() {
		x.want(t, "ping", object{})
	}
}

func crossCalls(t *testing.T, x *crossing) {
	x.tool(t, "echo", "hello, wörld \n", "hello, wörld \n")
	callTool(t, x, x.notes, "fail", expected{args: object{}, isError: true, text: "as asked", logs: -1})
	if x.server.kind == "Python" && x.server.transport == "stdio" {
		return // each call would start an interpreter that takes its time
	}
	// Few, because on stdio each may need a process of a legacy server to itself.
	var calls sync.WaitGroup
	for _, text := range []string{"one", "two"} {
		calls.Go(func() { x.tool(t, "echo", text, text) })
	}
	calls.Wait()
}

func crossHearProgress(t *testing.T, x *crossing) {
	callTool(t, x, x.notes, "progress", expected{args: object{}, text: "three times", progress: 3, logs: -1})
}

func crossHearLogs(t *testing.T, x *crossing) {
	if x.rev.HasSessions() {
		x.want(t, "setLoggingLevel", object{"level": "debug"})
	}
	x.tool(t, "log", "from the tool", "logged")
	x.notes.wait(t, 1, protocol.NoteMessage, "from the tool")
}

func crossAsk(tool, text, want string) func(*testing.T, *crossing) {
	return func(t *testing.T, x *crossing) { x.tool(t, tool, text, want) }
}

// crossHearLists lets the list of tools change.
func crossHearLists(t *testing.T, x *crossing) {
	if !x.rev.HasSessions() {
		x.want(t, "listen", object{
			"toolsListChanged": true, "promptsListChanged": false, "resourcesListChanged": false,
			"resourceSubscriptions": []string{crossWatched},
		})
	}
	x.until(t, "change", "changed", protocol.NoteToolsChanged)
}

// crossHearUpdates lets a resource change, while subscribed to it and afterwards.
func crossHearUpdates(t *testing.T, x *crossing) {
	if x.rev.HasSessions() {
		x.want(t, "subscribeResource", object{"uri": crossWatched})
	}
	x.until(t, "touch", "touched", protocol.NoteResourceUpdated)
	if !x.rev.HasSessions() {
		return
	}
	x.want(t, "unsubscribeResource", object{"uri": crossWatched})
	before, _ := x.notes.count(protocol.NoteResourceUpdated, crossWatched)
	x.tool(t, "touch", "", "touched")
	x.tool(t, "echo", "a", "a")
	x.notes.only(t, before, protocol.NoteResourceUpdated, crossWatched)
}

// crossHearListsAgain lets the list of tools change after the subscriptions did.
func crossHearListsAgain(t *testing.T, x *crossing) {
	x.until(t, "change", "changed", protocol.NoteToolsChanged)
}

// until calls a tool that changes something until one more change is heard of:
// once, unless the client does not wait until it is subscribed.
func (x *crossing) until(t *testing.T, tool, says, method string) {
	t.Helper()
	if crossHasty(x.crossClient) && !x.rev.HasSessions() {
		x.repeat(t, tool, says, method)
		return
	}
	before, _ := x.notes.count(method, "")
	x.tool(t, tool, "", says)
	x.notes.wait(t, before+1, method, "")
}

// repeat calls a tool until one more notification comes. It waits a little after each call: a
// server of the Go SDK tells of a change when there was no other for 10 ms.
func (x *crossing) repeat(t *testing.T, tool, says, method string) {
	t.Helper()
	before, _ := x.notes.count(method, "")
	for end := time.Now().Add(patience); time.Now().Before(end); {
		x.tool(t, tool, "", says)
		if x.notes.came(before+1, method, "", patience/100) {
			return
		}
	}
	x.notes.wait(t, before+1, method, "") // says what came instead
}

// crossHasty reports whether a client does not wait until it is subscribed.
func crossHasty(c crossClient) bool {
	if p, ok := c.(*prefixed); ok {
		c = p.crossClient
	}
	_, ok := c.(crossGo)
	return ok
}

func crossComplete(t *testing.T, x *crossing) {
	got := decode[struct{ Completion struct{ Values []string } }](t, x.want(t, "complete", object{
		"ref":      object{"type": "ref/prompt", "name": "greet"},
		"argument": object{"name": "name", "value": "par"},
	}))
	if !slices.Equal(got.Completion.Values, []string{"paris", "park", "party"}) {
		t.Errorf("completion: %+v", got)
	}
}

// crossCancel cancels a call and waits until the server has heard of it.
func crossCancel(t *testing.T, x *crossing) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { // ends with ctx
		_, err := x.call(ctx, "wait", object{"text": t.Name()}, "")
		done <- err
	}()
	x.server.noted(t, "began "+t.Name())
	cancel()
	select {
	case err := <-done:
		if err == nil {
			t.Error("the call ended by itself")
		}
	case <-time.After(patience):
		t.Fatal("the call does not end")
	}
	x.server.noted(t, "cancelled "+t.Name())
	x.tool(t, "echo", "still here", "still here")
}

// noted waits for a line in the server's journal.
func (s *crossServer) noted(t *testing.T, line string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(s.journal)
		switch {
		case err == nil && slices.Contains(strings.Split(string(text), "\n"), line):
			return
		case time.Now().After(end):
			t.Fatalf("the server has not noted %q: %q, %v", line, text, err)
		}
	}
}
