package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A feature is one thing that has to cross. lacks says which of the revisions
// does not have it, if one of them does not.
type feature struct {
	name  string
	lacks func(client, server protocol.Revision) string
	run   func(g *testClient, server protocol.Revision) error
}

// without says which side's revision lacks something.
func without(has func(protocol.Revision) bool) func(client, server protocol.Revision) string {
	return func(client, server protocol.Revision) string {
		switch {
		case !has(client):
			return "the client's revision has none"
		case !has(server):
			return "the server's revision has none"
		}
		return ""
	}
}

func features() []feature {
	elicits, visits := without(protocol.Revision.HasElicitation), without(protocol.Revision.HasURLElicitation)
	return []feature{
		{name: "lists with pages", run: listPages},
		{name: "calls", run: calls},
		{name: "errors", run: failures},
		{name: "structured content", lacks: without(protocol.Revision.HasStructuredContent), run: structuredContent},
		{name: "binary content", run: binaryContent},
		{name: "audio", lacks: without(protocol.Revision.HasAudio), run: audio},
		{name: "resource links", lacks: without(protocol.Revision.HasResourceLinks), run: links},
		{name: "resources", run: resources},
		{name: "prompts", run: prompts},
		{name: "completion", run: completion},
		{name: "progress", run: progress},
		{name: "logs", run: logs},
		{name: "cancellation", run: cancellation},
		{name: "sampling", run: sampling},
		{name: "roots", run: roots},
		{name: "elicitation", lacks: elicits, run: elicitation},
		{name: "elicitation declined", lacks: elicits, run: refused("decline")},
		{name: "elicitation cancelled", lacks: elicits, run: refused("cancel")},
		{name: "elicitation by URL", lacks: visits, run: byURL},
		{name: "rounds of several steps", lacks: elicits, run: rounds},
		{name: "list changes", run: listChanges},
		{name: "resource subscriptions", run: subscriptions},
		{name: "results of 5 MiB", run: largeResult},
		{name: "integers above 2^53", run: bigIntegers},
	}
}

// expect complains unless got contains want.
func expect(what, got, want string) error {
	if !strings.Contains(got, want) {
		return fmt.Errorf("%s: got %.300q, want %q in it", what, got, want)
	}
	return nil
}

func listPages(g *testClient, _ protocol.Revision) error {
	for _, l := range []struct{ method, member, name string }{
		{protocol.MethodListTools, "tools", "echo"},
		{protocol.MethodListResources, "resources", "numbered-12"},
		{protocol.MethodListTemplates, "resourceTemplates", "greeting"},
		{protocol.MethodListPrompts, "prompts", "test_simple_prompt"},
	} {
		names, pages := []string{}, 0
		for cursor := json.RawMessage(nil); pages == 0 || cursor != nil; pages++ {
			params := object{}
			if cursor != nil {
				params["cursor"] = cursor
			}
			resp, err := g.request(l.method, params)
			if err != nil {
				return fmt.Errorf("%s, page %d: %w", l.method, pages+1, err)
			}
			var items []struct{ Name string }
			if err := json.Unmarshal(resp.Get(l.member), &items); err != nil {
				return fmt.Errorf("%s: %w", l.method, err)
			}
			for _, item := range items {
				names = append(names, item.Name)
			}
			cursor = resp.Get("nextCursor")
		}
		if !slices.Contains(names, l.name) {
			return fmt.Errorf("%s: %s is not among %q", l.method, l.name, names)
		}
		if unique := slices.Compact(slices.Sorted(slices.Values(names))); len(unique) != len(names) {
			return fmt.Errorf("%s: something is listed twice: %q", l.method, names)
		}
		if l.method == protocol.MethodListTools && pages < 3 {
			return fmt.Errorf("%s: %d tools on %d pages", l.method, len(names), pages)
		}
	}
	return nil
}

func calls(g *testClient, _ protocol.Revision) error {
	for _, text := range []string{"hello", "\u2028 \"quoted\" \\ \n é 😀", ""} {
		if got, err := g.says("echo", object{"text": text}); err != nil || got != text {
			return fmt.Errorf("echo of %q: got %q, error %w", text, got, err)
		}
	}
	return nil
}

