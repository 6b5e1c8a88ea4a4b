package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestD03_AServerIsIntroducedAndUsedInItsOwnEra(t *testing.T) {
	inEachEra(t, func(t *testing.T, server *client.Server, era protocol.Era) {
		c := connect(t, server, &client.Options{Name: "tester", Version: "7"})
		if c.Era() != era || c.Revision().Era() != era {
			t.Errorf("it speaks %v, %v", c.Era(), c.Revision())
		}
		if info := c.ServerInfo(); info.Name != "dragoman-everything" || info.Version == "" {
			t.Errorf("it is %+v", info)
		}
		if !c.Can("tools") || c.Can("nonsense") || !json.Valid(c.Capabilities()) {
			t.Errorf("it can %s", c.Capabilities())
		}
		if c.Instructions() == "" {
			t.Error("its instructions are missing")
		}
		ctx := within(t)
		if err := c.Ping(ctx); err != nil {
			t.Errorf("Ping: %v", err)
		}
		got, err := c.CallTool(ctx, "add", map[string]int{"a": 2, "b": 40}, nil)
		if err != nil || !strings.Contains(got.Text(), "42") || got.IsError || len(got.Raw) == 0 {
			t.Errorf("add: %+v, %v", got, err)
		}
		if got, err = c.CallTool(ctx, "echo", json.RawMessage(`{"text":"9007199254740993"}`), nil); err != nil || got.Text() != "9007199254740993" {
			t.Errorf("echo: %+v, %v", got, err)
		}
		if got, err = c.CallTool(ctx, "test_error_handling", nil, nil); err != nil || !got.IsError {
			t.Errorf("a tool that fails: %+v, %v", got, err)
		}
		contents, err := c.ReadResource(ctx, "test://static-binary")
		if err != nil || len(contents) != 1 || len(contents[0].Blob) == 0 || contents[0].MIMEType != "image/png" {
			t.Errorf("ReadResource: %+v, %v", contents, err)
		}
		prompt, err := c.GetPrompt(ctx, "test_prompt_with_arguments", map[string]string{"arg1": "one", "arg2": "two"})
		if err != nil || len(prompt.Messages) == 0 || !strings.Contains(prompt.Messages[0].Content.Text, "one") {
			t.Errorf("GetPrompt: %+v, %v", prompt, err)
		}
		completion, err := c.Complete(ctx, client.Ref{Prompt: "test_prompt_with_arguments"}, "arg1", "p", map[string]string{"arg2": "x"})
		if err != nil || completion == nil {
			t.Errorf("Complete: %+v, %v", completion, err)
		}
		raw, err := c.Request(ctx, protocol.MethodListTools, nil)
		if err != nil || !strings.Contains(string(raw), `"tools"`) {
			t.Errorf("Request: %s, %v", raw, err)
		}
	})
}

func TestListsHaveAllPages(t *testing.T) {
	inEachEra(t, func(t *testing.T, server *client.Server, _ protocol.Era) {
		c := connect(t, server, nil)
		ctx := within(t)
		tools, err := c.Tools(ctx)
		if err != nil || len(tools) < 15 || tools[0].Name == "" || len(tools[0].Raw) == 0 || len(tools[0].InputSchema) == 0 {
			t.Errorf("%d tools, %v", len(tools), err)
		}
		resources, err := c.Resources(ctx)
		if err != nil || len(resources) < 4 || resources[0].URI == "" {
			t.Errorf("%d resources, %v", len(resources), err)
		}
		templates, err := c.Templates(ctx)
		if err != nil || len(templates) != 2 || templates[0].URITemplate == "" {
			t.Errorf("%d templates, %v", len(templates), err)
		}
		prompts, err := c.Prompts(ctx)
		if err != nil || len(prompts) < 4 || prompts[0].Name == "" {
			t.Errorf("%d prompts, %v", len(prompts), err)
		}
	})
}

