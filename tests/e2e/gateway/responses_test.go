//go:build unix

package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

var update = flag.Bool("update", false, "write testdata/responses.txt")

// A responseCase is a request whose response is written down. In its parameters PREFIX is what
// stands before the names of the server.
type responseCase struct{ title, method, params string }

// withoutID reports whether it is sent without an id, as a notification is.
func (c responseCase) withoutID() bool { return strings.HasSuffix(c.title, "without an id") }

var responseCases = []responseCase{
	{"initialize", protocol.MethodInitialize, `{"protocolVersion":"` + protocol.LatestLegacy.String() + `","capabilities":{},"clientInfo":{"name":"guest","version":"1"}}`},
	{"server/discover", protocol.MethodDiscover, `{}`},
	{"ping", protocol.MethodPing, `{}`},
	{"tools/list", protocol.MethodListTools, `{}`},
	{"tools/call", protocol.MethodCallTool, `{"name":"PREFIXecho","arguments":{"text":"hello"}}`},
	{"tools/call without an id", protocol.MethodCallTool, `{"name":"PREFIXecho","arguments":{"text":"hello"}}`},
	{"tools/call, a tool that fails", protocol.MethodCallTool, `{"name":"PREFIXfail","arguments":{}}`},
	{"tools/call, an unknown tool", protocol.MethodCallTool, `{"name":"PREFIXunknown","arguments":{}}`},
	{"tools/call without a name", protocol.MethodCallTool, `{"arguments":{}}`},
	{"prompts/list", protocol.MethodListPrompts, `{}`},
	{"prompts/get", protocol.MethodGetPrompt, `{"name":"PREFIXgreet","arguments":{"name":"Ada"}}`},
	{"resources/list", protocol.MethodListResources, `{}`},
	{"resources/templates/list", protocol.MethodListTemplates, `{}`},
	{"resources/read", protocol.MethodReadResource, `{"uri":"test://one"}`},
	{"resources/read, an unknown resource", protocol.MethodReadResource, `{"uri":"test://unknown"}`},
	{"completion/complete", protocol.MethodComplete, `{"ref":{"type":"ref/prompt","name":"PREFIXgreet"},"argument":{"name":"name","value":"A"}}`},
	{"logging/setLevel", protocol.MethodSetLevel, `{"level":"error"}`},
	{"resources/subscribe", protocol.MethodSubscribe, `{"uri":"test://one"}`},
	{"resources/unsubscribe", protocol.MethodUnsubscribe, `{"uri":"test://one"}`},
	{"subscriptions/listen", protocol.MethodListen, `{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["test://one"]}}`},
	{"an unknown method", "test/unknown", `{}`},
}

// TestResponses sends every kind of request to every endpoint, over each transport, from a
// client of each era to a server of each era, and compares the responses with those in
// testdata/responses.txt. A response stands there once, followed by the cells that have it:
// endpoints, client=>server, transports, which are * if it is all of them. A socket carries
// messages as lines, as standard input and output do.
func TestResponses(t *testing.T) {
	const file = "testdata/responses.txt"
	both := insideBoth(t, nil)
	responses := make(map[string]map[string][]responseCell) // by title and response
	for _, server := range gatewaytest.Eras {
		run := insideSingle(t, server, nil)
		for _, e := range []struct {
			name   string
			g      *insideGateway
			path   string
			prefix string
		}{
			{"server", both, "/servers/" + server.String(), ""},
			{"group", both, "/groups/" + server.String(), server.String() + "_"},
			{"aggregate", both, "", server.String() + "_"},
			{"run", run, "", ""},
		} {
			for _, client := range gatewaytest.Eras {
				for _, way := range []string{gatewaytest.HTTP, gatewaytest.SSE, gatewaytest.WS, "socket"} {
					if way == "socket" && e.path != "" {
						continue // it leads to the root
					}
					a := openRecorder(t, e.g, e.path, way, client)
					for _, c := range responseCases {
						if !a.sends(c) {
							continue
						}
						text := a.response(c, e.prefix)
						if responses[c.title] == nil {
							responses[c.title] = make(map[string][]responseCell)
						}
						responses[c.title][text] = append(responses[c.title][text], responseCell{e.name, client.String() + "=>" + server.String(), way})
					}
				}
			}
		}
	}
	got := responseText(responses)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("responses differ from %s; -update writes it:\n%s", file, lineDiff(string(want), got))
	}
}

