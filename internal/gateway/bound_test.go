package gateway_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// taskServer starts a modern server that makes a task "t.1" of every call, and tells of it.
func taskServer(t *testing.T) (url string) {
	t.Helper()
	base := builtin.New(&builtin.Options{Revisions: []protocol.Revision{protocol.Latest}}).Requests()
	task := map[string]any{"taskId": "t.1", "status": "working", "resultType": protocol.ResultTask}
	endpoint := &streamable.Server{Requests: dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		switch req.Method() {
		case protocol.MethodCallTool:
			return req.Reply(task)
		case protocol.MethodGetTask, protocol.MethodCancelTask, protocol.MethodUpdateTask:
			if id, _ := dragoman.Text(req.Get("taskId")); id != "t.1" {
				return req.Fail(&dragoman.Error{Code: protocol.CodeInvalidParams, Message: "no task " + id}), nil
			}
			return req.Reply(map[string]any{"taskId": "t.1", "status": "completed", "resultType": protocol.ResultComplete})
		case protocol.MethodListen:
			wanted := protocol.InterestOf(req)
			if len(wanted.Tasks) == 0 {
				break
			}
			for method, params := range map[string]any{
				protocol.NoteAcknowledged: map[string]any{"notifications": map[string]any{"taskIds": wanted.Tasks}, "_meta": map[string]any{protocol.MetaSubscriptionID: req.ID()}},
				protocol.NoteTasks:        map[string]any{"taskId": wanted.Tasks[0], "status": "completed", "_meta": map[string]any{protocol.MetaSubscriptionID: req.ID()}},
			} {
				note, err := dragoman.NewNotification(method, params)
				if err == nil {
					err = from.Notify(ctx, note)
				}
				if err != nil {
					return nil, err
				}
			}
			return req.Reply(map[string]any{"resultType": protocol.ResultComplete})
		}
		return base.Call(ctx, req, from)
	}}}
	web := httptest.NewServer(endpoint)
	t.Cleanup(func() {
		_ = endpoint.Shutdown(within(t))
		web.Close()
	})
	return web.URL
}

// modern sends a request of the modern era, and returns all that comes for it.
func (g *guarded) modern(t *testing.T, path, token, method, params string) string {
	t.Helper()
	version := protocol.Latest.String()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{%q:%q,%q:{"name":"c","version":"1"},%q:{}}}}`,
		method, params, protocol.MetaProtocolVersion, version, protocol.MetaClientInfo, protocol.MetaClientCapabilities)
	req, err := http.NewRequestWithContext(within(t), http.MethodPost, g.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + token,
		protocol.HeaderVersion: version, protocol.HeaderMethod: method,
	} {
		req.Header.Set(name, value)
	}
	if m, err := dragoman.Parse([]byte(body)); err != nil {
		req.Header.Set(protocol.HeaderName, "x") // it is refused anyway
	} else if name := cmp.Or(m.Name(), taskOf(body)); name != "" {
		req.Header.Set(protocol.HeaderName, name)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestS23_TasksBelongToWhoCalled has a server that knows its callers by nothing make a task.
func TestS23_TasksBelongToWhoCalled(t *testing.T) {
	url, dir := taskServer(t), t.TempDir()
	g := &guarded{tokens: filepath.Join(dir, "tokens.json")}
	anna, bob := g.token(t, "anna"), g.token(t, "bob")
	config := fmt.Sprintf("auth: {tokenFile: %q}\nstate: %q\nservers:\n  a: {url: %q}\n", g.tokens, filepath.Join(dir, "state"), url)
	given := make(map[string]string)
	for range 2 { // the second time after a restart
		g.running = begin(t, config)
		g.ready()
		for path, tool := range map[string]string{"/servers/a/mcp": "echo", "/mcp": "a_echo"} {
			if given[path] == "" {
				made := g.modern(t, path, anna, protocol.MethodCallTool, `"name":"`+tool+`","arguments":{"text":"x"},`)
				given[path] = taskOf(made)
				if id := given[path]; id == "" || strings.HasSuffix(id, "t.1") {
					t.Fatalf("%s: a call becomes %s", path, made)
				}
			}
			id := given[path]
			for _, method := range []string{protocol.MethodGetTask, protocol.MethodUpdateTask, protocol.MethodCancelTask} {
				if got := g.modern(t, path, anna, method, `"taskId":"`+id+`",`); taskOf(got) != id {
					t.Errorf("%s: %s of its caller: %s", path, method, got)
				}
				refusal := g.modern(t, path, bob, method, `"taskId":"`+id+`",`)
				nobodys := g.modern(t, path, bob, method, `"taskId":"`+id[:len(id)-1]+`!",`)
				if strings.ReplaceAll(nobodys, "!", id[len(id)-1:]) != refusal || !strings.Contains(refusal, "unknown task") {
					t.Errorf("%s: %s of another: %s\nand of nobody's task: %s", path, method, refusal, nobodys)
				}
				if got := g.modern(t, path, bob, method, `"taskId":"t.1",`); !strings.Contains(got, "unknown task") {
					t.Errorf("%s: %s by the server's own id: %s", path, method, got)
				}
				if got := g.modern(t, path, bob, method, `"TaskID":"t.1",`); !strings.Contains(got, `"error"`) {
					t.Errorf("%s: %s by another name: %s", path, method, got)
				}
			}
		}
		id := given["/servers/a/mcp"]
		wanted := `"notifications":{"taskIds":["` + id + `","t.1"]},`
		if got := g.modern(t, "/servers/a/mcp", anna, protocol.MethodListen, wanted); strings.Count(got, id) != 2 || strings.Contains(got, `"t.1"`) {
			t.Errorf("its caller is told %s", got)
		}
		if err := g.Shutdown(within(t)); err != nil {
			t.Fatal(err)
		}
	}
}

// taskOf returns the task that a message is about.
func taskOf(text string) string {
	m, err := dragoman.Parse([]byte(text))
	if err != nil {
		return ""
	}
	id, _ := dragoman.Text(m.Get("taskId"))
	return id
}
