package interop_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A foreign is a server of another implementation, and what our client finds there.
type foreign struct {
	name      string
	transport string
	revisions []protocol.Revision
	start     func(t *testing.T, rev protocol.Revision) dragoman.Dialer
	era       func(rev protocol.Revision) protocol.Era // what a probe finds, if there is one
	tools     func(rev protocol.Revision) map[string]expected
	caps      object // of our client; canAll if nil
	asks      bool   // by each kind of server request
	quiet     bool   // it does not log

	resources, prompts, templates int      // negative: any number of resources, and no list of templates
	read                          []string // resources of templates
	complete                      object
	values                        []string                              // that complete it; nil if they are not known
	missing                       func(rev protocol.Revision) int       // code for a resource that does not exist; nil if it is not tried
	changes                       func(t *testing.T, c *dragomanClient) // lets something change
}

func always(era protocol.Era) func(protocol.Revision) protocol.Era {
	return func(protocol.Revision) protocol.Era { return era }
}

// goForeign are the servers that need Go alone.
var goForeign = []foreign{
	{
		name: "Go SDK", transport: "stdio", revisions: []protocol.Revision{protocol.V20260728, protocol.V20251125, protocol.V20250618},
		start: func(t *testing.T, _ protocol.Revision) dragoman.Dialer { return goSDKProgram.command(t) },
		tools: goSDKTools, asks: true, resources: 3, prompts: 5, templates: 1, read: []string{"test://template/7/data"},
		complete: object{"ref": object{"type": "ref/prompt", "name": "test_prompt_with_arguments"}, "argument": object{"name": "arg1", "value": "par"}},
		missing:  func(protocol.Revision) int { return protocol.CodeInvalidParams }, // the modern code in the legacy era too
		changes:  changeGoSDK,
	},
	{
		name: "Go SDK", transport: "http", revisions: []protocol.Revision{protocol.V20260728, protocol.V20251125, protocol.V20250618, protocol.V20250326},
		start: func(t *testing.T, rev protocol.Revision) dragoman.Dialer { return goSDKOverHTTP(t, !rev.HasSessions()) },
		era:   protocol.Revision.Era, tools: goSDKToolsOverHTTP, resources: 3, prompts: 5, templates: 1,
	},
	{
		name: "mcp-go", transport: "stdio", revisions: protocol.Revisions(),
		start: func(t *testing.T, _ protocol.Revision) dragoman.Dialer { return mcpGoProgram.command(t) },
		tools: func(protocol.Revision) map[string]expected { return mcpGoTools }, resources: 4, prompts: 1, templates: 1, read: []string{"test://template/7"},
		complete: object{"ref": object{"type": "ref/prompt", "name": "greeting"}, "argument": object{"name": "name", "value": "w"}},
		missing:  protocol.Revision.CodeNoResource,
		changes:  changeMCPGo,
	},
}

func TestD03_B06_OurClientUsesServersOfGo(t *testing.T) {
	t.Parallel()
	useForeign(t, goForeign)
}

// useForeign uses servers of others by our client, in each revision.
func useForeign(t *testing.T, servers []foreign) {
	t.Helper()
	for _, f := range servers {
		for _, rev := range f.revisions {
			t.Run(f.name+" over "+f.transport+" in "+rev.String(), func(t *testing.T) {
				t.Parallel()
				server := f.start(t, rev)
				if client, ok := server.(*streamable.Client); ok && f.era != nil {
					if v, err := client.Probe(t.Context()); err != nil || v.Era != f.era(rev) {
						t.Errorf("the probe finds %+v, %v", v, err)
					}
				}
				f.use(t, server, rev)
			})
		}
	}
}

