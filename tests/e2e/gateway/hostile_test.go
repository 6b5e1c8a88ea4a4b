//go:build unix

package gateway

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A hostile is a server over HTTP that answers calls of echo as a test says, and lists
// tools as a test says.
type hostile struct {
	t       *testing.T
	Handler http.Handler
	URL     string

	mu      sync.Mutex
	answer  func(w http.ResponseWriter, r *http.Request, id string) // guarded by mu; nil for an ordinary one
	tools   string                                                  // added to the list; guarded by mu
	headers []http.Header                                           // of all requests; guarded by mu
}

func newHostile(t *testing.T, mode string) *hostile {
	t.Helper()
	s := fault.New(&fault.Options{Revisions: fault.Revisions(mode)})
	inner := s.Handler()
	m := &hostile{t: t, Handler: inner}
	web := httptest.NewServer(m)
	m.URL = web.URL + "/mcp"
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = inner.Shutdown(ctx)
		_ = s.Close()
		web.CloseClientConnections()
		web.Close()
	})
	return m
}

// ServeHTTP implements http.Handler.
func (m *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	m.headers = append(m.headers, r.Header.Clone())
	answer, tools := m.answer, m.tools
	m.mu.Unlock()
	if r.Method != http.MethodPost {
		m.Handler.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	msg, err := dragoman.Parse(body)
	switch {
	case err == nil && msg.Method() == protocol.MethodCallTool && answer != nil:
		answer(w, r, msg.ID().String())
	case err == nil && msg.Method() == protocol.MethodListTools && tools != "":
		recorded := httptest.NewRecorder()
		m.Handler.ServeHTTP(recorded, r)
		w.Header().Set("Content-Type", recorded.Header().Get("Content-Type"))
		_, _ = io.WriteString(w, strings.Replace(recorded.Body.String(), `"tools":[`, `"tools":[`+tools+`,`, 1))
	default:
		m.Handler.ServeHTTP(w, r)
	}
}

func (m *hostile) set(answer func(w http.ResponseWriter, r *http.Request, id string)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answer = answer
}

// result is an answer with a text.
func result(id, text string) string {
	data, _ := json.Marshal(text)
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"resultType":"complete","content":[{"type":"text","text":` + string(data) + `}]}}`
}

// stream writes an event stream, in which ID stands for the id.
func stream(text string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, _ *http.Request, id string) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, strings.ReplaceAll(text, "RESULT", result(id, "fine")))
	}
}

// TestS18_HostileEventStreams has a server answer with event streams that are odd, too
// large, cut off or none.
func TestS18_HostileEventStreams(t *testing.T) {
	t.Parallel() // with a gateway of its own
	const limit = 1 << 20
	long := strings.Repeat("x", limit+100)
	never := func(w http.ResponseWriter, r *http.Request, id string) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: "+result(id, "fine")+"\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // until the other side has left
	}
	rows := map[string]struct {
		answer func(http.ResponseWriter, *http.Request, string)
		code   int // zero if the call is to succeed
	}{
		"an ordinary one":             {stream("data: RESULT\n\n"), 0},
		"CR alone ends lines":         {stream("data: RESULT\r\r"), 0},
		"CR and LF":                   {stream("event: message\r\ndata: RESULT\r\n\r\n"), 0},
		"a byte order mark":           {stream("\ufeffdata: RESULT\n\n"), 0},
		"comments":                    {stream(": hello\n\n:\n: \ndata: RESULT\n\n"), 0},
		"fields without a colon":      {stream("data\nfoo\nid\n\ndata: RESULT\n\n"), 0},
		"an id with NUL":              {stream("id: a\x00b\ndata: RESULT\n\n"), 0},
		"retry zero":                  {stream("retry: 0\ndata: RESULT\n\n"), 0},
		"many empty events":           {stream(strings.Repeat("data:\n\n", gatewaytest.Size(1_000_000, 50_000)) + "data: RESULT\n\n"), 0},
		"another event name":          {stream("event: ping\ndata: {}\n\ndata: RESULT\n\n"), 0},
		"noise before it":             {stream("data: this is no message\n\ndata: RESULT\n\n"), 0},
		"no blank line at the end":    {stream("data: RESULT"), 0},
		"never ends after the answer": {never, 0},
		"a line that is too long":     {stream("data: " + long + "\n\n"), protocol.CodeTooLarge},
		"an answer that is too long": {func(w http.ResponseWriter, _ *http.Request, id string) {
			stream("data: "+result(id, long)+"\n\n")(w, nil, id)
		}, protocol.CodeTooLarge},
		"many lines that are too long": {stream(strings.Repeat("data: "+strings.Repeat("x", 1000)+"\n", 2*limit/1000) + "\n"), protocol.CodeTooLarge},
		"ends before the answer":       {stream("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}\n\n"), protocol.CodeLost},
		"ends at once":                 {stream(""), protocol.CodeLost},
		"ends in the middle of a line": {stream("data: {\"jsonrpc\":\"2.0\",\"id\":"), protocol.CodeLost},
		"a page":                       {func(w http.ResponseWriter, _ *http.Request, _ string) { status(200, "text/html", "<p>hello</p>")(w) }, protocol.CodeLost}, // who answers so may have carried it out

		"answers to somebody else only": {stream("data: {\"jsonrpc\":\"2.0\",\"id\":\"else\",\"result\":{}}\n\n"), protocol.CodeLost},
	}
	for _, mode := range []string{fault.Legacy, fault.Modern} {
		t.Run(mode+" server", func(t *testing.T) {
			t.Parallel() // with a gateway of its own
			m := newHostile(t, mode)
			g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{
				"limits":  object{"message": "1MiB"},
				"servers": object{server: object{"url": m.URL, "timeout": "5s"}, "other": child(t, fault.Modern, newJournal(t))},
			}})
			ctx := gatewaytest.Hurry(t, 2*gatewaytest.Patience)
			c := enter(ctx, t, g, server, gatewaytest.HTTP, protocol.Modern)
			echoes(ctx, t, c, "before")
			for name, row := range rows {
				m.set(row.answer)
				began := time.Now()
				got, err := c.Tool(ctx, "echo", object{"text": "x"})
				code, _ := gatewaytest.Outcome(err)
				switch {
				case row.code == 0 && (err != nil || got != "fine"):
					t.Errorf("%s: %.200q, %v", name, got, err)
				case row.code != 0 && code != row.code:
					t.Errorf("%s: %.200q, %v; want %d", name, got, err, row.code)
				}
				// Behind a lost response it waits for the next attempt to reach the server, for up to a second.
				if took := time.Since(began); gatewaytest.Exceeds(took, 2*time.Second) {
					t.Errorf("%s takes %v", name, took)
				}
			}
			m.set(nil)
			echoes(ctx, t, c, "after")
		})
	}
}

// squeezed returns so much white space between two texts, compressed. Each part is compressed
// by itself, the white space a piece at a time, which is the same again and again.
func squeezed(t *testing.T, before, after string, size int) string {
	t.Helper()
	part := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := io.WriteString(z, text)
		if err = errors.Join(err, z.Close()); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	const piece = 1 << 20
	return part(before) + strings.Repeat(part(strings.Repeat(" ", piece)), size/piece) + part(after)
}

// TestS21_CompressedAnswersAreInflatedUpToTheLimit has a server answer with a bomb.
func TestS21_CompressedAnswersAreInflatedUpToTheLimit(t *testing.T) {
	t.Parallel() // with a gateway of its own
	m := newHostile(t, fault.Modern)
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{
		"limits":  object{"message": "4MiB"},
		"servers": object{server: object{"url": m.URL}, "other": child(t, fault.Modern, newJournal(t))},
	}})
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	c := enter(ctx, t, g, server, gatewaytest.HTTP, protocol.Modern)
	echoes(ctx, t, c, "before")
	const size = 1 << 30
	for kind, text := range map[string]string{
		"application/json":  squeezed(t, "", "{}", size),
		"text/event-stream": squeezed(t, "data: ", "{}\n\n", size),
		"empty events":      squeezed(t, "data: {", "\n\n", size/8),
	} {
		m.set(func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("Content-Encoding", "gzip")
			status(http.StatusOK, map[bool]string{true: "text/event-stream", false: kind}[kind == "empty events"], text)(w)
		})
		before := gatewaytest.Resident(g.PID())
		_, err := c.Tool(ctx, "echo", object{"text": "x"})
		if code, _ := gatewaytest.Outcome(err); code != protocol.CodeTooLarge {
			t.Errorf("%s: %v, want %d", kind, err, protocol.CodeTooLarge)
		}
		if grown := gatewaytest.Resident(g.PID()) - before; grown > int64(gatewaytest.Size(64, 128))<<20 {
			t.Errorf("%s: memory grew by %d MiB", kind, grown>>20)
		}
	}
	m.set(nil)
	echoes(ctx, t, c, "after")
	h, body := modernText(t, protocol.MethodListTools, 1, nil)
	h.Set("Content-Encoding", "gzip")
	if r := posted(ctx, t, g, h, body); r.status != http.StatusUnsupportedMediaType {
		t.Errorf("a compressed request: %d %s", r.status, r.body)
	}
}

// TestS28_NothingOfTheClientContinues looks at what a server gets, and sends the gateway
// elsewhere.
func TestS28_NothingOfTheClientContinues(t *testing.T) {
	t.Parallel() // with a gateway of its own
	for _, mode := range []string{fault.Legacy, fault.Modern} {
		t.Run(mode+" server", func(t *testing.T) {
			t.Parallel() // with a gateway of its own
			m, elsewhere := newHostile(t, mode), newHostile(t, mode)
			g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": object{
				server:  object{"url": m.URL, "headers": object{"Authorization": "Bearer ours"}},
				"other": child(t, fault.Modern, newJournal(t)),
			}}})
			ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
			h, body := modernText(t, protocol.MethodCallTool, 1, object{"name": "echo", "arguments": object{"text": "x"}})
			const canary = "CANARY"
			for _, name := range []string{
				"Authorization", "Cookie", "X-Api-Key", "Proxy-Authorization", "X-Forwarded-User", "X-Forwarded-For", "Forwarded", "X-Real-Ip", "X-Remote-User", "Remote-User",
				"X-Amzn-Oidc-Data", "X-Ms-Client-Principal", "Mcp_session_id", "X-Dragoman-Principal", "Dragoman-Principal", "Referer", "User-Agent", "Traceparent-X",
			} {
				h.Set(name, canary)
			}
			h.Set("Connection", "mcp-session-id, authorization")
			resp, err := gatewaytest.Post(ctx, g.URL(server, "mcp"), h, body)
			if err != nil {
				t.Fatal(err)
			}
			if text := read(t, resp); resp.StatusCode != http.StatusOK {
				t.Fatalf("%s %s", resp.Status, text)
			}
			m.mu.Lock()
			seen := slices.Clone(m.headers)
			m.mu.Unlock()
			for _, h := range seen {
				if strings.Contains(fmt.Sprint(h), canary) || h.Get("Authorization") != "Bearer ours" {
					t.Errorf("the server gets %v", h)
				}
			}
			for _, code := range []int{301, 302, 303, 307, 308} {
				m.set(func(w http.ResponseWriter, _ *http.Request, _ string) {
					w.Header().Set("Location", elsewhere.URL)
					w.WriteHeader(code)
				})
				r := refusalOf(t, modernPost(ctx, t, g.URL(server, "mcp"), protocol.MethodCallTool, 1, object{"name": "echo", "arguments": object{"text": "x"}}))
				if r.code != protocol.CodeUnavailable {
					t.Errorf("a server that answers %d: %s, want %d", code, r.body, protocol.CodeUnavailable)
				}
			}
			elsewhere.mu.Lock()
			defer elsewhere.mu.Unlock()
			if len(elsewhere.headers) > 0 {
				t.Errorf("another server was asked: %v", elsewhere.headers)
			}
		})
	}
}

// TestS15_ArgumentsInHeadersAreEncodedAndBadToolsLeftOut has a modern server ask for
// arguments in headers.
func TestS15_ArgumentsInHeadersAreEncodedAndBadToolsLeftOut(t *testing.T) {
	t.Parallel() // with a gateway of its own
	m := newHostile(t, fault.Modern)
	tool := func(name, properties string) string {
		return `{"name":"` + name + `","inputSchema":{"type":"object","properties":{` + properties + `}}}`
	}
	header := func(argument, name string) string {
		return `"` + argument + `":{"type":"string","x-mcp-header":"` + name + `"}`
	}
	m.tools = strings.Join([]string{
		tool("good", header("region", "Region")),
		tool("bad_empty", header("a", "")), tool("bad_space", header("a", "a b")), tool("bad_line", header("a", `a\r\nX-Evil: 1`)),
		tool("bad_twice", header("a", "Region")+","+header("b", "region")),
		tool("bad_item", `"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}`),
	}, ",")
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": object{server: object{"url": m.URL}, "other": child(t, fault.Modern, newJournal(t))}}})
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	for _, era := range gatewaytest.Eras {
		c := enter(ctx, t, g, server, gatewaytest.HTTP, era)
		names, err := c.Tools(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(names, "good") || !slices.Contains(names, "echo") || slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "bad_") }) {
			t.Errorf("a %s client is offered %q", era, names)
		}
	}
	got := make(chan http.Header, 8)
	m.set(func(w http.ResponseWriter, r *http.Request, id string) {
		got <- r.Header.Clone()
		status(http.StatusOK, "application/json", result(id, "fine"))(w)
	})
	c := enter(ctx, t, g, server, gatewaytest.WS, protocol.Modern) // where nothing repeats them
	for value, want := range map[string]string{"a\r\nX-Evil: 1": "=?base64?YQ0KWC1FdmlsOiAx?=", "eu": "eu", "é": "=?base64?w6k=?=", "=?base64?ZXU=?=": "=?base64?PT9iYXNlNjQ/WlhVPT89?="} {
		if _, err := c.Tool(ctx, "good", object{"region": value}); err != nil {
			t.Fatal(err)
		}
		h := <-got
		if h.Get("Mcp-Param-Region") != want || h.Get("X-Evil") != "" {
			t.Errorf("%q becomes %q in %v", value, h.Get("Mcp-Param-Region"), h)
		}
	}
}