// paging is a legacy server whose list of tools has the pages that a function
// gives.
func paging(next func(cursor string) string) *client.Server {
	return &client.Server{Name: "paging", Dialer: dragoman.Local(dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
		return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			switch req.Method() {
			case protocol.MethodInitialize:
				return req.Reply(json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"p","version":"1"}}`))
			case protocol.MethodListTools:
				return req.Reply(json.RawMessage(next(string(req.Get("cursor")))))
			}
			return dragoman.NoPeer.Call(ctx, req, from)
		}}, nil
	}))}
}

func TestListsThatNeverEndAreGivenUp(t *testing.T) {
	page := 0
	for name, test := range map[string]struct {
		next func(cursor string) string
		want string // of the error, or the number of tools
	}{
		"a circle":        {func(string) string { return `{"tools":[{"name":"a"}],"nextCursor":"again"}` }, "circle"},
		"too many":        {func(string) string { page++; return fmt.Sprintf(`{"tools":[],"nextCursor":"%d"}`, page) }, "more than 1000 pages"},
		"too long":        {func(string) string { return `{"tools":[{}` + strings.Repeat(`,{}`, client.MaxItems) + `]}` }, "more than 100000 items"},
		"no list":         {func(string) string { return `{}` }, "has no tools"},
		"not a list":      {func(string) string { return `{"tools":7}` }, "cannot unmarshal"},
		"the end is null": {func(string) string { return `{"tools":[{"name":"a"}],"nextCursor":null}` }, "1"},
		"an empty cursor too": {func(c string) string {
			if c == "" {
				return `{"tools":[{"name":"a"}],"nextCursor":""}`
			}
			return `{"tools":[{"name":"b"}]}`
		}, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, paging(test.next), nil)
			tools, err := c.Tools(within(t))
			got := fmt.Sprint(len(tools))
			if err != nil {
				got = err.Error()
				if !errors.Is(err, client.NetworkError) {
					t.Errorf("the error is %v", err)
				}
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestTheServerAsksWhatThereAreHandlersFor(t *testing.T) {
	inEachEra(t, func(t *testing.T, server *client.Server, _ protocol.Era) {
		asked := make(chan string, 10)
		c := connect(t, server, &client.Options{
			Sampling: func(_ context.Context, params json.RawMessage) (any, error) {
				asked <- "sampling " + string(params)
				return map[string]any{"role": "assistant", "model": "m", "content": map[string]string{"type": "text", "text": "forty-two"}}, nil
			},
			Elicitation: func(_ context.Context, params json.RawMessage) (any, error) {
				asked <- "elicitation " + string(params)
				return json.RawMessage(`{"action":"accept","content":{"username":"ada","email":"ada@example.com"}}`), nil
			},
		})
		ctx := within(t)
		got, err := c.CallTool(ctx, "test_sampling", map[string]string{"prompt": "hm?"}, nil)
		if err != nil || !strings.Contains(got.Text(), "forty-two") {
			t.Errorf("test_sampling: %+v, %v", got, err)
		}
		if q := <-asked; !strings.Contains(q, "hm?") {
			t.Errorf("asked %s", q)
		}
		got, err = c.CallTool(ctx, "test_elicitation", map[string]string{"message": "who?"}, nil)
		if err != nil || !strings.Contains(got.Text(), "ada") {
			t.Errorf("test_elicitation: %+v, %v", got, err)
		}
		if q := <-asked; !strings.Contains(q, "who?") {
			t.Errorf("asked %s", q)
		}
	})
}

func TestAServerIsToldWhatItCannotAsk(t *testing.T) {
	inEachEra(t, func(t *testing.T, server *client.Server, _ protocol.Era) {
		c := connect(t, server, nil)
		got, err := c.CallTool(within(t), "test_sampling", map[string]string{"prompt": "hm?"}, nil)
		if _, ok := errors.AsType[*dragoman.Error](err); !ok && (got == nil || !got.IsError) {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestAHandlerThatFailsFailsTheCall(t *testing.T) {
	inEachEra(t, func(t *testing.T, server *client.Server, era protocol.Era) {
		no := errors.New("the model is on holiday")
		c := connect(t, server, &client.Options{Sampling: func(context.Context, json.RawMessage) (any, error) { return nil, no }})
		got, err := c.CallTool(within(t), "test_sampling", map[string]string{"prompt": "hm?"}, nil)
		switch {
		case era == protocol.Modern && !errors.Is(err, no):
			t.Errorf("%+v, %v", got, err)
		case era == protocol.Legacy && err == nil && !strings.Contains(got.Text(), "holiday"):
			t.Errorf("%+v", got)
		}
	})
}

func TestNotificationsArrive(t *testing.T) {
	inEachEra(t, func(t *testing.T, server *client.Server, _ protocol.Era) {
		e := newNotifications()
		c := connect(t, server, &client.Options{OnNotification: e.add})
		ctx := within(t)
		if err := c.SetLevel(ctx, "nonsense"); err == nil {
			t.Error("a level that does not exist is taken")
		}
		if err := c.SetLevel(ctx, "info"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.CallTool(ctx, "test_tool_with_logging", nil, nil); err != nil {
			t.Fatal(err)
		}
		e.wait(t, protocol.NoteMessage, 3)
		const uri = "test://watched-resource"
		if err := c.Subscribe(ctx, uri); err != nil {
			t.Fatal(err)
		}
		update := func() {
			t.Helper()
			if _, err := c.CallTool(ctx, "update_resource", map[string]string{"uri": uri}, nil); err != nil {
				t.Fatal(err)
			}
		}
		update()
		e.wait(t, protocol.NoteResourceUpdated, 1)
		if err := c.Unsubscribe(ctx, uri); err != nil {
			t.Fatal(err)
		}
		before := e.count(protocol.NoteResourceUpdated)
		update()
		if _, err := c.CallTool(ctx, "test_tool_with_logging", nil, nil); err != nil { // whatever was sent before it has come
			t.Fatal(err)
		}
		e.wait(t, protocol.NoteMessage, 6)
		if after := e.count(protocol.NoteResourceUpdated); after != before {
			t.Errorf("%d changes were told after the end of the subscription", after-before)
		}
	})
}
