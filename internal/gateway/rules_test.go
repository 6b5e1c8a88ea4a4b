package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/access/auth"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// ruled starts a gateway with two servers, one of each era, a group of the second, and
// rules. It returns the tokens of anna, who is in the group admins, and of bob.
func ruled(t *testing.T, rules ...string) (g *guarded, anna, bob string) {
	t.Helper()
	g = &guarded{tokens: filepath.Join(t.TempDir(), "tokens.json")}
	add := func(name string, groups ...string) string {
		secret, hash := auth.NewSecret()
		if err := auth.AddToken(t.Context(), g.tokens, &auth.Token{Name: name, Hash: hash, Groups: groups}); err != nil {
			t.Fatal(err)
		}
		return secret
	}
	anna, bob = add("anna", "admins"), add("bob")
	text := fmt.Sprintf("auth: {tokenFile: %q}\nservers:\n  a: {url: %q}\n  b: {url: %q}\ngroups: {second: [b]}\nrules:\n",
		g.tokens, startBuiltin(t, protocol.LatestLegacy), startBuiltin(t, protocol.Latest))
	for _, r := range rules {
		text += fmt.Sprintf("  - %q\n", r)
	}
	g.running = begin(t, text)
	g.ready()
	return g, anna, bob
}

// everyEndpoint is where two callers look, and what they call it.
var everyEndpoint = []struct {
	path, transport, prefix string
	era                     protocol.Era
}{
	{"/mcp", "http-only", "a_", protocol.Legacy},
	{"/mcp", "http-only", "a_", protocol.Modern},
	{"/servers/a/mcp", "http-only", "", protocol.Legacy},
	{"/servers/a/mcp", "http-only", "", protocol.Modern},
	{"/servers/a/sse", "sse-only", "", protocol.Legacy},
	{"/servers/a/ws", "ws", "", protocol.Legacy},
	{"/servers/a/ws", "ws", "", protocol.Modern},
}

func TestWhatIsNotAllowedDoesNotExist(t *testing.T) {
	g, anna, bob := ruled(t, "allow group:admins", "allow token:bob tools echo, add on a", "deny token:bob tools add")
	for _, d := range everyEndpoint {
		name := d.path + " " + d.era.String()
		full, err := g.connect(t, d.path, d.transport, anna, d.era)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if names := toolNames(t, full); len(names) < 5 || !slices.Contains(names, d.prefix+"add") {
			t.Errorf("%s: anna sees %v", name, names)
		}
		c, err := g.connect(t, d.path, d.transport, bob, d.era)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if names := toolNames(t, c); !slices.Equal(names, []string{d.prefix + "echo"}) {
			t.Errorf("%s: bob sees %v", name, names)
		}
		echo(t, c, d.prefix+"echo")
		denied, missing := refusalOf(t, c, d.prefix+"add"), refusalOf(t, c, d.prefix+"ad_")
		if strings.ReplaceAll(denied, "add", "?") != strings.ReplaceAll(missing, "ad_", "?") {
			t.Errorf("%s: what is denied: %s; what is not there: %s", name, denied, missing)
		}
		if list, err := c.Prompts(within(t)); err == nil && len(list) > 0 {
			t.Errorf("%s: bob sees prompts %v", name, list)
		}
		if list, err := c.Resources(within(t)); err == nil && len(list) > 0 {
			t.Errorf("%s: bob sees resources %v", name, list)
		}
	}
}

// refusalOf returns why a tool is not called.
func refusalOf(t *testing.T, c *client.Client, tool string) string {
	t.Helper()
	r, err := c.CallTool(within(t), tool, map[string]int{"a": 1, "b": 2}, nil)
	if err != nil {
		return err.Error()
	}
	if !r.IsError {
		t.Errorf("%s was called: %s", tool, r.Text())
	}
	return r.Text()
}

