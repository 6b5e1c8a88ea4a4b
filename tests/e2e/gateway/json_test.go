//go:build unix

package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// notJSON are values that parsers take for JSON, by the mistakes that parsers make.
var notJSON = []string{
	`01`, `-`, `-01`, `+1`, `.5`, `5.`, `1.e1`, `1e`, `1e+`, `1eE2`, `0x1`, `1_000`, `1a`, `1 000`, `NaN`, `Infinity`, `-Infinity`, `-foo`, `１`,
	`tru`, `True`, `nul`, `falsee`, `undefined`,
	`"`, `"a`, `'a'`, `a`, `"\a"`, `"\x41"`, `"\u12"`, `"\u{41}"`, `"\U0041"`, `"\"`, "\"a\x00b\"", "\"a\tb\"", "\"a\nb\"", "\"\x1f\"", `"\u00zz"`, `\"`, `“a”`,
	"\"\xff\xfe\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xe2\x82\"", "\xff", "\"\x80\"",
	`[1,]`, `[,1]`, `[1,,2]`, `[1 2]`, `[1:2]`, `[1`, `[`, `]`, `[1}`, `[1]]`, `[*]`, `["",`, `[1,`, "[\f]", "[\v]", "[\u00a0]", `[<null>]`, `[[]`,
	`{`, `}`, `{"a":1,}`, `{,}`, `{"a" 1}`, `{"a"::1}`, `{"a",1}`, `{"a":}`, `{:1}`, `{"a"}`, `{a:1}`, `{'a':1}`, `{1:1}`, `{null:1}`, `{"a":1]`, `{"a":1`,
	`{"a":`, `{"a":1}}`, `{"a":1 "b":2}`, `{"a":1,,"b":2}`, `{"\q":1}`, "{\"\xff\":1}", `{"a":"b"}#`, `{"a":1}x`, `{{}}`, `{[1]:1}`,
	`1 // one`, `/* one */ 1`, "\ufeff1", "\x001", `1;`, `…`, `<null>`, `1 1`, `{}{}`, `[][]`, "\u20281",
}

// noMessage are values of JSON that are no messages.
var noMessage = []string{
	`0`, `-0`, `1e400`, `-1e-99999`, `12345678901234567890`, `true`, `null`, `""`, `"\"\\\/\b\f\n\r\t"`, `"\ud83d\ude00"`, `"\ud83d"`, `"a\u0000b"`, "\"\u2028\"", "\"\x7f\"",
	`[]`, `[[]]`, `[null,1,"1",{}]`, "[ \t\r\n]", `{}`, `{"":1}`, `{"\u0061\n":1}`, `{"a":{"b":{"c":{}}}}`, `{"name":1,"Name":2}`,
}

// envelopes returns texts that hold a value.
func envelopes(value string) []string {
	return []string{value, `{"a":` + value + `}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{"x":` + value + `}}}`}
}

// A refusal is what a request that was refused got.
type refusal struct {
	status int
	code   int
	id     string // as text; "" if there is none
	data   json.RawMessage
	body   string
}

// refusalOf reads the answer to a request.
func refusalOf(t *testing.T, resp *http.Response) refusal {
	t.Helper()
	r := errorOf(read(t, resp))
	r.status = resp.StatusCode
	return r
}

// errorOf reads an error response. Its code is zero if it is none.
func errorOf(text string) (r refusal) {
	var body struct {
		ID    json.RawMessage `json:"id"`
		Error struct {
			Code int             `json:"code"`
			Data json.RawMessage `json:"data"`
		} `json:"error"`
	}
	_ = json.Unmarshal([]byte(text), &body) // then the code is zero
	return refusal{code: body.Error.Code, id: string(body.ID), data: body.Error.Data, body: text}
}

// raw opens a connection to where a gateway takes lines.
func raw(t *testing.T, g *gatewaytest.Gateway) (net.Conn, *bufio.Reader) {
	t.Helper()
	found := regexp.MustCompile(`tcp:(127\.0\.0\.1:\d+) \(lines\)`).FindStringSubmatch(g.Await("ready: "))
	if found == nil {
		t.Fatalf("it takes no lines:\n%s", g.Stderr())
	}
	c, err := net.DialTimeout("tcp", found[1], gatewaytest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(2 * gatewaytest.Patience))
	return c, bufio.NewReader(c)
}

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"%s","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`

// helloText is initialize.
func helloText() string { return fmt.Sprintf(hello, protocol.LatestLegacy) }

