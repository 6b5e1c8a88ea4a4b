package checklist

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/toolhttp"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

func requestsAreChecked(t *testing.T) {
	samples := []sample{
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}`, true},
		{`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"test_simple_text"}}`, true},
		{`{"jsonrpc":"1.0","id":1,"method":"tools/call","params":{"name":"test_simple_text"}}`, false},
		{`{"id":1,"method":"tools/call","params":{"name":"test_simple_text"}}`, false},
		{`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"test_simple_text"}}`, false},
		{`{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"test_simple_text"}}`, false},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"name":"test_simple_text"}}`, false},
		{`{"jsonrpc":"2.0","id":1,"params":{"name":"test_simple_text"}}`, false},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, false},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`, false},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}`, false},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":""}}`, false},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"reflect","arguments":[1]}}`, false},
	}
	agree(t, toolRequestSchema, protocol.CheckToolRequest, samples)
	url := serveTools(t, builtIn())
	for _, s := range samples {
		a := post(t, url, s.text)
		switch {
		case s.good && (a.status != http.StatusOK || !fits(toolResponseSchema, a.body)):
			t.Errorf("%s is answered by %d %s", s.text, a.status, a.body)
		case !s.good && (a.status != http.StatusBadRequest || !fits(toolErrorSchema, a.body)):
			t.Errorf("%s is answered by %d %s, want 400 and a tool error", s.text, a.status, a.body)
		}
	}

	// Whatever a caller looks like, the server behind gets a tool request.
	got := make(chan string, 1)
	recorder := dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() == protocol.MethodCallTool {
			got <- req.String()
		}
		return req.Reply(json.RawMessage(`{"content":[{"type":"text","text":""}],"tools":[{"name":"t"}]}`))
	}}
	url = serveTools(t, recorder)
	ask(t, dial(t, &toolhttp.Client{URL: url}), request(t, `1`, "t", `{"a":1}`))
	wantFit(t, toolRequestSchema, wait(t, got, "the request over HTTP"))
	post(t, url+"/t", `{"a":1}`)
	wantFit(t, toolRequestSchema, wait(t, got, "the request made of arguments"))
	s := &ws.Server{Requests: recorder}
	ask(t, dial(t, &ws.Client{URL: serve(t, s, s.Shutdown), Tools: true}), request(t, `1`, "t", `{"a":1}`))
	wantFit(t, toolRequestSchema, wait(t, got, "the request made of a tool frame"))
}

// results are results as a server may give them, good and bad.
func results() []sample {
	return []sample{
		{`{"content":[{"type":"text","text":"x"}],"structuredContent":{"a":1},"_meta":{"m":1},"isError":true}`, true},
		{`{"content":[]}`, false},
		{`{}`, false},
		{`{"content":"x"}`, false},
		{`{"content":["x"]}`, false},
		{`{"content":[{"text":"x"}]}`, false},
		{`{"content":[{"type":"text","text":"x"}],"isError":"no"}`, false},
		{`[]`, false},
	}
}

// answering answers every call by the result that its argument holds.
var answering = dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	if req.Method() == protocol.MethodListTools {
		return req.Reply(json.RawMessage(`{"tools":[{"name":"t"}]}`))
	}
	var args struct{ Result json.RawMessage }
	if err := json.Unmarshal(req.Get("arguments"), &args); err != nil {
		return nil, err
	}
	return req.Reply(args.Result)
}}