// use uses everything that the server has.
func (f *foreign) use(t *testing.T, server dragoman.Dialer, rev protocol.Revision) {
	t.Helper()
	c := f.begin(t, server, rev)
	if !f.quiet {
		c.logs()
	}
	if rev.HasSessions() {
		c.want(protocol.MethodPing, object{})
	}
	if n := c.readAll(); n != f.resources && (n == 0 || f.resources >= 0) {
		t.Errorf("%d resources, want %d", n, f.resources)
	}
	if n := c.promptAll(object{"resourceType": "Text", "resourceId": "1"}); n != f.prompts {
		t.Errorf("%d prompts, want %d", n, f.prompts)
	}
	if f.templates >= 0 {
		if n := len(c.list(protocol.MethodListTemplates, "resourceTemplates")); n != f.templates {
			t.Errorf("%d templates, want %d", n, f.templates)
		}
	}
	for _, uri := range f.read {
		c.want(protocol.MethodReadResource, object{"uri": uri})
	}
	if f.complete != nil {
		got := decode[[]string](t, c.want(protocol.MethodComplete, f.complete)["completion"].(object)["values"])
		if f.values != nil && !slices.Equal(got, f.values) {
			t.Errorf("completion: %q", got)
		}
	}
	if f.missing != nil {
		c.wantError(f.missing(rev), protocol.MethodReadResource, object{"uri": "test://nowhere"})
	}
	c.callAll(f.tools(rev)) // which may change what is listed
	for _, method := range []string{protocol.MethodCreateMessage, protocol.MethodElicit, protocol.MethodListRoots} {
		if f.asks && c.questions(method) == 0 {
			t.Errorf("the server never sent %s", method)
		}
	}
	if f.changes != nil {
		f.changes(t, f.begin(t, server, rev)) // in a session of its own
	}
}

func (f *foreign) begin(t *testing.T, server dragoman.Dialer, rev protocol.Revision) *dragomanClient {
	t.Helper()
	c := dial(t, server)
	if f.caps != nil {
		c.caps = f.caps
	}
	c.begin(rev)
	return c
}

// goSDKOverHTTP starts the Go SDK's conformance server on HTTP. Without state it
// speaks the modern era, with state the legacy one.
func goSDKOverHTTP(t *testing.T, stateless bool) *streamable.Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	cmd := exec.Command(goSDKProgram.in(t), "-http", address, fmt.Sprintf("-stateless=%v", stateless))
	cmd.Env = append(os.Environ(), "GORACE="+quickExit)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if nc, err := net.Dial("tcp", address); err == nil {
			nc.Close()
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	return &streamable.Client{URL: "http://" + address + "/"}
}

// goSDKToolsOverHTTP are goSDKTools, of which one closes its stream. The server keeps no events,
// so it cannot be resumed, and the caller must get an error.
func goSDKToolsOverHTTP(rev protocol.Revision) map[string]expected {
	rows := goSDKTools(rev)
	if rev.HasSessions() {
		rows["test_reconnection"] = expected{lost: true}
	}
	return rows
}

// goSDKTools says what each tool of the Go SDK's conformance server does.
func goSDKTools(rev protocol.Revision) map[string]expected {
	rows := map[string]expected{
		"test_simple_text":                  {text: "simple text"},
		"test_image_content":                {kinds: "image"},
		"test_audio_content":                {kinds: "audio"},
		"test_embedded_resource":            {kinds: "resource"},
		"test_multiple_content_types":       {kinds: "text image resource"},
		"test_tool_with_logging":            {text: "logging", logs: 3},
		"test_tool_with_progress":           {progress: 3},
		"test_error_handling":               {isError: true, text: "intentionally"},
		"test_sampling":                     {text: modelSays},
		"test_elicitation":                  {text: "action=accept, content=map[username:some text]"},
		"test_elicitation_sep1034_defaults": {text: "name:John Doe"},
		"test_elicitation_sep1330_enums":    {},
		"json_schema_2020_12_tool":          {args: object{"name": "n", "email": "e"}, text: `"email":"e"`},
		"test_reconnection":                 {text: "completed"},
		"test_x_mcp_header":                 {args: object{"region": "west"}, text: "region=west"},
		"test_missing_capability":           {text: "declared the sampling capability"},
		"test_streaming_elicitation":        {text: "result frames only"},
		"test_logging_tool":                 {text: "Log attempted", logs: 1},
		"test_trigger_tool_change":          {text: "published"},
		"test_trigger_prompt_change":        {text: "published"},

		"test_input_required_result_elicitation":     {text: "Hello, some text!"},
		"test_input_required_result_sampling":        {text: modelSays},
		"test_input_required_result_list_roots":      {text: rootURI},
		"test_input_required_result_request_state":   {text: "state-ok"},
		"test_input_required_result_multiple_inputs": {text: modelSays + " some text"},
		"test_input_required_result_multi_round":     {text: "some text likes some text"},
		"test_input_required_result_tampered_state":  {text: "state-ok"},
		"test_input_required_result_capabilities":    {text: "fulfilled"},
	}
	// The SDK refuses the form of its own fixture, once it is filled in.
	rows["test_elicitation_sep1330_enums"] = expected{isError: true, text: "elicitation failed"}
	if rev.HasSessions() {
		// To old clients the SDK puts the questions of one round only, and then
		// passes on those of the next as a result without content.
		rows["test_input_required_result_multi_round"] = expected{kinds: "none"}
	} else {
		// The fixtures of these ask by requests, which are of the old era.
		for _, name := range []string{"test_sampling", "test_elicitation", "test_elicitation_sep1034_defaults", "test_elicitation_sep1330_enums"} {
			rows[name] = expected{isError: true, text: "cannot be sent"}
		}
	}
	return rows
}