// everyEndpoint starts a gateway with HTTP, WebSocket and lines.
func everyEndpoint(t *testing.T, j fault.Journal) *gatewaytest.Gateway {
	t.Helper()
	return gatewaytest.Run(t, append([]string{"--listen", "tcp:127.0.0.1:0"}, runArguments(t, child(t, fault.Legacy, j))...)...)
}

// TestS01_WhatIsNotJSONIsRefusedAtEveryEndpoint sends what is no JSON, and what is JSON and no
// message, as a body, as a text of a WebSocket and as a line.
func TestS01_WhatIsNotJSONIsRefusedAtEveryEndpoint(t *testing.T) {
	t.Parallel() // with a gateway of its own
	g := everyEndpoint(t, newJournal(t))
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	v := openSession(ctx, t, g, "")
	socket, _ := g.Upgrade("/ws")
	if got := socket.Ask(t, helloText()); !strings.Contains(got, "protocolVersion") {
		t.Fatalf("initialize by WebSocket: %s", got)
	}
	lines, in := raw(t, g)
	line := func(text string) string {
		t.Helper()
		if _, err := io.WriteString(lines, text+"\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("no answer to the line %.200q: %v", text, err)
		}
		return answer
	}
	if got := line(helloText()); !strings.Contains(got, "protocolVersion") {
		t.Fatalf("initialize by a line: %s", got)
	}
	began := time.Now()
	check := func(text string, code int) {
		t.Helper()
		if r := refusalOf(t, v.post(ctx, text)); r.status != http.StatusBadRequest || r.code != code {
			t.Errorf("POST of %.200q: %d %s, want 400 and %d", text, r.status, r.body, code)
		}
		if strings.TrimSpace(text) == "" {
			return // lines that hold nothing are no messages
		}
		if r := errorOf(socket.Ask(t, text)); r.code != code {
			t.Errorf("%.200q by WebSocket: %s, want %d", text, r.body, code)
		}
		if strings.Contains(text, "\n") {
			return // two lines
		}
		if r := errorOf(line(text)); r.code != code {
			t.Errorf("the line %.200q: %s, want %d", text, r.body, code)
		}
	}
	n := 0
	for _, value := range notJSON {
		for _, text := range envelopes(value) {
			if !isText(text) { // which a WebSocket must not carry
				if r := refusalOf(t, v.post(ctx, text)); r.status != http.StatusBadRequest || r.code != protocol.CodeParse {
					t.Errorf("POST of %.200q: %d %s", text, r.status, r.body)
				}
				continue
			}
			check(text, protocol.CodeParse)
			n++
		}
	}
	for _, value := range noMessage {
		check(value, protocol.CodeInvalidRequest)
		check(`{"a":`+value+`}`, protocol.CodeInvalidRequest)
		n++
	}
	if took := time.Since(began); gatewaytest.Exceeds(took, 5*time.Second) {
		t.Errorf("%d texts by three endpoints take %v", n, took)
	}
	const ping = `{"jsonrpc":"2.0","id":7,"method":"ping"}`
	for endpoint, got := range map[string]string{"POST": read(t, v.post(ctx, ping)), "WebSocket": socket.Ask(t, ping), "line": line(ping)} {
		if !strings.Contains(got, `"result"`) {
			t.Errorf("%s after all that: %s", endpoint, got)
		}
	}
}

// isText reports whether a WebSocket may carry it.
func isText(s string) bool { return strings.ToValidUTF8(s, "") == s }

// smuggled are requests in which another reader may see something else. All mean to call
// count with a key, whose place is %q.
var smuggled = []string{
	`{"jsonrpc":"2.0","id":1,"method":"tools/list","Method":"tools/call","params":{"name":"count","Name":"crash","arguments":{"key":%q}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call","params":{"name":"count","arguments":{"key":%q}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{},"params":{"name":"count","arguments":{"key":%q}}}`,
	`{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call","params":{"name":"count","arguments":{"key":%q}}}`,
	`{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{"key":%q}}}`,
	`{"jsonrpc":"2.0","id":1,"m\u0065thod":"tools/list","method":"tools/call","params":{"name":"count","arguments":{"key":%q}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","name":"count","arguments":{"key":%q}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{},"arguments":{"key":%q}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{"key":%q},"_meta":{"progressToken":1,"progressToken":2}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{"key":%q},"_meta":{},"_meta":{}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{"key":%q},"_meta":{"a":1,"\u0061":2}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{"key":%q}},"Params":{}}`,
	`{"jsonrpc":"2.0","id":1,"ID":2,"method":"tools/call","params":{"name":"count","arguments":{"key":%q}}}`,
	`{"jsonrpc":"2.0","JSONRPC":"1.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{"key":%q}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{"key":%q}},"Result":{}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{"key":%q}},"eRROR":{}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","NAME":"echo","arguments":{"key":%q}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","Uri":"x","arguments":{"key":%q}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","Arguments":{"key":%q}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","_Meta":{},"arguments":{"key":%q}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","paramſ":{"name":"count","arguments":{"key":%q}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","argument\u017f":{"key":%q}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","method\u0000":"x","params":{"name":"count","arguments":{"key":%q}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","name\u0000":"x","arguments":{"key":%q}}}`,
}

