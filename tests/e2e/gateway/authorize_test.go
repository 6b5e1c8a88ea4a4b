//go:build unix

package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// An attempt is a message that a client sends at every kind of endpoint, over every transport and in both eras.
type attempt struct {
	name   string
	method string
	params string // MARK stands for a text by which it is known again, TOOL for the prefix of tools
	noID   bool
	hidden bool // it needs a tool that is hidden, which run and connect cannot
	legacy bool // the method is one of the legacy era

	reaches bool   // the server of its own endpoint gets it, in the era of the server
	shows   string // the response has this text, at every endpoint
	hides   string // and not this one
}

// A ruleset is the rules of a gateway, and what clients try there. Without rules that is tried at run and connect too, which
// have none.
type ruleset struct {
	name     string
	rules    []string
	attempts []attempt
}

const (
	callEcho    = `{"name":"TOOLecho","arguments":{"text":"MARK"}}`
	callHidden  = `{"name":"TOOLslow","arguments":{"text":"MARK"}}`
	aboutMark   = `{"uri":"test://MARK"}`
	listenMark  = `{"notifications":{"resourceSubscriptions":["test://MARK"]}}`
	withinBatch = `{"messages":[{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","arguments":{"text":"MARK"}}}]}`
)

var rulesets = []ruleset{
	{"no rules", nil, []attempt{
		{name: "tools/call without an id", method: protocol.MethodCallTool, params: callEcho, noID: true},
		{name: "hidden tool without an id", method: protocol.MethodCallTool, params: callHidden, noID: true, hidden: true},
		{name: "resources/subscribe without an id", method: protocol.MethodSubscribe, params: aboutMark, noID: true},
		{name: "resources/read without an id", method: protocol.MethodReadResource, params: aboutMark, noID: true},
		{name: "prompts/get without an id", method: protocol.MethodGetPrompt, params: `{"name":"MARK"}`, noID: true},
		{name: "logging/setLevel without an id", method: protocol.MethodSetLevel, params: `{"level":"MARK"}`, noID: true},
		{name: "initialize without an id", method: protocol.MethodInitialize, params: `{"protocolVersion":"MARK"}`, noID: true},
		{name: "ping without an id", method: protocol.MethodPing, params: `{"x":"MARK"}`, noID: true},
		{name: "batch without an id", method: protocol.MethodBatch, params: withinBatch, noID: true},
		{name: "unknown method without an id", method: "x-acme/admin", params: aboutMark, noID: true},
		{name: "other case without an id", method: "Notifications/x", params: aboutMark, noID: true},
		{name: "notification", method: "notifications/x-acme", params: aboutMark, noID: true, legacy: true, reaches: true},
		{name: "hidden tool", method: protocol.MethodCallTool, params: callHidden, hidden: true},
		{name: "hidden tool, other case", method: "Tools/Call", params: callHidden},
		{name: "hidden tool, space", method: "tools/call ", params: callHidden},
		{name: "hidden tool, NUL", method: "tools/call\x00", params: callHidden},
		{name: "name of another type", method: protocol.MethodCallTool, params: `{"name":["MARK"]}`},
		{name: "ref of another type", method: protocol.MethodComplete, params: `{"ref":["ref/prompt","MARK"],"argument":{"name":"a","value":"MARK"}}`},
		{name: "allowed tool", method: protocol.MethodCallTool, params: callEcho, reaches: true, shows: "MARK"},
	}},
	{"a tool is allowed", []string{"allow anyone tools echo"}, []attempt{
		{name: "the tool", method: protocol.MethodCallTool, params: callEcho, reaches: true, shows: "MARK"},
		{name: "another tool", method: protocol.MethodCallTool, params: `{"name":"TOOLadd","arguments":{"a":"MARK","b":1}}`},
		{name: "tools/list", method: protocol.MethodListTools, params: `{}`, shows: `echo"`, hides: `add"`},
		{name: "prompts/list", method: protocol.MethodListPrompts, params: `{}`, shows: `"prompts":[]`},
		{name: "logging/setLevel", method: protocol.MethodSetLevel, params: `{"level":"info"}`, legacy: true, shows: "result"},
		{name: "an extension", method: "x-acme/admin", params: aboutMark},
		{name: "tools/execute", method: "tools/execute", params: callHidden},
		{name: "resources/unsubscribe", method: protocol.MethodUnsubscribe, params: aboutMark},
		{name: "resources/subscribe", method: protocol.MethodSubscribe, params: aboutMark},
		{name: "subscriptions/listen", method: protocol.MethodListen, params: listenMark},
		{name: "resources/read", method: protocol.MethodReadResource, params: aboutMark},
		{name: "completion/complete", method: protocol.MethodComplete, params: `{"ref":{"type":"ref/resource","uri":"test://MARK"},"argument":{"name":"a","value":"MARK"}}`},
		{name: "tasks/cancel", method: protocol.MethodCancelTask, params: `{"taskId":["MARK"]}`},
		{name: "tools/call without an id", method: protocol.MethodCallTool, params: callHidden, noID: true},
	}},
	{"subscribing is denied", []string{"allow anyone", "deny anyone methods resources/subscribe"}, []attempt{
		{name: "resources/subscribe", method: protocol.MethodSubscribe, params: aboutMark},
		{name: "subscriptions/listen", method: protocol.MethodListen, params: listenMark},
		{name: "an extension", method: "x-acme/admin", params: aboutMark, legacy: true, reaches: true},
		{name: "resources/read", method: protocol.MethodReadResource, params: aboutMark, reaches: true},
		{name: "resources/subscribe without an id", method: protocol.MethodSubscribe, params: aboutMark, noID: true},
	}},
	{"listening is denied", []string{"allow anyone", "deny anyone methods subscriptions/listen, prompts/list"}, []attempt{
		{name: "resources/subscribe", method: protocol.MethodSubscribe, params: aboutMark},
		{name: "subscriptions/listen", method: protocol.MethodListen, params: listenMark},
		{name: "prompts/list", method: protocol.MethodListPrompts, params: `{}`, hides: `"test_`},
		{name: "resources/read", method: protocol.MethodReadResource, params: aboutMark, reaches: true},
		{name: "prompts/list without an id", method: protocol.MethodListPrompts, params: `{"cursor":"MARK"}`, noID: true},
	}},
}