func failures(g *testClient, _ protocol.Revision) error {
	resp, err := g.call("test_error_handling", object{})
	if err != nil || string(resp.Get("isError")) != "true" {
		return fmt.Errorf("a tool that fails: got %v, error %w", resp, err)
	}
	_, err = g.call("raise", object{"code": 4711, "message": "no luck", "reason": "none"})
	rpc, ok := errors.AsType[*dragoman.Error](err)
	if !ok || rpc.Code != 4711 || rpc.Message != "no luck" || !strings.Contains(string(rpc.Data), "none") {
		return fmt.Errorf("a JSON-RPC error: got %w", err)
	}
	_, err = g.request("no/such", object{})
	if rpc, ok = errors.AsType[*dragoman.Error](err); !ok || rpc.Code != protocol.CodeMethodNotFound {
		return fmt.Errorf("an unknown method: got %w", err)
	}
	_, err = g.request(protocol.MethodReadResource, object{"uri": "test://nowhere"})
	if rpc, ok = errors.AsType[*dragoman.Error](err); !ok || rpc.Code != g.Revision.CodeNoResource() {
		return fmt.Errorf("an unknown resource: got %w, want code %d", err, g.Revision.CodeNoResource())
	}
	return nil
}

func structuredContent(g *testClient, _ protocol.Revision) error {
	resp, err := g.call("add", object{"a": 2, "b": 3})
	if err != nil || string(resp.Get("structuredContent")) != `{"sum":5}` {
		return fmt.Errorf("add: got %v, error %w", resp, err)
	}
	if resp, err = g.call("levels", object{}); err != nil {
		return fmt.Errorf("levels: %w", err)
	}
	var list []string
	value := resp.Get("structuredContent")
	if len(value) > 0 && value[0] == '{' {
		var wrapped struct{ Result json.RawMessage }
		if err := json.Unmarshal(value, &wrapped); err != nil {
			return err
		}
		value = wrapped.Result
	} else if !g.Revision.HasAnyStructuredContent() {
		return fmt.Errorf("levels: structured content that is no object: %s", value)
	}
	if err := json.Unmarshal(value, &list); err != nil || !slices.Equal(list, protocol.LogLevels) {
		return fmt.Errorf("levels: got %s", resp.Get("structuredContent"))
	}
	return nil
}

func binaryContent(g *testClient, _ protocol.Revision) error {
	resp, err := g.call("test_image_content", object{})
	if err != nil {
		return err
	}
	if b := blocksOf(resp); len(b) != 1 || b[0].Type != "image" || b[0].Data == "" || b[0].MimeType != "image/png" {
		return fmt.Errorf("image: got %s", resp.Get("content"))
	}
	image := blocksOf(resp)[0].Data
	if resp, err = g.request(protocol.MethodReadResource, object{"uri": "test://static-binary"}); err != nil {
		return err
	}
	return expect("binary resource", string(resp.Get("contents")), image)
}

func audio(g *testClient, _ protocol.Revision) error {
	resp, err := g.call("test_audio_content", object{})
	if err != nil {
		return err
	}
	if b := blocksOf(resp); len(b) != 1 || b[0].Type != "audio" || b[0].Data == "" {
		return fmt.Errorf("audio: got %s", resp.Get("content"))
	}
	return nil
}

func links(g *testClient, _ protocol.Revision) error {
	resp, err := g.call("links", object{})
	if err != nil {
		return err
	}
	if b := blocksOf(resp); len(b) == 0 || b[0].Type != "resource_link" || b[0].URI == "" {
		return fmt.Errorf("links: got %s", resp.Get("content"))
	}
	return nil
}

func resources(g *testClient, _ protocol.Revision) error {
	for uri, want := range map[string]string{
		"test://static-text": "static text resource", "test://template/42/data": "Data for ID: 42", "test://numbered/9": "number 9",
	} {
		resp, err := g.request(protocol.MethodReadResource, object{"uri": uri})
		if err != nil {
			return fmt.Errorf("%s: %w", uri, err)
		}
		if err := expect(uri, string(resp.Get("contents")), want); err != nil {
			return err
		}
	}
	return nil
}

func prompts(g *testClient, _ protocol.Revision) error {
	resp, err := g.request(protocol.MethodGetPrompt, object{
		"name": "test_prompt_with_arguments", "arguments": object{"arg1": "left", "arg2": "right"},
	})
	if err != nil {
		return err
	}
	return expect("prompt", string(resp.Get("messages")), "left")
}

func completion(g *testClient, _ protocol.Revision) error {
	resp, err := g.request(protocol.MethodComplete, object{
		"ref":      object{"type": "ref/prompt", "name": "test_prompt_with_arguments"},
		"argument": object{"name": "arg1", "value": "t"},
	})
	if err != nil {
		return err
	}
	return expect("completion", string(resp.Get("completion")), `"values"`)
}