func TestS27_ServerWithNothingForACallerDoesNotExist(t *testing.T) {
	g, anna, bob := ruled(t, "allow group:admins", "allow token:bob on a")
	for _, path := range []string{"/servers/b/mcp", "/servers/b/sse", "/servers/b/ws", "/servers/b/call", "/groups/second/mcp", "/servers/none/mcp"} {
		var texts []string
		for _, who := range []string{bob, anna} {
			resp := g.do(t, http.MethodPut, path, "Bearer "+who, "")
			text, _ := io.ReadAll(resp.Body)
			texts = append(texts, resp.Status+string(text))
		}
		unknown := g.do(t, http.MethodPut, "/servers/nobody/mcp", "Bearer "+bob, "")
		text, _ := io.ReadAll(unknown.Body)
		if texts[0] != unknown.Status+string(text) {
			t.Errorf("%s is told to bob: %s", path, texts[0])
		}
		if path != "/servers/none/mcp" && texts[1] == texts[0] {
			t.Errorf("%s is not there for anna: %s", path, texts[1])
		}
	}
	for who, want := range map[string]bool{bob: false, anna: true} {
		resp := g.do(t, http.MethodGet, "/status", "Bearer "+who, "")
		text, _ := io.ReadAll(resp.Body)
		if strings.Contains(string(text), `"name": "b"`) != want || strings.Contains(string(text), "second") != want {
			t.Errorf("the status shows b or its group: %s", text)
		}
	}
	for _, era := range eras {
		c, err := g.connect(t, "/mcp", "http-only", bob, era)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range toolNames(t, c) {
			if strings.HasPrefix(name, "b_") {
				t.Errorf("%s era: bob sees %s", era, name)
			}
		}
		if why := refusalOf(t, c, "b_echo"); !strings.Contains(why, "nknown tool") {
			t.Errorf("%s era: %s", era, why)
		}
	}
}

func TestRulesAskForTheHintsOfTools(t *testing.T) {
	g, _, bob := ruled(t, "allow anyone if read-only")
	for _, d := range everyEndpoint {
		c, err := g.connect(t, d.path, d.transport, bob, d.era)
		if err != nil {
			t.Fatal(err)
		}
		list, err := c.Tools(within(t))
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			t.Fatalf("%s: nothing is read-only", d.path)
		}
		for _, tool := range list {
			if !strings.Contains(string(tool.Annotations), `"readOnlyHint":true`) {
				t.Errorf("%s: %s is offered: %s", d.path, tool.Name, tool.Annotations)
			}
		}
	}
}

func TestS27_ScopeThatIsLackingIsAskedFor(t *testing.T) {
	g, _, bob := ruled(t, "allow anyone tools echo with talk")
	secret, hash := auth.NewSecret()
	if err := auth.AddToken(t.Context(), g.tokens, &auth.Token{Name: "talker", Hash: hash, Scopes: []string{"talk"}}); err != nil {
		t.Fatal(err)
	}
	g.reload(t)
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"},"_meta":{"` +
		protocol.MetaProtocolVersion + `":"` + protocol.Latest.String() + `","` + protocol.MetaClientCapabilities + `":{}}}}`
	for _, test := range []struct {
		token  string
		status int
	}{{bob, http.StatusForbidden}, {secret, http.StatusOK}} {
		req, err := http.NewRequestWithContext(within(t), http.MethodPost, g.url+"/servers/a/mcp", strings.NewReader(call))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + test.token,
			protocol.HeaderVersion: protocol.Latest.String(), protocol.HeaderMethod: protocol.MethodCallTool, protocol.HeaderName: "echo",
		} {
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		challenge := resp.Header.Get("WWW-Authenticate")
		if resp.StatusCode != test.status || (test.status == http.StatusForbidden) != strings.Contains(challenge, `error="insufficient_scope"`) {
			t.Errorf("a call: %s, %s, %s", resp.Status, challenge, text)
		}
		if test.status == http.StatusForbidden && (!strings.Contains(challenge, `scope="talk"`) || !strings.Contains(string(text), `"scope":"talk"`)) {
			t.Errorf("the scope is not named: %s, %s", challenge, text)
		}
		if req, err = http.NewRequestWithContext(within(t), http.MethodPost, g.url+"/servers/a/call/echo", strings.NewReader(`{"text":"hello"}`)); err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}, "Authorization": {"Bearer " + test.token}}
		if resp, err = http.DefaultClient.Do(req); err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != test.status {
			t.Errorf("a plain call: %s", resp.Status)
		}
	}
}