// A route is a kind of endpoint with a transport.
type route struct {
	name   string
	dialer dragoman.Dialer
	era    protocol.Era
	prefix string // of tools
	own    bool   // one server stands behind the endpoint
	whole  bool   // no tools are hidden
}

// A record is a file of what a server has received.
type record string

// server returns the command of a legacy server whose input is recorded.
func (r record) server(t *testing.T) []string {
	t.Helper()
	return []string{"sh", "-c", `tee -a "$0" | "$1" everything --era legacy`, string(r), gatewaytest.Binary(t)}
}

func (r record) has(text string) bool {
	all, err := os.ReadFile(string(r))
	return err == nil && strings.Contains(string(all), text)
}

// TestS27_NothingGoesAroundTheRules makes every attempt at every kind of endpoint, over every transport.
func TestS27_NothingGoesAroundTheRules(t *testing.T) {
	t.Parallel() // with gateways of their own
	for _, p := range rulesets {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			got := record(filepath.Join(t.TempDir(), "received"))
			var marks sync.Map // those that must never reach the server, with what they are of
			g, audit, routes := served(t, p.rules, got)
			routes = append(routes, direct(t, p.rules, got)...)
			for base, prefix := range map[string]string{"/servers/one": "", "/groups/plain": "", "": "one_"} {
				t.Run("posts to "+base, func(t *testing.T) { post(t, g.Base+base, prefix, p.attempts, &marks) })
			}
			if _, status := g.Control("/status"); !strings.Contains(status, `"withoutId"`) {
				t.Errorf("the status does not count requests without an id: %s", status)
			}
			for _, way := range routes {
				t.Run(way.name+" "+way.era.String(), func(t *testing.T) { try(t, way, p.attempts, got, &marks) })
			}
			if !record(audit).has(`"rule":"request without an id"`) {
				t.Error("the audit log has no request without an id")
			}
			marks.Range(func(mark, of any) bool {
				if got.has(mark.(string)) {
					t.Errorf("the server has received %s", of)
				}
				return true
			})
		})
	}
}