// A responseCell is where a response comes from.
type responseCell struct{ endpoint, eras, way string }

// responseText writes responses in the order of the cases. Within a case they are in the order of
// their text.
func responseText(responses map[string]map[string][]responseCell) string {
	var out strings.Builder
	out.WriteString("# Responses of a gateway. go test ./tests/e2e/gateway -run TestResponses -update writes this file.\n")
	for _, c := range responseCases {
		fmt.Fprintf(&out, "\n== %s\n", c.title)
		every := make(map[[2]string]int) // how many transports there are, by eras and endpoint
		for _, cells := range responses[c.title] {
			for _, cell := range cells {
				every[[2]string{cell.eras, cell.endpoint}]++
			}
		}
		for _, text := range slices.Sorted(maps.Keys(responses[c.title])) {
			fmt.Fprintf(&out, "%s\n", text)
			ways := make(map[[2]string][]string) // by eras and endpoint
			for _, cell := range responses[c.title][text] {
				key := [2]string{cell.eras, cell.endpoint}
				ways[key] = append(ways[key], cell.way)
			}
			endpoints := make(map[string][]string) // by eras and ways
			for _, key := range slices.SortedFunc(maps.Keys(ways), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
				line := key[0] + " *"
				if len(ways[key]) < every[key] {
					line = key[0] + " " + strings.Join(ways[key], ",")
				}
				endpoints[line] = append(endpoints[line], key[1])
			}
			for _, line := range slices.Sorted(maps.Keys(endpoints)) {
				fmt.Fprintf(&out, "\t%s %s\n", strings.Join(endpoints[line], ","), line)
			}
		}
	}
	return out.String()
}

// lineDiff returns what only one of two texts has: a cell with its case and its response.
func lineDiff(want, got string) string {
	var out strings.Builder
	wanted, received := cellLines(want), cellLines(got)
	for _, line := range wanted {
		if !slices.Contains(received, line) {
			fmt.Fprintf(&out, "- %s\n", line)
		}
	}
	for _, line := range received {
		if !slices.Contains(wanted, line) {
			fmt.Fprintf(&out, "+ %s\n", line)
		}
	}
	return out.String()
}

// cellLines returns the lines of cells, each after its case and its response.
func cellLines(text string) (list []string) {
	var title, response string
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "== "):
			title = line
		case strings.HasPrefix(line, "\t"):
			list = append(list, title+": "+response+line)
		default:
			response = line
		}
	}
	return list
}

// A recordingClient is a client that writes down what it receives.
type recordingClient struct {
	*gatewaytest.Client
	t    *testing.T
	base string // of the gateway's URLs
	way  string

	// The last POST of Streamable HTTP; guarded by mu.
	mu     sync.Mutex
	next   http.RoundTripper
	url    string
	header http.Header
	status int
}