// TestS04_HostileSchemasAreNotFollowed has a server list tools whose schemas are bombs, or
// lead elsewhere.
func TestS04_HostileSchemasAreNotFollowed(t *testing.T) {
	m, trap := newHostile(t, fault.Modern), newHostile(t, fault.Modern)
	const depth = 100
	deep := strings.Repeat(`{"anyOf":[`, depth/2) + `{}` + strings.Repeat(`]}`, depth/2)
	wide := `{"anyOf":[` + strings.Repeat(`{"type":"string"},`, gatewaytest.Size(10_000, 500)) + `{}]}`
	doubled := "" // each leads to the next twice
	for i := range depth {
		doubled += fmt.Sprintf(`"%d":{"allOf":[{"$ref":"#/$defs/%[2]d"},{"$ref":"#/$defs/%[2]d"}]},`, i, i+1)
	}
	m.tools = strings.Join([]string{
		`{"name":"deep","inputSchema":{"type":"object","properties":{"a":` + deep + `}}}`,
		`{"name":"wide","inputSchema":{"type":"object","properties":{"a":` + wide + `}}}`,
		`{"name":"doubled","inputSchema":{"type":"object","properties":{"a":{"$ref":"#/$defs/0"}},"$defs":{` + doubled + `"100":{}}}}`,
		`{"name":"recursive","inputSchema":{"type":"object","properties":{"a":{"$ref":"#"}},"$ref":"#/$defs/x","$defs":{"x":{"$ref":"#/$defs/x"}}}}`,
		`{"name":"remote","inputSchema":{"type":"object","$ref":"` + trap.URL + `","properties":{"a":{"$ref":"` + trap.URL + `/x.json"}}}}`,
		`{"name":"file","inputSchema":{"type":"object","$ref":"file:///etc/passwd"}}`,
		`{"name":"expression","inputSchema":{"type":"object","properties":{"a":{"type":"string","pattern":"^(a+)+$"}}}}`,
	}, ",")
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": object{server: object{"url": m.URL}, "other": child(t, fault.Modern, newJournal(t))}}})
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	c := enter(ctx, t, g, server, gatewaytest.HTTP, protocol.Legacy)
	if names, err := c.Tools(ctx); err != nil || !slices.Contains(names, "echo") {
		t.Errorf("the tools are %q, %v", names, err)
	}
	m.set(func(w http.ResponseWriter, _ *http.Request, id string) {
		status(http.StatusOK, "application/json", result(id, "fine"))(w)
	})
	for _, tool := range []string{"deep", "wide", "doubled", "recursive", "remote", "file", "expression"} {
		for _, arguments := range []string{`{}`, `{"a":1}`, `{"a":"` + strings.Repeat("a", 1000) + `!"}`} {
			used := gatewaytest.CPU(g.PID()) // how long it takes depends on who else is there
			resp, err := gatewaytest.Post(ctx, g.URL(server, "call/"+tool), nil, arguments)
			if err != nil {
				t.Fatal(err)
			}
			text := read(t, resp)
			if used = gatewaytest.CPU(g.PID()) - used; resp.StatusCode == http.StatusInternalServerError || used > gatewaytest.Slow(time.Second) {
				t.Errorf("%s costs %v: %s %.200s", tool, used, resp.Status, text)
			}
		}
	}
	trap.mu.Lock()
	defer trap.mu.Unlock()
	if len(trap.headers) > 0 {
		t.Errorf("a schema has led elsewhere: %v", trap.headers)
	}
}

