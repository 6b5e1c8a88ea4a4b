//go:build unix

package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// sameToken is what all clients of a test use for their progress.
const sameToken = "t"

// alikeCall is a call whose id and progress token are those of everybody.
func alikeCall(tool string, arguments object, more object) string {
	meta := with(object{protocol.MetaProgressToken: sameToken}, more)
	text, _ := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": protocol.MethodCallTool, "params": object{"name": tool, "arguments": arguments, "_meta": meta}})
	return string(text)
}

// An alike is a client that sends every request with id 1.
type alike struct {
	name string
	call func(text string, tool string) (messages []string, err error) // everything up to the answer
	more object                                                        // of _meta
}

// run makes calls and fails unless each gets its own answer, under its own token, once.
func (a *alike) run(t *testing.T, calls int) {
	for n := range calls {
		tool, arguments, want := "sleep", object{"ms": (n*7 + len(a.name)*11) % 30, "text": fmt.Sprint(a.name, "-", n)}, fmt.Sprint(a.name, "-", n)
		if n%5 == 4 {
			tool, arguments, want = "notify", object{"n": 3}, "3"
		}
		messages, err := a.call(alikeCall(tool, arguments, a.more), tool)
		if err != nil || len(messages) == 0 {
			t.Errorf("%s, call %d: %v", a.name, n, err)
			return
		}
		if got, ok := textOf(messages[len(messages)-1], 1); !ok || got != want {
			t.Errorf("%s, call %d: got %q, want %q", a.name, n, messages, want)
		}
		for _, m := range messages[:len(messages)-1] {
			if strings.Contains(m, protocol.NoteProgress) && !strings.Contains(m, `"progressToken":"`+sameToken+`"`) {
				t.Errorf("%s is told of another's progress: %s", a.name, m)
			}
			if tool == "sleep" && strings.Contains(m, protocol.NoteProgress) {
				t.Errorf("%s is told of progress that nobody makes for it: %s", a.name, m)
			}
		}
	}
}

// allOf returns the messages of an answer over HTTP, up to the answer.
func allOf(t *testing.T, resp *http.Response) (list []string, err error) {
	t.Helper()
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return []string{read(t, resp)}, nil
	}
	defer resp.Body.Close()
	for events := newEvents(resp.Body); ; {
		e, err := events.next()
		if err != nil {
			return list, err
		}
		if e.data == "" {
			continue
		}
		list = append(list, e.data)
		if _, ok := textOf(e.data, 1); ok {
			return list, nil
		}
	}
}

// TestS23_EverybodyUsesTheSameIDs has 16 clients of all kinds use one id and one token for
// everything, on the wire.
func TestS23_EverybodyUsesTheSameIDs(t *testing.T) {
	t.Parallel() // with a gateway of its own
	for _, mode := range []string{fault.Legacy, fault.Modern} {
		t.Run(mode+" server", func(t *testing.T) {
			t.Parallel() // with a gateway of its own
			g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": object{server: with(child(t, mode, newJournal(t)), object{"isolation": "client"})}}})
			ctx := gatewaytest.Hurry(t, 2*gatewaytest.Patience)
			var clients []*alike
			for i := range 8 {
				v := openSession(ctx, t, g, server)
				clients = append(clients, &alike{name: fmt.Sprint("legacy", i), call: func(text, _ string) ([]string, error) { return allOf(t, v.post(ctx, text)) }})
			}
			for i := range 4 {
				clients = append(clients, modernAlike(ctx, t, g, fmt.Sprint("modern", i)), socketAlike(t, g, fmt.Sprint("socket", i)))
			}
			calls := max(gatewaytest.Few(200), 20)
			var all sync.WaitGroup
			for _, c := range clients {
				all.Go(func() { c.run(t, calls) }) // ends after its calls
			}
			all.Wait()
		})
	}
}