// openRecorder connects a client. It has not sent anything yet.
func openRecorder(t *testing.T, g *insideGateway, path, way string, era protocol.Era) *recordingClient {
	t.Helper()
	a := &recordingClient{Client: &gatewaytest.Client{Name: "guest", Revision: protocol.Latest}, t: t, base: g.base, way: way}
	if era == protocol.Legacy {
		a.Revision = protocol.LatestLegacy
	}
	var d dragoman.Dialer
	switch way {
	case gatewaytest.HTTP:
		d = &streamable.Client{URL: g.base + path + "/mcp", NoToolList: true, Wrap: a.wrap}
	case gatewaytest.SSE:
		d = &sse.Client{URL: g.base + path + "/sse"}
	case gatewaytest.WS:
		d = &ws.Client{URL: g.base + path + "/ws"}
	default:
		d = &stdio.Address{Network: "unix", Address: g.socket}
	}
	conn, err := d.Dial(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	a.Conn = conn
	t.Cleanup(func() { _ = conn.Close() })
	return a
}

// wrap remembers what a POST was and its status.
func (a *recordingClient) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err == nil && r.Method == http.MethodPost {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.next, a.url, a.header, a.status = next, r.URL.String(), r.Header, resp.StatusCode
		}
		return resp, err
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// sends reports whether this client sends a request.
func (a *recordingClient) sends(c responseCase) bool {
	switch {
	case c.withoutID() && a.way != gatewaytest.HTTP:
		return false // the client's connection would not show a response without an id
	case !a.Modern():
		return true
	case a.way == gatewaytest.SSE: // which refuses all requests of the modern era alike
		return c.title == protocol.MethodDiscover || c.title == protocol.MethodCallTool
	}
	return c.method != protocol.MethodInitialize
}

// response sends a request and returns what comes back, after the status if that is not 200.
func (a *recordingClient) response(c responseCase, prefix string) string {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), gatewaytest.Patience)
	defer cancel()
	var params object
	if err := json.Unmarshal([]byte(strings.ReplaceAll(c.params, "PREFIX", prefix)), &params); err != nil {
		a.t.Fatal(err)
	}
	req, err := a.Message(c.method, params)
	if err != nil {
		a.t.Fatal(err)
	}
	var text string
	switch {
	case c.withoutID():
		return a.post(ctx, req)
	case c.method == protocol.MethodListen && a.Modern():
		text, err = a.listen(ctx, req)
	default:
		var resp *dragoman.Message
		if resp, err = a.Conn.Call(ctx, req, a); err == nil {
			text = a.plain(resp, req.ID())
		}
	}
	if err != nil {
		text = "error: " + strings.ReplaceAll(err.Error(), a.base, "BASE")
	}
	a.mu.Lock()
	status := a.status
	a.mu.Unlock()
	if status != 0 && status != http.StatusOK {
		text = fmt.Sprintf("%d %s", status, text)
	}
	if c.method == protocol.MethodInitialize {
		if err := a.notify(ctx, protocol.NoteInitialized, nil); err != nil {
			a.t.Error(err)
		}
	}
	return text
}

func (a *recordingClient) notify(ctx context.Context, method string, params any) error {
	note, err := dragoman.NewNotification(method, params)
	if err != nil {
		return err
	}
	return a.Conn.Notify(ctx, note)
}

// post sends a request without its id, with the headers of the request before it. The client
// would not do that.
func (a *recordingClient) post(ctx context.Context, req *dragoman.Message) string {
	a.t.Helper()
	note, err := dragoman.NewNotification(req.Method(), req.Params())
	if err != nil {
		a.t.Fatal(err)
	}
	a.mu.Lock()
	next, url, header := a.next, a.url, a.header.Clone()
	a.mu.Unlock()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(note.Bytes()))
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header = header
	resp, err := next.RoundTrip(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, text))
}

// listen begins a subscription, and ends it when it is acknowledged. It returns the
// acknowledgement, or the response of one that is refused.
func (a *recordingClient) listen(ctx context.Context, req *dragoman.Message) (text string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	a.Forget()
	done := make(chan struct{})
	var resp *dragoman.Message
	go func() { // ends with the call
		defer close(done)
		resp, err = a.Conn.Call(ctx, req, a)
	}()
	defer func() { <-done }()
	defer cancel()
	for {
		news := a.News()
		if notes := a.Notes(protocol.NoteAcknowledged); len(notes) > 0 {
			text = a.plain(notes[0], req.ID())
			cancel()
			<-done
			return text, nil
		}
		select {
		case <-done:
			if err != nil {
				return "", err
			}
			return a.plain(resp, req.ID()), nil
		case <-news:
		}
	}
}

// plain returns a message without what differs each time: its id, and how long it may be cached.
func (a *recordingClient) plain(m *dragoman.Message, id dragoman.ID) string {
	a.t.Helper()
	if m.Method() == "" && m.ID() != id {
		a.t.Errorf("the response has the id %s, want %s", m.ID(), id)
	}
	decoder := json.NewDecoder(bytes.NewReader(m.Bytes()))
	decoder.UseNumber()
	var all map[string]any
	if err := decoder.Decode(&all); err != nil {
		a.t.Fatal(err)
	}
	delete(all, "id")
	delete(all, "jsonrpc")
	replaceVolatile(all, id.String())
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(all); err != nil {
		a.t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}

// replaceVolatile replaces the values that differ each time.
func replaceVolatile(v any, id string) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			switch {
			case name == "ttlMs" && value != json.Number("0"):
				v[name] = "TTL"
			case name == protocol.MetaSubscriptionID && fmt.Sprint(value) == id:
				v[name] = "ID"
			default:
				replaceVolatile(value, id)
			}
		}
	case []any:
		for _, value := range v {
			replaceVolatile(value, id)
		}
	}
}
