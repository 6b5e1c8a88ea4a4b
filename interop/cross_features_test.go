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

// cross uses every feature of a server that is one of the crossings.
func cross(t *testing.T, server *crossServer, s *session) {
	t.Helper()
	x := &crossing{s, server}
	for _, f := range []struct {
		name string
		try  func(*testing.T, *crossing)
	}{
		{"lists", crossLists}, {"calls", crossCalls}, {"progress", crossHearProgress}, {"logs", crossHearLogs},
		{"sampling", crossAsk("sample", "", modelSays)}, {"roots", crossAsk("roots", "", rootURI)},
		{"elicitation", crossAskUser("Who are you?", "accept some text")},
		{"elicitation that is declined", crossAskUser(refused, "decline")},
		{"completion", crossComplete}, {"list changes", crossHearLists}, {"subscriptions", crossHearUpdates},
		{"list changes after subscriptions", crossHearListsAgain}, {"cancellation", crossCancel}, {"calls after all that", crossCalls},
	} {
		t.Run(f.name, func(t *testing.T) {
			if s.cannot[f.name] != "" {
				crossGaps[f.name](t, x)
				return
			}
			f.try(t, x)
		})
	}
}

// crossGaps are the features that a client lacks, by what it does instead. If a test fails because
// a new release of the client has the feature, remove what says that it has not.
var crossGaps = map[string]func(*testing.T, *crossing){"cancellation": crossCallContinues}

// A crossing is a client with a server that has the tools of crossGoServer.
type crossing struct {
	*session
	server *crossServer
}

// says calls a tool with a text, whose first text is what is wanted.
func (x *crossing) says(t *testing.T, name, text, want string) {
	t.Helper()
	x.tool(t, name, object{"text": text}, want)
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
	x.says(t, "echo", "hello, wörld \n", "hello, wörld \n")
	callTool(t, x.session, "fail", expected{args: object{}, isError: true, text: "as asked", logs: -1})
	if x.server.kind == "Python" && x.server.transport == "stdio" {
		return // each call would start an interpreter that takes its time
	}
	// Few, because on stdio each may need a process of a legacy server to itself.
	var calls sync.WaitGroup
	for _, text := range []string{"one", "two"} {
		calls.Go(func() { x.says(t, "echo", text, text) })
	}
	calls.Wait()
}

func crossHearProgress(t *testing.T, x *crossing) {
	callTool(t, x.session, "progress", expected{args: object{}, text: "three times", progress: 3, logs: -1})
}

func crossHearLogs(t *testing.T, x *crossing) {
	if x.rev.HasSessions() {
		x.want(t, "setLoggingLevel", object{"level": "debug"})
	}
	x.says(t, "log", "from the tool", "logged")
	x.notes.wait(t, 1, protocol.NoteMessage, "from the tool")
}

// crossAskUser asks the user. A client of a revision without elicitation cannot be asked across
// eras; in its own era the messages pass as they are, and it declares the capability all the same.
func crossAskUser(text, want string) func(*testing.T, *crossing) {
	return func(t *testing.T, x *crossing) {
		if x.rev.HasElicitation() || x.rev.Era() == x.server.era {
			x.says(t, "elicit", text, want)
			return
		}
		callTool(t, x.session, "elicit", expected{args: object{"text": text}, isError: true, logs: -1})
	}
}

func crossAsk(tool, text, want string) func(*testing.T, *crossing) {
	return func(t *testing.T, x *crossing) { x.says(t, tool, text, want) }
}

// crossHearLists lets the list of tools change.
func crossHearLists(t *testing.T, x *crossing) {
	if !x.rev.HasSessions() {
		x.want(t, "listen", object{
			"toolsListChanged": true, "promptsListChanged": false, "resourcesListChanged": false,
			"resourceSubscriptions": []string{crossWatched},
		})
	}
	x.until(t, "change", object{"text": ""}, "changed", protocol.NoteToolsChanged)
}

// crossHearUpdates lets a resource change, while subscribed to it and afterwards.
func crossHearUpdates(t *testing.T, x *crossing) {
	if x.rev.HasSessions() {
		x.want(t, "subscribeResource", object{"uri": crossWatched})
	}
	x.until(t, "touch", object{"text": ""}, "touched", protocol.NoteResourceUpdated)
	if !x.rev.HasSessions() {
		return
	}
	x.want(t, "unsubscribeResource", object{"uri": crossWatched})
	before, _ := x.notes.count(protocol.NoteResourceUpdated, crossWatched)
	x.says(t, "touch", "", "touched")
	x.says(t, "echo", "a", "a")
	x.notes.only(t, before, protocol.NoteResourceUpdated, crossWatched)
}

// crossHearListsAgain lets the list of tools change after the subscriptions did.
func crossHearListsAgain(t *testing.T, x *crossing) {
	x.until(t, "change", object{"text": ""}, "changed", protocol.NoteToolsChanged)
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

// crossCancel cancels a call and waits until the server has noted it.
func crossCancel(t *testing.T, x *crossing) {
	cancelWait(t, x)
	x.server.noted(t, "cancelled "+t.Name())
	x.says(t, "echo", "still here", "still here")
}

func crossCallContinues(t *testing.T, x *crossing) {
	cancelWait(t, x)
	x.says(t, "echo", "still here", "still here")
	if text, err := os.ReadFile(x.server.journal); err != nil || slices.Contains(strings.Split(string(text), "\n"), "cancelled "+t.Name()) {
		t.Errorf("the server has noted that the call is cancelled: %q, %v", text, err)
	}
}

// cancelWait cancels a call that the server has noted.
func cancelWait(t *testing.T, x *crossing) {
	t.Helper()
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