func progress(g *testClient, server protocol.Revision) error {
	g.forget()
	if _, err := g.call("test_tool_with_progress", object{}); err != nil {
		return err
	}
	told, err := g.hears(protocol.NoteProgress, 3)
	if err != nil {
		return err
	}
	last := -1.0
	for _, n := range told {
		var p struct {
			ProgressToken string
			Progress      float64
			Message       string
		}
		if err := n.Decode(&p); err != nil {
			return err
		}
		if p.ProgressToken != fmt.Sprint("t", g.Requests()) {
			return fmt.Errorf("progress of another request: %s, want that of request %d", n.Params(), g.Requests())
		}
		if p.Progress <= last {
			return fmt.Errorf("progress does not increase: %v after %v", p.Progress, last)
		}
		if last = p.Progress; (p.Message != "") != (g.Revision.HasProgressMessage() && server.HasProgressMessage()) {
			return fmt.Errorf("progress message: %s", n.Params())
		}
	}
	return nil
}

func logs(g *testClient, _ protocol.Revision) error {
	g.forget()
	if !g.Modern() {
		if _, err := g.request(protocol.MethodSetLevel, object{"level": "info"}); err != nil {
			return err
		}
	}
	if _, err := g.call("test_tool_with_logging", object{}); err != nil {
		return err
	}
	told, err := g.hears(protocol.NoteMessage, 3)
	if err != nil {
		return err
	}
	return expect("log", string(told[0].Params()), "Tool execution started")
}