func responsesAreChecked(t *testing.T) {
	for _, road := range transports() {
		conn := road.dial(t, nil, nil)
		for tool, args := range map[string]string{
			"echo": `{"text":"x"}`, "reflect": `{"a":[1]}`, "test_multiple_content_types": `{}`, "test_error_handling": `{}`, "links": `{}`,
		} {
			wantFit(t, toolResponseSchema, ask(t, conn, request(t, `1`, tool, args)).String())
		}
		resp := ask(t, conn, request(t, `2`, "add", `{"a":1,"b":2}`))
		wantText(t, resp, `2`, `{"sum":3}`)
		if got := string(resp.Get("structuredContent")); got != `{"sum":3}` {
			t.Errorf("%s: the structured content is %s", road.name, got)
		}
	}

	var samples []sample
	for _, r := range results() {
		samples = append(samples, sample{`{"jsonrpc":"2.0","id":1,"result":` + r.text + `}`, r.good})
	}
	agree(t, toolResponseSchema, protocol.CheckToolResponse, samples)
	// No server and no client of ours passes on what is none: it becomes one, or
	// an error.
	url := serveTools(t, answering)
	s := &ws.Server{Requests: answering}
	frames := dial(t, &ws.Client{URL: serve(t, s, s.Shutdown), Tools: true})
	for i, r := range results() {
		checked := map[string]string{
			"the HTTP server":      post(t, url, request(t, `1`, "t", `{"result":`+r.text+`}`).String()).body,
			"the WebSocket server": ask(t, frames, request(t, `1`, "t", `{"result":`+r.text+`}`)).String(),
			"the HTTP client":      ask(t, dial(t, &toolhttp.Client{URL: scripted(t, http.StatusOK, jsonType, samples[i].text)}), request(t, `1`, "t", `{}`)).String(),
		}
		for who, text := range checked {
			if r.good && text != samples[i].text || !fits(toolResponseSchema, text) && !fits(toolErrorSchema, text) {
				t.Errorf("%s makes %s of the result %s", who, text, r.text)
			}
		}
	}
}

func errorsCanBeActedOn(t *testing.T) {
	agree(t, toolErrorSchema, protocol.CheckToolError, []sample{
		{`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"unknown tool: x"}}`, true},
		{`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not JSON","data":{"a":1}}}`, true},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":"-32602","message":"x"}}`, false},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"x"}}`, false},
		{`{"jsonrpc":"2.0","id":1,"error":{"message":"x"}}`, false},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":1}}`, false},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":" "}}`, false},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":{}}}`, false},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, false},
	})
	for _, road := range transports() {
		conn := road.dial(t, nil, nil)
		wantError(t, ask(t, conn, request(t, `1`, "no_such", `{}`)), protocol.CodeInvalidParams, "unknown tool", "no_such", "list")
		wantError(t, ask(t, conn, parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+envelope+`}}`)),
			protocol.CodeInvalidParams, "params.name is missing", "must name the tool")
		resp := ask(t, conn, request(t, `1`, "raise", `{"code":4711,"message":"out of paper; fill tray 2","reason":"tray"}`))
		wantError(t, resp, 4711, "out of paper; fill tray 2")
		if got := string(resp.RPCError().Data); got != `{"reason":"tray"}` {
			t.Errorf("%s: the data of the error are %s", road.name, got)
		}
		// Arguments that do not fit are told to a person or to a model; either way
		// the answer names the one at fault.
		if resp = ask(t, conn, request(t, `1`, "echo", `{}`)); !strings.Contains(resp.String(), `text`) ||
			!resp.IsError() && string(resp.Get("isError")) != "true" {
			t.Errorf("%s: a call without its argument is answered by %s", road.name, resp)
		}
	}
	// A server whose errors say nothing does not get away with it.
	conn := dial(t, &toolhttp.Client{URL: scripted(t, http.StatusInternalServerError, jsonType, `{"jsonrpc":"2.0","id":1,"error":{"code":"E","message":""}}`)})
	wantFit(t, toolErrorSchema, ask(t, conn, request(t, `1`, "t", `{}`)).String())
}

// ids are ids of every kind.
var ids = []string{`0`, `-7`, `7`, `"7"`, `9007199254740993`, `123456789012345678901234567890`, `"a\u0062 \"é"`, `""`}

