package adapt_test

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
)

const envelopeOfClient = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"info"`

func TestRequest(t *testing.T) {
	t.Parallel()
	const envelope = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}}`
	for _, c := range []row{
		{"B-3 a modern server gets the envelope", v4, v5, "tools/call", `{"name":"x","arguments":{"n":12345678901234567890}}`,
			`{"_meta":{` + envelope + `},"name":"x","arguments":{"n":12345678901234567890}}`},
		{"B-3 the token stays", v1, v5, "tools/list", `{"_meta":{"progressToken":1.0,"x/y":[1, 2]}}`,
			`{"_meta":{` + envelope + `,"progressToken":1.0,"x/y":[1, 2]}}`},
		{"a null _meta gives way", v3, v5, "tools/list", `{"_meta":null}`, `{"_meta":{` + envelope + `}}`},
		{"a task is dropped", v4, v5, "tools/call", `{"name":"x","task":{"ttl":1}}`, `{"_meta":{` + envelope + `},"name":"x"}`},
		{"a task with an escaped name is dropped", v4, v3, "tools/call", `{"name":"x","t\u0061sk":{"ttl":1}}`, `{"name":"x"}`},
		{"a task of another method is not ours", v4, v5, "x/run", `{"task":1}`, `{"_meta":{` + envelope + `},"task":1}`},
		{"B-3 a legacy server gets none", v5, v4, "tools/call",
			`{"name":"x","_meta":{"traceparent":"00-1","progressToken":"p",` + envelopeOfClient + `,"x/y":1},"inputResponses":{"a":{}},"requestState":"s","arguments":{ "a" : 1e400 }}`,
			`{"name":"x","_meta":{"traceparent":"00-1","progressToken":"p","x/y":1},"arguments":{ "a" : 1e400 }}`},
		{"B-3 also the oldest", v5, v1, "resources/read", `{"uri":"u","_meta":{` + envelopeOfClient + `}}`, `{"uri":"u","_meta":{}}`},
		{"3.4 completion context is ignored by servers", v4, v1, "completion/complete", `{"ref":{},"context":{"arguments":{}}}`, ``},
		{"a legacy server of another revision", v1, v4, "tools/call", `{"name":"x"}`, ``},
		{"a task for a server without", v4, v2, "tools/call", `{"task":{},"name":"x"}`, `{"name":"x"}`},
		{"the same revision", v4, v4, "tools/call", `{"task":{},"name":"x"}`, ``},
		{"the same modern revision", v5, v5, "tools/call", `{"name":"x","requestState":"s"}`, ``},
	} {
		env := &protocol.Envelope{Version: v5.String(), Capabilities: []byte(`{"roots":{}}`)}
		req := request(t, c.method, c.in)
		got, err := route(c.client, c.server).Request(req, env)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		c.expect(t, req, got, got.Params(), nil)
		again, err := route(c.client, c.server).Request(got, env)
		if err != nil || again.String() != got.String() {
			t.Errorf("%s: twice is %s, %v", c.name, again, err)
		}
	}
}

func TestRequestWithoutParamsGetsAnEnvelope(t *testing.T) {
	t.Parallel()
	req := parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	info := []byte(`{"name":"c","version":"1"}`)
	got, err := route(v4, v5).Request(req, &protocol.Envelope{Version: v5.String(), Client: info, LogLevel: []byte(`"info"`)})
	if err != nil {
		t.Fatal(err)
	}
	env, err := protocol.ReadEnvelope(got)
	if err != nil || env.Version != v5.String() || string(env.Capabilities) != "{}" || string(env.Client) != string(info) || string(env.LogLevel) != `"info"` {
		t.Errorf("%s: %v", got, err)
	}
}

func TestRequestForAModernServerNeedsAnEnvelope(t *testing.T) {
	t.Parallel()
	_, err := route(v4, v5).Request(request(t, "tools/list", `{}`), nil)
	if err == nil || !strings.Contains(err.Error(), "needs an envelope") {
		t.Errorf("got %v", err)
	}
}