// TestS02_RequestsThatTwoReadersTakeForOthersAreNotCarriedOut sends requests with names
// that are there twice or in another case, at every endpoint and in both eras.
func TestS02_RequestsThatTwoReadersTakeForOthersAreNotCarriedOut(t *testing.T) {
	t.Parallel() // with a gateway of its own
	j := newJournal(t)
	g := everyEndpoint(t, j)
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	v := openSession(ctx, t, g, "")
	socket, _ := g.Upgrade("/ws")
	socket.Ask(t, helloText())
	modern, _ := modernText(t, protocol.MethodCallTool, 1, object{"name": "count"})
	for i, text := range smuggled {
		body := fmt.Sprintf(text, "smuggled")
		if r := refusalOf(t, v.post(ctx, body)); r.status != http.StatusBadRequest || r.code != protocol.CodeInvalidRequest {
			t.Errorf("%d, legacy: %s is answered with %d %s", i, body, r.status, r.body)
		}
		resp, err := gatewaytest.Post(ctx, g.URL("", "mcp"), modern, body)
		if err != nil {
			t.Fatal(err)
		}
		if r := refusalOf(t, resp); r.status != http.StatusBadRequest || r.code != protocol.CodeInvalidRequest {
			t.Errorf("%d, modern: %s is answered with %d %s", i, body, r.status, r.body)
		}
		if r := errorOf(socket.Ask(t, body)); r.code != protocol.CodeInvalidRequest {
			t.Errorf("%d, WebSocket: %s is answered with %s", i, body, r.body)
		}
	}
	// An argument that a header repeats decides something, and so it may be there once.
	other := start(t, "run", child(t, fault.Modern, newJournal(t)))
	header, _ := modernText(t, protocol.MethodCallTool, 1, object{"name": "test_x_mcp_header"})
	header.Set("Mcp-Param-Region", "eu")
	twice := strings.Replace(modernCall(t, "test_x_mcp_header", object{"region": "eu"}), `"region":"eu"`, `"region":"us","region":"eu"`, 1)
	resp, err := gatewaytest.Post(ctx, other.URL("", "mcp"), header, twice)
	if err != nil {
		t.Fatal(err)
	}
	if r := refusalOf(t, resp); r.status != http.StatusBadRequest || r.code != protocol.CodeInvalidRequest {
		t.Errorf("an argument that a header repeats, twice: %d %s", r.status, r.body)
	}
	if ran := j.Of(fault.Ran, ""); len(ran) > 0 {
		t.Errorf("what was refused was carried out: %v", ran)
	}
	// What is in arguments and decides nothing here passes.
	for i, arguments := range []string{
		`{"text":"hello","Text":"other","TEXT":1}`, `{"text":"hello","a":{"b":{"c":1,"c":2}}}`, `{"text":"hello","Name":1,"name":2,"method":3,"_meta":{"x":1,"x":2}}`,
	} {
		resp := v.post(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":%s}}`, i+10, arguments))
		if got := v.answer(resp, i+10); got != "hello" {
			t.Errorf("echo of %s: %s %q", arguments, resp.Status, got)
		}
	}
}

// modernCall returns a call of the modern era.
func modernCall(t *testing.T, tool string, arguments object) string {
	t.Helper()
	_, body := modernText(t, protocol.MethodCallTool, 1, object{"name": tool, "arguments": arguments})
	return body
}

// TestS03_EncodingsAreCheckedAndPassUnchanged sends bytes that are no UTF-8, half surrogate
// pairs and NULs.
func TestS03_EncodingsAreCheckedAndPassUnchanged(t *testing.T) {
	t.Parallel() // with a gateway of its own
	g := everyEndpoint(t, newJournal(t))
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	v := openSession(ctx, t, g, "")
	utf16 := func(s string) string {
		var b strings.Builder
		for i := range len(s) {
			b.WriteByte(s[i])
			b.WriteByte(0)
		}
		return b.String()
	}
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%s"}}}`
	for name, row := range map[string]struct {
		text string
		code int
	}{
		"bad bytes in the method":         {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\xff\xfe\"}", protocol.CodeParse},
		"bad bytes in arguments":          {fmt.Sprintf(call, "a\xff\xfe"), protocol.CodeParse},
		"UTF-16":                          {"\xff\xfe" + utf16(fmt.Sprintf(call, "a")), protocol.CodeParse},
		"UTF-16 without a mark":           {utf16(fmt.Sprintf(call, "a")), protocol.CodeParse},
		"byte order mark":                 {"\ufeff" + fmt.Sprintf(call, "a"), protocol.CodeParse},
		"half a pair in the method":       {`{"jsonrpc":"2.0","id":1,"method":"\ud800"}`, protocol.CodeInvalidRequest},
		"half a pair in the id":           {`{"jsonrpc":"2.0","id":"\udc00","method":"ping"}`, protocol.CodeInvalidRequest},
		"half a pair in the name":         {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\ud83d"}}`, protocol.CodeInvalidRequest},
		"half a pair in the URI":          {`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a\ud83d"}}`, protocol.CodeInvalidRequest},
		"half a pair the wrong way round": {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\ude00\ud83d"}}`, protocol.CodeInvalidRequest},
	} {
		if r := refusalOf(t, v.post(ctx, row.text)); r.status != http.StatusBadRequest || r.code != row.code {
			t.Errorf("%s: %d %s, want 400 and %d", name, r.status, r.body, row.code)
		}
	}
	for i, text := range []string{`a\u0000b`, `cut \ud83d`, `\ud83d\ude00`, "é€😀"} {
		body := read(t, v.post(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%s"}}}`, i+2, text)))
		var want, got string
		if err := json.Unmarshal([]byte(`"`+text+`"`), &want); err != nil {
			t.Fatal(err)
		}
		if got, _ = textOf(body, i+2); got != want {
			t.Errorf("echo of %s: %s", text, body)
		}
	}
}

// TestS04_BombsCostLittle sends requests that are deep, long and wide.
func TestS04_BombsCostLittle(t *testing.T) {
	const most = 4 << 20
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"limits": object{"message": "4MiB"}, "servers": object{server: child(t, fault.Legacy, newJournal(t))}}})
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	v := openSession(ctx, t, g, server)
	v.mustEcho(ctx, 1)
	wrap := func(value string) string {
		return `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x","v":` + value + `}}}`
	}
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	keys := make([]string, 200_000)
	for i := range keys {
		keys[i] = fmt.Sprintf(`"k%d":0`, i)
	}
	before := gatewaytest.Resident(g.PID())
	for name, row := range map[string]struct {
		text   string
		status int
		code   int
		limit  time.Duration
	}{
		"as deep as may be": {wrap(deep(125)), 200, 0, 200 * time.Millisecond},
		"deeper":            {wrap(deep(126)), 400, protocol.CodeInvalidRequest, 50 * time.Millisecond},
		"very deep":         {wrap(deep(100_000)), 400, protocol.CodeInvalidRequest, 50 * time.Millisecond},
		"never closed":      {strings.Repeat("[", 100_000), 400, protocol.CodeInvalidRequest, 50 * time.Millisecond},
		"objects, too":      {wrap(strings.Repeat(`{"a":`, 50_000) + "1" + strings.Repeat("}", 50_000)), 400, protocol.CodeInvalidRequest, 50 * time.Millisecond},
		"a long array":      {wrap("[1" + strings.Repeat(",1", most/2-200) + "]"), 200, 0, time.Second},
		"a large number":    {wrap("1e400"), 200, 0, 200 * time.Millisecond},
		"10,000 digits":     {wrap(strings.Repeat("9", 10_000)), 200, 0, 200 * time.Millisecond},
		"200,000 names":     {wrap("{" + strings.Join(keys, ",") + "}"), 200, 0, time.Second},
	} {
		used, began := gatewaytest.CPU(g.PID()), time.Now()
		resp := v.post(ctx, row.text)
		r := refusalOf(t, resp)
		if r.status != row.status || r.code != row.code {
			t.Errorf("%s: %d %.300s, want %d and %d", name, r.status, r.body, row.status, row.code)
		}
		if took := time.Since(began); gatewaytest.Exceeds(took, row.limit) {
			t.Errorf("%s takes %v", name, took)
		}
		if used = gatewaytest.CPU(g.PID()) - used; used > gatewaytest.Slow(200*time.Millisecond) {
			t.Errorf("%s takes %v of the processor", name, used)
		}
	}
	if grown := gatewaytest.Resident(g.PID()) - before; grown > int64(gatewaytest.Size(40, 100))<<20 {
		t.Errorf("memory grew by %d MiB", grown>>20)
	}
}

// TestS06_ShapesAreThoseOfTheRevision sends messages whose shape is wrong, or not one of the
// revision that was agreed on.
func TestS06_ShapesAreThoseOfTheRevision(t *testing.T) {
	t.Parallel() // with a gateway of its own
	g := everyEndpoint(t, newJournal(t))
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	v := openSession(ctx, t, g, "")
	meta := fmt.Sprintf(`"_meta":{%q:%q,%q:{},%q:{"name":"raw","version":"1"}}`,
		protocol.MetaProtocolVersion, protocol.Latest, protocol.MetaClientCapabilities, protocol.MetaClientInfo)
	bad := map[string]string{
		"no jsonrpc":              `{"id":1,"method":"tools/list","params":{%s}}`,
		"another jsonrpc":         `{"jsonrpc":"1.0","id":1,"method":"tools/list","params":{%s}}`,
		"jsonrpc as a number":     `{"jsonrpc":2.0,"id":1,"method":"tools/list","params":{%s}}`,
		"method as a number":      `{"jsonrpc":"2.0","id":1,"method":7,"params":{%s}}`,
		"an empty method":         `{"jsonrpc":"2.0","id":1,"method":"","params":{%s}}`,
		"params as an array":      `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[{%s}]}`,
		"params as text":          `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":"x"}`,
		"params as null":          `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":null}`,
		"_meta as text":           `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":"x"}}`,
		"id null":                 `{"jsonrpc":"2.0","id":null,"method":"tools/list","params":{%s}}`,
		"id true":                 `{"jsonrpc":"2.0","id":true,"method":"tools/list","params":{%s}}`,
		"id an object":            `{"jsonrpc":"2.0","id":{},"method":"tools/list","params":{%s}}`,
		"id an array":             `{"jsonrpc":"2.0","id":[1],"method":"tools/list","params":{%s}}`,
		"id a fraction":           `{"jsonrpc":"2.0","id":1.5,"method":"tools/list","params":{%s}}`,
		"result and error":        `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}`,
		"neither":                 `{"jsonrpc":"2.0","id":1}`,
		"method and result":       `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{%s},"result":{}}`,
		"an error without a code": `{"jsonrpc":"2.0","id":1,"error":{}}`,
		"an empty batch":          `[]`,
		"a batch of nothing":      `[{},{}]`,
		"a batch":                 `[{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{%s}}]`,
	}
	header, _ := modernText(t, protocol.MethodListTools, 1, nil)
	for name, text := range bad {
		for _, era := range gatewaytest.Eras {
			body := strings.Replace(text, "%s", map[protocol.Era]string{protocol.Legacy: "", protocol.Modern: meta}[era], 1)
			h := v.header()
			if era == protocol.Modern {
				h = header
			}
			if name == "an error without a code" && era == protocol.Legacy {
				continue // nobody waits for it
			}
			r := posted(ctx, t, g, h, body)
			if r.status != http.StatusBadRequest || r.code != protocol.CodeInvalidRequest {
				t.Errorf("%s, %s era: %d %s, want 400 and %d", name, era, r.status, r.body, protocol.CodeInvalidRequest)
			}
		}
	}
	unknown, _ := modernText(t, "no/such", 1, nil)
	for name, row := range map[string]struct {
		header http.Header
		text   string
		status int
		code   int
	}{
		"unknown method, legacy":       {v.header(), `{"jsonrpc":"2.0","id":2,"method":"no/such"}`, 200, protocol.CodeMethodNotFound},
		"unknown method, modern":       {unknown, `{"jsonrpc":"2.0","id":2,"method":"no/such","params":{` + meta + `}}`, 404, protocol.CodeMethodNotFound},
		"unknown notification, legacy": {v.header(), `{"jsonrpc":"2.0","method":"notifications/nobody"}`, 202, 0},
		"a response, modern":           {header, `{"jsonrpc":"2.0","id":2,"result":{}}`, 400, protocol.CodeInvalidRequest},
		"a response, legacy":           {v.header(), `{"jsonrpc":"2.0","id":99,"result":{}}`, 202, 0},
	} {
		if r := posted(ctx, t, g, row.header, row.text); r.status != row.status || r.code != row.code {
			t.Errorf("%s: %d %s, want %d and %d", name, r.status, r.body, row.status, row.code)
		}
	}
}

// posted posts a text to all servers, and returns what came of it.
func posted(ctx context.Context, t *testing.T, g *gatewaytest.Gateway, h http.Header, text string) refusal {
	t.Helper()
	resp, err := gatewaytest.Post(ctx, g.URL("", "mcp"), h, text)
	if err != nil {
		t.Fatal(err)
	}
	return refusalOf(t, resp)
}