func changeGoSDK(t *testing.T, c *dragomanClient) {
	t.Helper()
	stop, marked := func() {}, ""
	if c.rev.HasListen() {
		stop = c.listen(object{"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": []string{watched}})
		marked = protocol.MetaSubscriptionID
	} else {
		c.want(protocol.MethodSubscribe, object{"uri": watched})
	}
	c.tool("test_trigger_tool_change")
	c.tool("test_trigger_prompt_change")
	c.notes.wait(t, 1, protocol.NoteToolsChanged, marked)
	c.notes.wait(t, 1, protocol.NotePromptsChanged, marked)
	c.notes.wait(t, 1, protocol.NoteResourceUpdated, watched) // the server reports one every 3 seconds
	stop()
	if c.rev.HasSessions() {
		c.want(protocol.MethodUnsubscribe, object{"uri": watched})
	}
	c.tool("test_simple_text")
}

// mcpGoTools says what each tool of the mcp-go server does.
var mcpGoTools = map[string]expected{
	"echo":     {args: object{"text": "hello"}, text: "hello"},
	"picture":  {kinds: "text image"},
	"fail":     {isError: true, text: "failed as asked"},
	"raise":    {raises: "raised as asked"},
	"wait":     {waits: true},
	"progress": {text: "three steps", progress: 3},
	"log":      {text: "two messages", logs: 2},
	"ask":      {text: "map[name:some text]"},
	"update":   {text: "updated"},
	"change":   {text: "changed"},
}

func changeMCPGo(t *testing.T, c *dragomanClient) {
	t.Helper()
	stop := func() {}
	if c.rev.HasListen() {
		stop = c.listen(object{"promptsListChanged": true, "resourceSubscriptions": []string{watched}})
	} else {
		c.want(protocol.MethodSubscribe, object{"uri": watched})
	}
	c.tool("change")
	c.tool("update")
	c.notes.wait(t, 1, protocol.NotePromptsChanged, "")
	c.notes.wait(t, 1, protocol.NoteResourceUpdated, watched)
	stop()
	c.tool("progress")
}

func TestE06_OurClientMakesManyCallsToTheGoSDKServerAtOnce(t *testing.T) {
	t.Parallel()
	c, _ := begin(t, goSDKProgram.command(t), protocol.V20251125)
	rows := goSDKTools(c.rev)
	some := map[string]expected{}
	for _, name := range []string{"test_simple_text", "test_image_content", "test_reconnection", "test_input_required_result_list_roots"} {
		some[name] = rows[name]
	}
	for _, row := range []struct{ name, key string }{{"test_sampling", "prompt"}, {"test_elicitation", "message"}} {
		some[row.name] = expected{args: object{row.key: "Who are you?"}, text: rows[row.name].text}
	}
	callAtOnce(t, c, some)
}

func TestOurClientContinuesAfterACancelledCallToTheGoSDKServer(t *testing.T) {
	t.Parallel()
	for _, rev := range []protocol.Revision{protocol.V20260728, protocol.V20251125} {
		t.Run(rev.String(), func(t *testing.T) {
			t.Parallel()
			c, _ := begin(t, goSDKProgram.command(t), rev)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			// It takes 100 ms, so on a very busy machine it may come in time.
			if _, err := c.call(ctx, "test_reconnection", nil, ""); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the cancelled call returned %v", err)
			}
			c.tool("test_simple_text")
		})
	}
}

func TestE03_GoSDKServerSpeaksTheEraItIsSpokenToIn(t *testing.T) {
	t.Parallel()
	c, hello := begin(t, goSDKProgram.command(t), protocol.V20260728)
	versions, _ := hello["supportedVersions"].([]any)
	if len(versions) == 0 || versions[0] != protocol.V20260728.String() {
		t.Errorf("discover says %v", hello)
	}
	c.tool("test_simple_text")
	c, hello = begin(t, goSDKProgram.command(t), protocol.V20241105)
	if hello["protocolVersion"] != protocol.V20241105.String() {
		t.Errorf("initialize says %v", hello)
	}
	c.tool("test_simple_text")
}