// TestS09_AnswersWithoutAnEndAreCut has a process answer with more than it may, and with a
// line that does not end.
func TestS09_AnswersWithoutAnEndAreCut(t *testing.T) {
	t.Parallel() // with a gateway of its own
	limit := gatewaytest.Size(16<<20, 8<<20)
	for _, mode := range []string{fault.Legacy, fault.Modern} {
		t.Run(mode+" server", func(t *testing.T) {
			g := gatewaytest.Serve(t, &gatewaytest.Options{
				Config: object{
					"limits":  object{"message": fmt.Sprint(limit, "B")},
					"servers": object{server: child(t, mode, newJournal(t)), "other": child(t, mode, newJournal(t))},
				},
				Launch: gatewaytest.Launch{Env: []string{gatewaytest.Tracing}},
			})
			ctx := gatewaytest.Hurry(t, 2*gatewaytest.Patience)
			c := enter(ctx, t, g, server, gatewaytest.HTTP, protocol.Modern)
			before := who(ctx, t, c)
			used := slices.Max(g.Live())
			began := gatewaytest.CPU(g.PID()) // how long it takes depends on who else is there
			if got, err := c.Tool(ctx, "big", object{"bytes": limit - 1000}); err != nil || len(got) != limit-1000 {
				t.Errorf("an answer of the largest size: %d bytes, %v", len(got), err)
			}
			if took := gatewaytest.CPU(g.PID()) - began; took > gatewaytest.Slow(3*time.Second) {
				t.Errorf("an answer of the largest size costs %v", took)
			}
			began = gatewaytest.CPU(g.PID())
			_, err := c.Tool(ctx, "big", object{"bytes": 2 * limit})
			failed(t, err, protocol.CodeTooLarge, protocol.OutcomeUnknown)
			if took := gatewaytest.CPU(g.PID()) - began; took > gatewaytest.Slow(5*time.Second) {
				t.Errorf("an answer that is too large costs %v", took)
			}
			if after := who(ctx, t, c); after.PID != before.PID {
				t.Errorf("one answer that is too large has cost the process")
			}
			began = gatewaytest.CPU(g.PID())
			_, err = c.Tool(ctx, "endless", nil)
			if code, _ := gatewaytest.Outcome(err); code != protocol.CodeTooLarge && code != protocol.CodeLost {
				t.Errorf("a line without an end: %v", err)
			}
			if took := gatewaytest.CPU(g.PID()) - began; took > gatewaytest.Slow(5*time.Second) {
				t.Errorf("a line without an end costs %v", took)
			}
			// What is read and what of it is passed on.
			if grown := slices.Max(g.Live()) - used; grown < int64(limit)/2 || grown > 5*int64(limit)/2 {
				t.Errorf("memory grew by %d MiB", grown>>20)
			}
			recovers(ctx, t, c)
			if after := who(ctx, t, c); after.PID == before.PID {
				t.Error("the process that writes forever lives")
			}
		})
	}
}
