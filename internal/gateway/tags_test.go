package gateway

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/token"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A giver answers by method, and keeps what it was asked.
type giver struct {
	dragoman.Peer
	answers map[string]string
	asked   []string
}

func (g *giver) Call(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	g.asked = append(g.asked, string(req.Params()))
	return dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":1,"result":` + g.answers[req.Method()] + `}`))
}

func (g *giver) last() string { return g.asked[len(g.asked)-1] }

// bound is a server whose values are bound to the caller of each request.
type bound struct{ *filter }

// Call implements dragoman.Peer.
func (b bound) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return b.pass(ctx, &view{caller: dragoman.CallerOf(ctx)}, req, from)
}

// asks sends a request of somebody, and returns the answer.
func asks(t *testing.T, p dragoman.Peer, who, method, params string) *dragoman.Message {
	t.Helper()
	req, err := dragoman.Parse(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.Call(dragoman.WithCaller(t.Context(), &dragoman.Caller{Principal: who}), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func guardedServer(key []byte, name string, answers map[string]string) (*giver, dragoman.Peer) {
	g := &giver{answers: answers}
	return g, bound{&filter{Peer: g, tags: newTags(key, name, func() bool { return false })}}
}

const legacyTask = `{"task":{"taskId":"1","status":"working"}}`

func TestS23_WhatOneServerGaveIsNothingAtAnother(t *testing.T) {
	key := token.NewKey()
	answers := map[string]string{protocol.MethodCallTool: legacyTask, protocol.MethodListTools: `{"tools":[],"nextCursor":"2"}`, protocol.MethodGetTask: `{}`, protocol.MethodTaskResult: `{}`}
	_, a := guardedServer(key, "a", answers)
	_, b := guardedServer(key, "b", answers)
	_, again := guardedServer(key, "a", answers) // after a restart
	task := string(dragoman.Member(asks(t, a, "anna", protocol.MethodCallTool, `{"name":"x","task":{}}`).Get("task"), taskName))
	cursor := string(asks(t, a, "anna", protocol.MethodListTools, `{}`).Get(nextName))
	for _, sent := range [][2]string{{protocol.MethodGetTask, `{"taskId":` + task + `}`}, {protocol.MethodTaskResult, `{"taskId":` + task + `}`}, {protocol.MethodListTools, `{"cursor":` + cursor + `}`}} {
		for _, test := range []struct {
			at      dragoman.Peer
			who     string
			refused bool
		}{{a, "anna", false}, {again, "anna", false}, {b, "anna", true}, {a, "bob", true}, {a, "", true}} {
			if got := asks(t, test.at, test.who, sent[0], sent[1]); got.IsError() != test.refused {
				t.Errorf("%s of %q: %s", sent[0], test.who, got)
			}
		}
	}
}

func TestS23_ListsOfTasksShowOnesOwn(t *testing.T) {
	_, p := guardedServer(token.NewKey(), "a", map[string]string{
		protocol.MethodCallTool: legacyTask, protocol.MethodListTasks: `{"tasks":[{"taskId":"1","status":"working"},{"taskId":"2","status":"working"}]}`,
	})
	task := dragoman.Member(asks(t, p, "anna", protocol.MethodCallTool, `{"name":"x","task":{}}`).Get("task"), taskName)
	if got := string(asks(t, p, "anna", protocol.MethodListTasks, `{}`).Get("tasks")); got != fmt.Sprintf(`[{"taskId":%s,"status":"working"}]`, task) {
		t.Errorf("anna, whose task is %s, is shown %s", task, got)
	}
	for _, who := range []string{"bob", ""} {
		if got := string(asks(t, p, who, protocol.MethodListTasks, `{}`).Get("tasks")); got != `[]` {
			t.Errorf("%q is shown %s", who, got)
		}
	}
}

func TestWhatIsNoTextIsGivenBackAsItWas(t *testing.T) {
	g, p := guardedServer(token.NewKey(), "a", map[string]string{protocol.MethodListTools: `{"tools":[],"nextCursor":2}`, protocol.MethodListPrompts: `{"prompts":[],"nextCursor":"2"}`})
	for method, want := range map[string]string{protocol.MethodListTools: `{"cursor":2}`, protocol.MethodListPrompts: `{"cursor":"2"}`} {
		cursor := asks(t, p, "anna", method, `{}`).Get(nextName)
		if got := asks(t, p, "anna", method, `{"cursor":`+string(cursor)+`}`); got.IsError() || g.last() != want {
			t.Errorf("the server is asked for %s, want %s: %s", g.last(), want, got)
		}
		if got := asks(t, p, "anna", method, want); !got.IsError() {
			t.Errorf("%s passes", want)
		}
	}
}

func TestWhereEverybodyMayComeInNothingIsBound(t *testing.T) {
	g := &giver{answers: map[string]string{protocol.MethodCallTool: legacyTask, protocol.MethodGetTask: `{"taskId":"1"}`}}
	p := bound{&filter{Peer: g, tags: newTags(token.NewKey(), "a", func() bool { return true })}}
	if got := asks(t, p, "", protocol.MethodGetTask, `{"taskId":"1"}`); got.IsError() || string(got.Get(taskName)) != `"1"` {
		t.Errorf("%s", got)
	}
}

// TestS23_TaskStatusHasTheIdThatTheClientKnows has a server tell and ask a client of its task.
func TestS23_TaskStatusHasTheIdThatTheClientKnows(t *testing.T) {
	o, _ := newTags(token.NewKey(), "a", func() bool { return false }).owner(&dragoman.Caller{Principal: "anna"})
	given := string(o.given(taskName, []byte(`"1"`)))
	var seen []string
	client := dragoman.Funcs{
		OnNotify: func(_ context.Context, note *dragoman.Message) error {
			seen = append(seen, string(note.Params()))
			return nil
		},
		OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			seen = append(seen, string(req.Params()))
			return req.Reply(map[string]any{"_meta": map[string]any{protocol.MetaRelatedTask: req.Meta(protocol.MetaRelatedTask)}})
		},
	}
	about := fmt.Sprintf(`{"_meta":{%q:{"taskId":"1"}}}`, protocol.MetaRelatedTask)
	parse := func(text string) *dragoman.Message {
		m, err := dragoman.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	to := boundPeer{client, o}
	for _, note := range []string{
		`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"1","status":"working"}}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":` + about + `}`,
	} {
		if err := to.Notify(t.Context(), parse(note)); err != nil {
			t.Fatal(err)
		}
	}
	resp, err := to.Call(t.Context(), parse(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":`+about+`}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(seen, func(text string) bool { return !strings.Contains(text, given) || strings.Contains(text, `"1"`) }) {
		t.Errorf("the client, who knows %s, is told %q", given, seen)
	}
	if got := string(dragoman.Member(resp.Meta(protocol.MetaRelatedTask), taskName)); got != `"1"` {
		t.Errorf("the server's question about its task 1 is answered for %s", got)
	}
}

func TestTheNewestTasksAreKnown(t *testing.T) {
	var g given
	id := func(i int) (m token.Tag) { copy(m[:], strconv.Itoa(i)); return m }
	for i := range maxGivenEach + 10 {
		g.add("ada", id(i))
		g.add("ada", id(i))
	}
	for i, want := range map[int]bool{0: false, 9: false, 10: true, maxGivenEach + 9: true} {
		if g.has(id(i)) != want {
			t.Errorf("task %d is known: %t", i, !want)
		}
	}
	if len(g.known) != maxGivenEach || len(g.of) != 1 {
		t.Errorf("%d are known of %d callers", len(g.known), len(g.of))
	}
}

// Who makes many tasks has its own forgotten, and those of others stay.
func TestTasksOfOneCallerLeaveRoomForOthers(t *testing.T) {
	var g given
	id := func(caller string, i int) (m token.Tag) { copy(m[:], fmt.Sprint(i, caller)); return m }
	for i := range 100 {
		g.add("bob", id("bob", i))
	}
	for _, caller := range []string{"a", "b", "c", "d", "e", "f"} {
		for i := range 3 * maxGivenEach {
			g.add(caller, id(caller, i))
		}
	}
	if len(g.known) > maxGiven {
		t.Errorf("%d are known", len(g.known))
	}
	for i := range 100 {
		if !g.has(id("bob", i)) {
			t.Fatalf("bob's task %d is forgotten", i)
		}
	}
	if !g.has(id("f", 3*maxGivenEach-1)) || g.has(id("f", 0)) {
		t.Error("not the newest are known")
	}
}

// What is kept of a task does not grow with its id.
func TestIDsOfTasksAreNotKept(t *testing.T) {
	answers := map[string]string{protocol.MethodCallTool: `{"task":{"taskId":"` + strings.Repeat("x", 1<<20) + `","status":"working"}}`}
	g, p := guardedServer(token.NewKey(), "a", answers)
	long := dragoman.Member(asks(t, p, "anna", protocol.MethodCallTool, `{"name":"x","task":{}}`).Get("task"), taskName)
	g.answers[protocol.MethodListTasks] = `{"tasks":[{"taskId":"` + strings.Repeat("x", 1<<20) + `"},{"taskId":"y"}]}`
	if list := asks(t, p, "anna", protocol.MethodListTasks, `{}`).Get("tasks"); string(list) != `[{"taskId":`+string(long)+`}]` {
		t.Errorf("the list has %d bytes", len(list))
	}
	for m := range p.(bound).tags.tasks.known {
		if size := len(m); size > 32 {
			t.Errorf("%d bytes are kept of an id", size)
		}
	}
}