func cancellation(g *testClient, _ protocol.Revision) error {
	req, err := g.Message(protocol.MethodCallTool, object{"name": "wait", "arguments": object{}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(g.ctx)
	done := make(chan error, 1)
	go func() { // ends when the call does, which is cancelled
		_, err := g.Conn.Call(ctx, req, g)
		done <- err
	}()
	err = g.waitFor("begin")
	cancel()
	if err == nil {
		err = g.waitFor("end")
	}
	if ended := <-done; err == nil && !errors.Is(ended, context.Canceled) {
		err = fmt.Errorf("the call that was cancelled returned %w", ended)
	}
	return err
}

func sampling(g *testClient, _ protocol.Revision) error {
	g.forget()
	got, err := g.says("test_sampling", object{"prompt": "capital?"})
	if err != nil {
		return err
	}
	if !slices.Contains(g.asked, protocol.MethodCreateMessage) {
		return errors.New("the client was not asked")
	}
	return expect("sampling", got, "Paris")
}

func roots(g *testClient, _ protocol.Revision) error {
	got, err := g.says("test_input_required_result_list_roots", object{})
	if err != nil {
		return err
	}
	return expect("roots", got, "file:///srv/b")
}

func elicitation(g *testClient, _ protocol.Revision) error {
	got, err := g.says("test_elicitation", object{"message": "who are you?"})
	if err == nil {
		err = expect("elicitation", got, `action=accept, content={"email":"ann","username":"ann"}`)
	}
	if err != nil {
		return err
	}
	if got, err = g.says("test_elicitation_sep1034_defaults", object{}); err == nil {
		err = expect("elicitation with defaults", got, "action=accept")
	}
	if err != nil {
		return err
	}
	// While a question waits, progress of the same call comes before and after.
	g.forget()
	if got, err = g.says("test_streaming_elicitation", object{}); err == nil {
		err = expect("elicitation with progress", got, "action=accept")
	}
	if err == nil {
		_, err = g.hears(protocol.NoteProgress, 1)
	}
	return err
}

func refused(action string) func(*testClient, protocol.Revision) error {
	return func(g *testClient, _ protocol.Revision) error {
		g.mu.Lock()
		g.action = action
		g.mu.Unlock()
		defer func() {
			g.mu.Lock()
			g.action = "accept"
			g.mu.Unlock()
		}()
		got, err := g.says("test_elicitation", object{"message": "who are you?"})
		if err != nil {
			return err
		}
		return expect("elicitation", got, "action="+action)
	}
}

func byURL(g *testClient, _ protocol.Revision) error {
	got, err := g.says("test_elicitation_url", object{})
	if err != nil {
		return err
	}
	return expect("elicitation by URL", got, "action=accept")
}

func rounds(g *testClient, _ protocol.Revision) error {
	got, err := g.says("test_input_required_result_multi_round", object{})
	if err == nil {
		err = expect("two rounds", got, "ann likes ann.")
	}
	if err != nil {
		return err
	}
	if got, err = g.says("test_input_required_result_multiple_inputs", object{}); err == nil {
		err = expect("three questions", got, "Paris ann (roots: 2)")
	}
	if err != nil {
		return err
	}
	resp, err := g.request(protocol.MethodReadResource, object{"uri": "test://asking-resource"})
	if err == nil {
		err = expect("a resource that asks", string(resp.Get("contents")), "Hello, ann!")
	}
	if err != nil {
		return err
	}
	if resp, err = g.request(protocol.MethodGetPrompt, object{"name": "test_input_required_result_prompt"}); err == nil {
		err = expect("a prompt that asks", string(resp.Get("messages")), "ann")
	}
	return err
}

// listen makes the client hear of changes until the returned function is called.
func (g *testClient) listen(uris ...string) (func(), error) {
	g.forget()
	if !g.Modern() {
		for _, uri := range uris {
			if _, err := g.request(protocol.MethodSubscribe, object{"uri": uri}); err != nil {
				return nil, err
			}
		}
		return func() {
			for _, uri := range uris {
				_, _ = g.request(protocol.MethodUnsubscribe, object{"uri": uri}) // shown to work by what is not heard
			}
		}, nil
	}
	want := object{"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true}
	if uris != nil {
		want["resourceSubscriptions"] = uris
	}
	req, err := g.Message(protocol.MethodListen, object{"notifications": want})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(g.ctx)
	done := make(chan struct{})
	go func() { // ends with ctx
		defer close(done)
		_, _ = g.Conn.Call(ctx, req, g)
	}()
	stop := func() {
		cancel()
		<-done
	}
	told, err := g.hears(protocol.NoteAcknowledged, 1)
	if err == nil {
		err = expect("acknowledged", string(told[0].Params()), "toolsListChanged")
	}
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

func listChanges(g *testClient, _ protocol.Revision) error {
	stop, err := g.listen()
	if err != nil {
		return err
	}
	defer stop()
	for tool, note := range map[string]string{
		"test_trigger_tool_change": protocol.NoteToolsChanged, "test_trigger_prompt_change": protocol.NotePromptsChanged,
		"test_trigger_resource_change": protocol.NoteResourcesChanged,
	} {
		if _, err := g.call(tool, object{}); err != nil {
			return err
		}
		told, err := g.hears(note, 1)
		if err != nil {
			return err
		}
		if tagged := told[0].Meta(protocol.MetaSubscriptionID) != nil; tagged != g.Modern() {
			return fmt.Errorf("a change that is tagged wrongly: %s", told[0].Bytes())
		}
	}
	return nil
}

func subscriptions(g *testClient, _ protocol.Revision) error {
	const uri = "test://watched-resource"
	stop, err := g.listen(uri)
	if err != nil {
		return err
	}
	_, err = g.call("update_resource", object{"uri": uri})
	var told []*dragoman.Message
	if err == nil {
		told, err = g.hears(protocol.NoteResourceUpdated, 1)
	}
	stop()
	if err != nil {
		return err
	}
	if told[0].URI() != uri {
		return fmt.Errorf("updated: %s", told[0].Params())
	}
	// Whoever has unsubscribed hears nothing more; a call behind it shows that.
	g.forget()
	if _, err := g.call("update_resource", object{"uri": uri}); err != nil {
		return err
	}
	if _, err := g.says("echo", object{"text": "x"}); err != nil {
		return err
	}
	if told := g.Notes(protocol.NoteResourceUpdated); len(told) > 0 {
		return fmt.Errorf("told of an update after the subscription had ended: %s", told[0].Bytes())
	}
	return nil
}

func largeResult(g *testClient, _ protocol.Revision) error {
	size := 5 << 20
	if !*all {
		size /= 30
	}
	got, err := g.says("large", object{"bytes": size})
	if err != nil || len(got) != size || strings.Trim(got, "x") != "" {
		return fmt.Errorf("got %d bytes, error %w", len(got), err)
	}
	return nil
}

func bigIntegers(g *testClient, server protocol.Revision) error {
	const arguments = `{"z":9007199254740993,"a":[123456789012345678901234567890,1.10,1e400],"unknown":{"b":null,"a":0.1e-7}}`
	resp, err := g.call("reflect", json.RawMessage(arguments))
	if err != nil {
		return err
	}
	if got := textOf(resp); got != arguments {
		return fmt.Errorf("text: got %s", got)
	}
	if g.Revision.HasStructuredContent() && server.HasStructuredContent() {
		if got := string(resp.Get("structuredContent")); got != arguments {
			return fmt.Errorf("structured content: got %s", got)
		}
	}
	return nil
}