// served starts serve, and returns the routes that lead to it.
func served(t *testing.T, rules []string, got record) (g *gatewaytest.Gateway, audit string, all []route) {
	t.Helper()
	command := got.server(t)
	dir, err := os.MkdirTemp("", "k") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket, audit := filepath.Join(dir, "s"), filepath.Join(dir, "audit")
	config := object{
		"servers": object{"one": object{"command": command[0], "args": command[1:], "tools": object{"exclude": []string{"slow"}}}},
		"groups":  object{"plain": object{"servers": []string{"one"}, "naming": "plain"}},
		"audit":   object{"file": audit},
	}
	if rules != nil {
		config["rules"] = rules
	}
	with, pipes := gatewaytest.Pipes(t)
	g = gatewaytest.Serve(t, &gatewaytest.Options{Config: config, Launch: with, Flags: []string{"--stdio", "--listen", "tcp:127.0.0.1:0", "--listen", "unix:" + socket}, Probe: "one"})
	g.Leave() // it ends with its standard input
	all = append(overHTTP("server", g.Base+"/servers/one", "", true), overHTTP("group", g.Base+"/groups/plain", "", false)...)
	all = append(all, overHTTP("aggregate", g.Base, "one_", false)...)
	for _, era := range gatewaytest.Eras {
		all = append(all, route{name: "aggregate, tcp socket", dialer: g.Lines(), era: era, prefix: "one_"},
			route{name: "aggregate, Unix socket", dialer: &stdio.Address{Network: "unix", Address: socket}, era: era, prefix: "one_"})
	}
	return g, audit, append(all, route{name: "aggregate, standard input", dialer: pipes, era: protocol.Legacy, prefix: "one_"})
}

// overHTTP returns the routes over HTTP to one endpoint.
func overHTTP(name, base, prefix string, own bool) (all []route) {
	for _, era := range gatewaytest.Eras {
		all = append(all, route{name: name + ", Streamable HTTP", dialer: &streamable.Client{URL: base + "/mcp", Timeout: -1}, era: era, prefix: prefix, own: own},
			route{name: name + ", WebSocket", dialer: &ws.Client{URL: strings.Replace(base, "http", "ws", 1) + "/ws"}, era: era, prefix: prefix, own: own})
	}
	return append(all, route{name: name + ", HTTP+SSE", dialer: &sse.Client{URL: base + "/sse"}, era: protocol.Legacy, prefix: prefix, own: own})
}

// direct starts run and connect, which have no rules, and returns the routes that lead to them.
func direct(t *testing.T, rules []string, got record) []route {
	t.Helper()
	if rules != nil {
		return nil
	}
	g := gatewaytest.Run(t, append([]string{"--"}, got.server(t)...)...)
	g.Leave()
	all := overHTTP("run", g.Base, "", true)
	server := builtin.New(&builtin.Options{Revisions: []protocol.Revision{protocol.LatestLegacy}})
	endpoint := &streamable.Server{Sessions: server}
	web := httptest.NewServer(got.before(endpoint))
	t.Cleanup(func() {
		_ = server.Close()
		_ = endpoint.Close()
		web.Close()
	})
	for _, era := range gatewaytest.Eras {
		all = append(all, route{name: "connect", dialer: &stdio.Command{Path: gatewaytest.Binary(t), Args: []string{"connect", web.URL}}, era: era, own: true})
	}
	for i := range all {
		all[i].whole = true
	}
	return all
}

// before records the bodies of requests.
func (r record) before(h http.Handler) http.Handler {
	var mu sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err == nil && len(body) > 0 {
			mu.Lock()
			defer mu.Unlock()
			err = r.add(body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		h.ServeHTTP(w, req)
	})
}