func TestRulesThatChangeAreAnnouncedAndHold(t *testing.T) {
	g, _, bob := ruled(t, "allow anyone tools echo")
	changed := make(chan struct{}, 8)
	era := protocol.Legacy
	c, err := client.Connect(within(t), &client.Server{
		URL: g.url + "/servers/a/mcp", Transport: "http-only", Header: http.Header{"Authorization": {"Bearer " + bob}},
	}, &client.Options{Name: "guest", Version: "1", Era: &era, OnNotification: func(note *dragoman.Message) {
		if note.Method() == protocol.NoteToolsChanged {
			changed <- struct{}{}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	echo(t, c, "echo")
	file, _ := g.load()
	g.write(fmt.Sprintf("auth: {tokenFile: %q}\nservers:\n  a: {url: %q}\nrules: deny anyone\n", g.tokens, file.Servers["a"].URL))
	g.reload(t)
	select {
	case <-changed:
	case <-within(t).Done():
		t.Error("nobody was told")
	}
	if _, err := c.CallTool(within(t), "echo", map[string]string{"text": "x"}, nil); err == nil {
		t.Error("a call that is not allowed any more is answered")
	}
}

func TestNearNamesAreAmongWhatTheCallerMaySee(t *testing.T) {
	g, anna, bob := ruled(t, "allow group:admins", "allow token:bob tools echo on a")
	for _, d := range everyEndpoint {
		name := d.path + " " + d.transport + " " + d.era.String()
		for _, test := range []struct{ token, tool, want string }{
			{anna, "ecko", `did you mean "` + d.prefix + `echo"?`},
			{anna, "ad", `did you mean "` + d.prefix + `add"?`},
			{bob, "ecko", `did you mean "` + d.prefix + `echo"?`},
			{bob, "ad", ""},
		} {
			c, err := g.connect(t, d.path, d.transport, test.token, d.era)
			if err != nil {
				t.Fatal(name, err)
			}
			if _, err := c.Tools(within(t)); err != nil {
				t.Fatal(name, err)
			}
			_, err = c.CallTool(within(t), d.prefix+test.tool, nil, nil)
			text := fmt.Sprint(err)
			if err == nil || !strings.Contains(strings.ToLower(text), "unknown tool") || !strings.Contains(text, test.want) || test.want == "" && strings.Contains(text, "mean") {
				t.Errorf("%s: %s: %v, want %s", name, test.tool, err, test.want)
			}
		}
	}
	for _, test := range []struct{ token, method, path, want string }{
		{anna, "POST", "/servers/a/call/ecko", `did you mean \"echo\"?`},
		{bob, "POST", "/servers/a/call/ecko", `did you mean \"echo\"?`},
		{bob, "POST", "/servers/a/call/ad", "unknown tool: ad; the list"},
		{anna, "GET", "/servers/B/mcp", `there is no server of that name; did you mean "b"? GET`},
		{bob, "GET", "/servers/B/mcp", "there is no server of that name; GET"},
		{bob, "GET", "/servers/A/mcp", `did you mean "a"?`},
	} {
		resp := g.do(t, test.method, test.path, "Bearer "+test.token, "{}")
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusNotFound || !strings.Contains(string(body), test.want) {
			t.Errorf("%s %s: %d, %s (%v), want %s", test.method, test.path, resp.StatusCode, body, err, test.want)
		}
	}
}