func modernAlike(ctx context.Context, t *testing.T, g *gatewaytest.Gateway, name string) *alike {
	t.Helper()
	return &alike{
		name: name,
		more: object{
			protocol.MetaProtocolVersion: protocol.Latest.String(), protocol.MetaClientCapabilities: object{},
			protocol.MetaClientInfo: object{"name": "raw", "version": "1"}, protocol.MetaLogLevel: "info",
		},
		call: func(text, tool string) ([]string, error) {
			header, _ := modernText(t, protocol.MethodCallTool, 1, object{"name": tool})
			resp, err := gatewaytest.Post(ctx, g.URL(server, "mcp"), header, text)
			if err != nil {
				return nil, err
			}
			return allOf(t, resp)
		},
	}
}

func socketAlike(t *testing.T, g *gatewaytest.Gateway, name string) *alike {
	t.Helper()
	socket, resp := g.Upgrade("/servers/" + server + "/ws")
	if socket == nil {
		t.Fatal(resp.Status)
	}
	socket.Ask(t, helloText())
	if err := socket.Send(gatewaytest.TextFrame, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil {
		t.Fatal(err)
	}
	return &alike{name: name, call: func(text, _ string) (list []string, err error) {
		if err := socket.Send(gatewaytest.TextFrame, text); err != nil {
			return nil, err
		}
		for {
			m, err := socket.Message()
			if err != nil {
				return list, err
			}
			list = append(list, m)
			if _, ok := textOf(m, 1); ok {
				return list, nil
			}
		}
	}}
}

// TestS23_OneIDTwiceAtOnceInOneSession has four requests with one id in flight in a session:
// one is answered, and each other one too or refused, never with what is another's.
func TestS23_OneIDTwiceAtOnceInOneSession(t *testing.T) {
	t.Parallel() // with a gateway of its own
	g := start(t, "run", child(t, fault.Legacy, newJournal(t)))
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	v := openSession(ctx, t, g, "")
	for round := range 5 {
		var all sync.WaitGroup
		answered := make([]bool, 4)
		for i := range answered {
			all.Go(func() { // ends with its call
				began := time.Now()
				mine := fmt.Sprint("round ", round, ", request ", i)
				resp := v.post(ctx, alikeCall("sleep", object{"ms": 100, "text": mine}, nil))
				status := resp.StatusCode
				messages, err := allOf(t, resp)
				if err != nil || len(messages) == 0 {
					t.Errorf("%s: %v", mine, err)
					return
				}
				last := messages[len(messages)-1]
				got, _ := textOf(last, 1)
				r := errorOf(last)
				switch {
				case got == mine && status == http.StatusOK:
					answered[i] = true
				case (status == http.StatusBadRequest || status == http.StatusConflict) && r.code == protocol.CodeInvalidRequest:
				default:
					t.Errorf("%s: %d %s", mine, status, last)
				}
				if took := time.Since(began); gatewaytest.Exceeds(took, 5*time.Second) {
					t.Errorf("%s takes %v", mine, took)
				}
			})
		}
		all.Wait()
		if fmt.Sprint(answered) == fmt.Sprint(make([]bool, 4)) {
			t.Error("none of the requests with one id is answered")
		}
	}
}

// TestS22_SessionsFollowTheirProtocol opens, uses and ends sessions in every order.
func TestS22_SessionsFollowTheirProtocol(t *testing.T) {
	t.Parallel() // it waits for a session to end
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{
		"limits":  object{"idleSession": "2s"},
		"servers": object{server: with(child(t, fault.Legacy, newJournal(t)), object{"isolation": "shared"})},
	}})
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	const ping = `{"jsonrpc":"2.0","id":7,"method":"ping"}`
	v := openSession(ctx, t, g, server)
	idle := openSession(ctx, t, g, server)
	status := func(v *session, body string) int {
		t.Helper()
		resp := v.post(ctx, body)
		_ = read(t, resp)
		return resp.StatusCode
	}
	if len(v.id) < 22 || strings.ContainsFunc(v.id, func(r rune) bool { return r < 0x21 || r > 0x7E }) || v.id == idle.id {
		t.Errorf("the session id is %q", v.id)
	}
	other := *v
	for id, want := range map[string]int{v.id: 200, v.id + "x": 404, strings.ToLower(v.id): 404, "unknown": 404, "../../etc/passwd": 404, strings.Repeat("a", 5000): 404} {
		other.id = id
		if got := status(&other, ping); got != want && (want != 404 || got != 400) {
			t.Errorf("session %.40q: %d, want %d", id, got, want)
		}
	}
	resp, err := gatewaytest.Post(ctx, v.url, nil, ping)
	if err != nil {
		t.Fatal(err)
	}
	if _ = read(t, resp); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("without a session: %s", resp.Status)
	}
	h := v.header()
	h.Set(protocol.HeaderVersion, "1900-01-01")
	if resp, err = gatewaytest.Post(ctx, v.url, h, ping); err != nil {
		t.Fatal(err)
	}
	if _ = read(t, resp); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a revision that nobody knows: %s", resp.Status)
	}
	resp = v.post(ctx, helloText()) // a second one: an error, or a session of its own
	if again, body := resp.Header.Get(protocol.HeaderSession), read(t, resp); again == v.id || resp.StatusCode == http.StatusOK && again == "" {
		t.Errorf("a second initialize: %s %q %s", resp.Status, again, body)
	}
	v.mustEcho(ctx, 3)
	other.id = "stale"
	if resp = other.post(ctx, helloText()); resp.StatusCode != http.StatusOK || resp.Header.Get(protocol.HeaderSession) == "" {
		t.Errorf("initialize with a stale id: %s", resp.Status)
	}
	_ = read(t, resp)
	resp = modernPost(ctx, t, v.url, protocol.MethodListTools, 1, nil)
	if _ = read(t, resp); resp.StatusCode != http.StatusOK || resp.Header.Get(protocol.HeaderSession) != "" {
		t.Errorf("a modern request: %s, session %q", resp.Status, resp.Header.Get(protocol.HeaderSession))
	}
	codes := make(chan int, 2)
	for range cap(codes) {
		go func() { // ends with its request
			req, err := http.NewRequestWithContext(ctx, http.MethodDelete, v.url, http.NoBody)
			if err != nil {
				codes <- 0
				return
			}
			req.Header = v.header()
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				codes <- 0
				return
			}
			_ = resp.Body.Close()
			codes <- resp.StatusCode
		}()
	}
	one, two := <-codes, <-codes
	if min(one, two)/100 != 2 || max(one, two) != http.StatusNotFound {
		t.Errorf("two DELETEs at once: %d and %d", one, two)
	}
	if got := status(v, ping); got != http.StatusNotFound {
		t.Errorf("after DELETE: %d", got)
	}
	gatewaytest.Eventually(t, func() error {
		time.Sleep(3 * time.Second) // a look is a use
		if got := status(idle, ping); got != http.StatusNotFound {
			return fmt.Errorf("unused for longer than it may be: %d", got)
		}
		return nil
	})
}

// TestS25_StreamIsNotTakenFromItsClient opens a second stream in a session.
func TestS25_StreamIsNotTakenFromItsClient(t *testing.T) {
	t.Parallel() // with a gateway of its own
	g := start(t, "run", child(t, fault.Legacy, newJournal(t)))
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	v := openSession(ctx, t, g, "")
	first := v.get(ctx, "")
	defer first.Body.Close()
	for range 3 {
		second, err := v.tryGet(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		if text := read(t, second); second.StatusCode != http.StatusConflict {
			t.Errorf("a second stream: %s %s, want 409", second.Status, text)
		}
	}
	resp := v.call(ctx, 5, "test_trigger_tool_change", nil)
	_ = v.answer(resp, 5)
	_ = resp.Body.Close()
	events := newEvents(first.Body)
	for {
		e, err := events.next()
		if err != nil {
			t.Fatalf("the first stream ends: %v", err)
		}
		if strings.Contains(e.data, protocol.NoteToolsChanged) {
			return
		}
	}
}