func (r record) add(text []byte) error {
	f, err := os.OpenFile(string(r), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	return errors.Join(err, f.Close())
}

var lastMark atomic.Int64

// try makes the attempts on a route.
func try(t *testing.T, way route, attempts []attempt, got record, marks *sync.Map) {
	t.Helper()
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	c, err := gatewaytest.Dial(ctx, way.dialer, "guest", way.era)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Conn.Close() })
	for _, a := range attempts {
		if a.hidden && way.whole || a.legacy && c.Modern() {
			continue
		}
		mark := fmt.Sprintf("mark-%d-", lastMark.Add(1))
		if !a.reaches {
			marks.Store(mark, a.name+" by "+way.name+", "+way.era.String())
		}
		resp := a.send(ctx, t, c, way, mark)
		if a.shows != "" && !strings.Contains(resp, strings.ReplaceAll(a.shows, "MARK", mark)) || a.hides != "" && strings.Contains(resp, a.hides) {
			t.Errorf("%s: the response is %s", a.name, resp)
		}
		if _, err := c.Tool(ctx, way.prefix+"echo", object{"text": "well"}); err != nil {
			t.Fatalf("after %s: %v", a.name, err)
		}
		if a.reaches && way.own && a.shows == "" {
			if err := gatewaytest.Until(gatewaytest.Patience, func() error {
				if !got.has(mark) {
					return errors.New("the server has not received it")
				}
				return nil
			}); err != nil {
				t.Errorf("%s: %v", a.name, err)
			}
		}
	}
}

// send makes an attempt, and returns the response as text.
func (a *attempt) send(ctx context.Context, t *testing.T, c *gatewaytest.Client, way route, mark string) string {
	t.Helper()
	id := `"id":1,`
	if a.noID {
		id = ""
	}
	params := strings.NewReplacer("MARK", mark, "TOOL", way.prefix).Replace(a.params)
	m, err := dragoman.Parse(fmt.Appendf(nil, `{"jsonrpc":"2.0",%s"method":%s,"params":%s}`, id, dragoman.Quote(a.method), params))
	if err == nil && c.Modern() {
		m, err = protocol.Envelope{Version: c.Revision.String()}.Put(m)
	}
	if err != nil {
		t.Fatal(err)
	}
	if a.noID {
		if err := c.Conn.Notify(ctx, m); err != nil {
			return err.Error() // some transports are told that it is refused
		}
		return ""
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := c.Conn.Call(ctx, m, dragoman.Funcs{OnNotify: func(_ context.Context, note *dragoman.Message) error {
		if note.Method() == protocol.NoteAcknowledged {
			cancel() // the subscription would not end
		}
		return nil
	}})
	if err != nil {
		return err.Error()
	}
	return resp.String()
}

// post makes the attempts without an id by single requests over HTTP: in a batch, over HTTP+SSE without a session, and
// as a plain call. All are refused by status 400.
func post(t *testing.T, base, prefix string, attempts []attempt, marks *sync.Map) {
	t.Helper()
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	send := func(path string, header http.Header, body string) *http.Response {
		t.Helper()
		resp, err := gatewaytest.Post(ctx, base+path, header, body)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp
	}
	hello := send("/mcp", nil, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	session := http.Header{protocol.HeaderSession: hello.Header[protocol.HeaderSession]}
	if hello.StatusCode != http.StatusOK || len(session[protocol.HeaderSession]) != 1 {
		t.Fatalf("initialize: %s", hello.Status)
	}
	for _, a := range attempts {
		if !a.noID || a.reaches {
			continue
		}
		for way, to := range map[string]struct {
			path   string
			header http.Header
			body   string
		}{
			"a batch":                    {"/mcp", session, `[%s,{"jsonrpc":"2.0","id":2,"method":"ping"}]`},
			"Streamable HTTP":            {"/mcp", session, "%s"},
			"HTTP+SSE without a session": {"/messages", nil, "%s"},
			"plain HTTP":                 {"/call", http.Header{"Accept": {"application/json"}}, "%s"},
		} {
			mark := fmt.Sprintf("mark-%d-", lastMark.Add(1))
			marks.Store(mark, a.name+" by "+way+" at "+base)
			params := strings.NewReplacer("MARK", mark, "TOOL", prefix).Replace(a.params)
			body := fmt.Sprintf(to.body, fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, a.method, params))
			if resp := send(to.path, to.header, body); resp.StatusCode != http.StatusBadRequest {
				t.Errorf("%s by %s: %s", a.name, way, resp.Status)
			}
		}
	}
}