// The server has five workers for tools, so calls that continued after they were
// cancelled would keep others from being served. A cancel counts only once the
// call has begun: the server loses those of calls that wait for a worker.
func TestD10_OurCancelReachesTheMCPGoServer(t *testing.T) {
	t.Parallel()
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		c, _ := begin(t, mcpGoProgram.command(t), rev)
		for i := range 6 {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			token := fmt.Sprintf("call %d", i)
			go func() { // ends when ctx does
				_, err := c.call(ctx, "wait", nil, token)
				ended <- err
			}()
			c.notes.wait(t, 1, protocol.NoteProgress, token)
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the cancelled call returned %v", err)
			}
		}
		c.tool("picture")
	})
}

// mcpGoOver are how a small server of mcp-go is served over HTTP, and how our client reaches it.
var mcpGoOver = map[string]struct {
	serve func(s *mcpgoserver.MCPServer) http.Handler
	dial  func(url string) dragoman.Dialer
}{
	"http": {
		func(s *mcpgoserver.MCPServer) http.Handler { return mcpgoserver.NewStreamableHTTPServer(s) },
		func(url string) dragoman.Dialer { return &streamable.Client{URL: url + "/mcp"} },
	},
	"sse": { // its stream is at /sse
		func(s *mcpgoserver.MCPServer) http.Handler { return mcpgoserver.NewSSEServer(s) },
		func(url string) dragoman.Dialer { return &sse.Client{URL: url} },
	},
}

func TestB06_B15_OurClientUsesServersOfMCPGoOverHTTP(t *testing.T) {
	t.Parallel()
	for transport, over := range mcpGoOver {
		for _, rev := range protocol.Revisions() {
			if transport == "http" && !rev.HasStreamableHTTP() || transport == "sse" && !rev.HasSessions() {
				continue // not defined on this transport
			}
			t.Run(transport+" in "+rev.String(), func(t *testing.T) {
				t.Parallel()
				s := mcpgoserver.NewMCPServer("mcp-go", "1.2.1", mcpgoserver.WithToolCapabilities(true))
				s.AddTool(mcpgo.NewTool("echo", mcpgo.WithString("text")), func(_ context.Context, r mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
					return mcpgo.NewToolResultText(r.GetString("text", "")), nil
				})
				s.AddTool(mcpgo.NewTool("fail"), func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
					return nil, io.ErrUnexpectedEOF
				})
				handler := over.serve(s)
				web := httptest.NewServer(handler)
				t.Cleanup(func() {
					if s, ok := handler.(*mcpgoserver.SSEServer); ok {
						s.CloseSessions()
					}
					web.Close()
				})
				server := over.dial(web.URL)
				if client, ok := server.(*streamable.Client); ok {
					if v, err := client.Probe(t.Context()); err != nil || v.Era != protocol.Modern {
						t.Errorf("the probe finds %+v, %v", v, err)
					}
				}
				c, _ := begin(t, server, rev)
				echo := expected{args: object{"text": "hello, wörld"}, text: "hello, wörld"}
				c.callAll(map[string]expected{"echo": echo, "fail": {args: object{}, raises: io.ErrUnexpectedEOF.Error()}})
				callAtOnce(t, c, map[string]expected{"echo": echo})
				if transport == "sse" {
					s.AddTool(mcpgo.NewTool("another"), func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
						return mcpgo.NewToolResultText(""), nil
					})
					c.notes.wait(t, 1, protocol.NoteToolsChanged, "")
				}
			})
		}
	}
}

func TestB15_OurClientUsesServersOfTheGoSDKOverHTTPAndSSE(t *testing.T) {
	t.Parallel()
	eachLegacy(t, func(t *testing.T, rev protocol.Revision) {
		s := &crossServer{kind: "Go", journal: filepath.Join(t.TempDir(), "journal")}
		server := crossGoServer(protocol.Legacy.String(), s.journal)
		web := httptest.NewServer(mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil))
		t.Cleanup(web.Close)
		c, _ := begin(t, &sse.Client{URL: web.URL}, rev)
		cross(t, s, c.session)
	})
}