func responsesCarryTheID(t *testing.T) {
	for _, road := range transports() {
		conn := road.dial(t, nil, nil)
		var replies []<-chan reply
		for _, id := range ids { // all at once
			replies = append(replies, begin(t, conn, request(t, id, "echo", `{"text":`+quote(id)+`}`), nil))
		}
		for i, id := range ids {
			r := wait(t, replies[i], "the answer to "+id)
			if r.err != nil {
				t.Fatalf("%s: the call with the id %s: %v", road.name, id, r.err)
			}
			wantText(t, r.resp, id, id)
		}
	}

	// And on the wire, where no client has changed them.
	url := serveTools(t, builtIn())
	server := launch(t, "everything")
	s := &ws.Server{Requests: builtIn()}
	socket := openSocket(t, serve(t, s, s.Shutdown))
	for _, id := range ids {
		req := request(t, id, "echo", `{"text":`+quote(id)+`}`)
		wantText(t, parse(t, post(t, url, req.String()).body), id, id)
		server.write(req.String() + "\n")
		wantText(t, parse(t, server.line()), id, id)
		socket.say(`{"id":` + id + `,"name":"echo","arguments":{"text":` + quote(id) + `}}`)
		wantText(t, parse(t, socket.expect()), id, id)
		// A refused request is answered under its id too.
		bad := `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":7,` + envelope + `}}`
		server.write(bad + "\n")
		socket.say(`{"id":` + id + `,"name":7}`)
		for _, text := range []string{post(t, url, bad).body, server.line(), socket.expect()} {
			m := parse(t, text)
			if wantError(t, m, protocol.CodeInvalidParams); m.ID().String() != id {
				t.Errorf("the request %s is refused under the id %s", id, m.ID())
			}
		}
	}
}

func secretsAreNotLogged(t *testing.T) {
	const (
		secret  = "hunter2-hunter2"
		bearing = "Bearer abcdef0123456789"
	)
	args := `{"api_key":"` + secret + `","nested":{"password":"` + secret + `"},"note":"harmless"}`
	for _, road := range transports() {
		var log journal
		conn := road.dial(t, log.logger(), http.Header{"Authorization": {bearing}})
		resp := ask(t, conn, request(t, `1`, "reflect", args))
		if !strings.Contains(resp.String(), secret) {
			t.Fatalf("%s: the call itself lost the secret: %s", road.name, resp)
		}
		wantError(t, ask(t, conn, request(t, `1`, "raise", `{"code":1,"message":"`+bearing+` is refused"}`)), 1, bearing)
		_ = conn.Close()
		text := log.String()
		if strings.Contains(text, secret) || strings.Contains(text, strings.TrimPrefix(bearing, "Bearer ")) {
			t.Errorf("%s: a secret was logged: %s", road.name, text)
		}
		// Only stdio logs frames whole, on either end.
		if road.name == "stdio" && (strings.Count(text, "harmless") < 2 || !strings.Contains(text, "[redacted]")) {
			t.Errorf("%s: the frames are not in the log, or without what is harmless: %s", road.name, text)
		}
	}

	// What cannot be read is logged for an audit, without its secrets.
	broken := `{"note":"harmless","password":"` + secret + `","x":`
	server := launch(t, "everything")
	server.write(broken + "\n")
	wantError(t, parse(t, server.line()), protocol.CodeParse)
	if _, err := server.end(); err != nil {
		t.Fatal(err)
	}
	var log journal
	s := &ws.Server{Acceptor: dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) { return answering, nil }), Logger: log.logger()}
	socket := openSocket(t, serve(t, s, s.Shutdown), "Sec-WebSocket-Protocol: mcp")
	socket.say(broken)
	wantError(t, parse(t, socket.expect()), protocol.CodeParse)
	for who, text := range map[string]string{"stdio": server.diagnostics.String(), "WebSocket": log.String()} {
		if strings.Contains(text, secret) || !strings.Contains(text, "harmless") || !strings.Contains(text, "[redacted]") {
			t.Errorf("%s: what could not be read was logged so: %s", who, text)
		}
	}
}
