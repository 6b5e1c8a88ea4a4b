package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/observe/tap"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// lookOn opens a tap, and returns what reads the next event that is wanted.
func lookOn(t *testing.T, url string) (next func(what string, is func(*tap.Event) bool) tap.Event, leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", resp, err)
	}
	leave = func() {
		cancel()
		_ = resp.Body.Close()
	}
	t.Cleanup(leave)
	lines := json.NewDecoder(resp.Body)
	return func(what string, is func(*tap.Event) bool) tap.Event {
		t.Helper()
		for {
			var e tap.Event
			if err := lines.Decode(&e); err != nil {
				t.Fatalf("timed out waiting for %s: %v", what, err)
			}
			if is(&e) {
				return e
			}
		}
	}, leave
}

func TestOwnerSeesWhatPasses(t *testing.T) {
	for _, era := range eras {
		t.Run(era.String(), func(t *testing.T) {
			g := begin(t, both(t))
			g.ready()
			control := serveHTTP(t, g.Control())
			next, leave := lookOn(t, control+"/tap?server=old")
			elsewhere := g.join("/servers/new/mcp", era)
			echo(t, elsewhere, "echo") // of a server that nobody looks at
			opts := &client.Options{Name: "guest", Version: "1", Elicitation: func(context.Context, json.RawMessage) (any, error) {
				return map[string]any{"action": "accept", "content": map[string]any{"username": "ada", "email": "a@example.com"}}, nil
			}}
			c := g.joinAs("/servers/old/mcp", opts, era)
			if _, err := c.CallTool(within(t), "echo", map[string]string{"text": "hello", "password": "canary"}, nil); err != nil {
				t.Fatal(err)
			}
			isEcho := func(e *tap.Event) bool { return e.Method == protocol.MethodCallTool && e.Name == "echo" }
			asked := next("the call", isEcho)
			if asked.From != tap.Client || asked.Server != "old" || asked.Client != "guest" || asked.Answer || strings.Contains(string(asked.Message), "canary") || asked.Size == 0 {
				t.Errorf("the call is %+v", asked)
			}
			answer := next("the answer", isEcho)
			if answer.From != tap.Server || !answer.Answer || answer.Ms <= 0 || !strings.Contains(string(answer.Message), "hello") || string(answer.ID) != string(asked.ID) {
				t.Errorf("the answer is %+v", answer)
			}
			if _, err := c.CallTool(within(t), "nonesuch", nil, nil); err == nil {
				t.Fatal("there is no such tool")
			}
			if e := next("the error", func(e *tap.Event) bool { return e.Answer && e.Name == "nonesuch" }); e.Code != protocol.CodeInvalidParams || e.Error == "" {
				t.Errorf("the error is %+v", e)
			}
			if _, err := c.CallTool(within(t), "test_elicitation", map[string]string{"message": "who?"}, nil); err != nil {
				t.Fatal(err)
			}
			if era == protocol.Legacy { // else the question is a result
				if e := next("the question", func(e *tap.Event) bool { return e.From == tap.Server && e.Method == protocol.MethodElicit }); e.Answer || e.Session == "" {
					t.Errorf("the question is %+v", e)
				}
				if e := next("its answer", func(e *tap.Event) bool { return e.From == tap.Client && e.Method == protocol.MethodElicit }); !e.Answer {
					t.Errorf("the answer is %+v", e)
				}
			}
			leave()
		})
	}
}

func TestATapOfNobodyIsRefusedAndSecretsAreForWhoAsks(t *testing.T) {
	g := begin(t, both(t))
	g.ready()
	control := serveHTTP(t, g.Control())
	if status, body := send(t, http.DefaultClient, http.MethodGet, control+"/tap?server=none"); status != http.StatusNotFound || !strings.Contains(body, "no server none") {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := g.get("/tap"); status != http.StatusNotFound {
		t.Errorf("everybody may tap: %d", status)
	}
	next, _ := lookOn(t, control+"/tap?unmasked=true")
	c := g.join("/mcp", protocol.Modern)
	names := toolNames(t, c)
	tool := names[slices.IndexFunc(names, func(name string) bool { return strings.HasSuffix(name, "echo") })]
	if _, err := c.CallTool(within(t), tool, map[string]string{"text": "x", "password": "canary"}, nil); err != nil {
		t.Fatal(err)
	}
	e := next("the call", func(e *tap.Event) bool { return e.Method == protocol.MethodCallTool })
	if !strings.Contains(string(e.Message), "canary") || e.Server == "" {
		t.Errorf("it is %s", fmt.Sprint(e))
	}
}
