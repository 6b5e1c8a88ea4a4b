package interop_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// builtinName is what the built-in server calls itself.
const builtinName = "dragoman-everything"

// A way is how a client reaches the built-in server, and the revisions in which it does so.
type way struct {
	client    string
	connect   connector
	transport string
	revisions []protocol.Revision
}

// goWays are the ways of clients that need Go alone.
var goWays = []way{
	{"Go SDK", connectGoSDK, "stdio", protocol.Revisions()},
	{"Go SDK", connectGoSDK, "http", protocol.Revisions()},
	{"Go SDK", connectGoSDK, "sse", protocol.Revisions()},
	{"mcp-go", connectMCPGo, "stdio", protocol.Revisions()},
	{"mcp-go", connectMCPGo, "http", protocol.Revisions()},
}

func TestE03_E06_E09_B06_B14_GoClientsUseTheBuiltInServer(t *testing.T) {
	t.Parallel()
	useBuiltinBy(t, goWays, builtinAt)
}

// useBuiltinBy uses the built-in server in each way. at starts one for a transport.
func useBuiltinBy(t *testing.T, ways []way, at func(t *testing.T, transport string) []string) {
	t.Helper()
	for _, w := range ways {
		for _, rev := range w.revisions {
			if w.transport == "http" && !rev.HasStreamableHTTP() || w.transport == "sse" && !rev.HasSessions() {
				continue // not defined on this transport
			}
			t.Run(w.client+" over "+w.transport+" in "+rev.String(), func(t *testing.T) {
				t.Parallel()
				useBuiltin(t, w.connect.open(t, at(t, w.transport), builtinName, rev))
			})
		}
	}
}

// builtinAt starts the built-in server for a transport.
func builtinAt(t *testing.T, transport string) []string {
	t.Helper()
	switch transport {
	case "http":
		return []string{serveHTTP(t)}
	case "sse":
		return []string{serveSSE(t)}
	case "ws":
		return []string{serveWS(t, &ws.Server{})}
	}
	return []string{dragomanProgram.in(t), "everything"}
}

// serveHTTP serves the built-in server over Streamable HTTP, in all revisions or
// in some, and returns its URL.
func serveHTTP(t *testing.T, revisions ...protocol.Revision) string {
	t.Helper()
	if len(revisions) == 0 {
		revisions = protocol.Revisions()
	}
	server := builtin.New(&builtin.Options{Revisions: revisions})
	s := &streamable.Server{}
	if slices.ContainsFunc(revisions, protocol.Revision.HasSessions) {
		s.Sessions = server
	}
	if !slices.ContainsFunc(revisions, protocol.Revision.HasSessions) || slices.Contains(revisions, protocol.Latest) {
		s.Requests = server.Requests()
	}
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		shutdown(t, s.Shutdown)
		web.Close()
	})
	return web.URL + "/mcp"
}

// serveSSE serves the built-in server over HTTP+SSE and returns the URL of the
// event stream.
func serveSSE(t *testing.T) string {
	t.Helper()
	s := &sse.Server{Acceptor: builtin.New(nil)}
	m := http.NewServeMux()
	m.Handle("/some/prefix/sse", s.Stream())
	m.Handle("/some/prefix/messages", s.Messages())
	web := httptest.NewServer(m)
	t.Cleanup(func() {
		s.Close()
		web.Close()
	})
	return web.URL + "/some/prefix/sse"
}

// serveWS serves the built-in server by WebSocket and returns its URL.
func serveWS(t *testing.T, s *ws.Server) string {
	t.Helper()
	server := builtin.New(nil)
	s.Acceptor, s.Requests = server, server.Requests()
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		shutdown(t, s.Shutdown)
		web.Close()
	})
	return strings.Replace(web.URL, "http:", "ws:", 1) + "/ws"
}

// shutdown stops a server, whose sessions must end in time.
func shutdown(t *testing.T, stop func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := stop(ctx); err != nil {
		t.Errorf("the server does not end: %v", err)
	}
}

// connections returns a client whose connections are closed with the test.
func connections(t *testing.T) *http.Client {
	tr := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// useBuiltin uses every feature of the built-in server.
func useBuiltin(t *testing.T, s *session) {
	t.Helper()
	if s.rev.HasSessions() {
		s.want(t, "setLoggingLevel", object{"level": "debug"})
		s.want(t, "ping", object{})
	} else {
		s.want(t, "listen", object{
			"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
			"resourceSubscriptions": []string{watched},
		})
	}
	callEveryTool(t, s)
	callAtOnce(t, s, atOnce(s.rev))
	readResources(t, s)
	getPrompts(t, s)
	complete(t, s)
	hearUpdates(t, s)
}

func readResources(t *testing.T, s *session) {
	t.Helper()
	resources := decode[[]object](t, s.want(t, "listResources", object{})["resources"])
	if len(resources) < 4 {
		t.Errorf("%d resources are listed", len(resources))
	}
	for _, r := range resources {
		got, err := s.try(t, "readResource", object{"uri": r["uri"]})
		if r["name"] == "asking-resource" && !s.rev.HasElicitation() {
			if err == nil {
				t.Errorf("%s was read without a server request", r["uri"])
			}
			continue
		}
		contents := decode[[]object](t, got["contents"])
		if err != nil || len(contents) != 1 {
			t.Errorf("%s: %v, %v", r["uri"], got, err)
			continue
		}
		if c := contents[0]; c["uri"] != r["uri"] || c["mimeType"] != r["mimeType"] || (stringOf(c["text"]) == "") == (stringOf(c["blob"]) == "") {
			t.Errorf("%s: %v", r["uri"], c)
		}
	}
	if templates := decode[[]object](t, s.want(t, "listResourceTemplates", object{})["resourceTemplates"]); len(templates) != 2 {
		t.Errorf("templates: %v", templates)
	}
	contents := decode[[]object](t, s.want(t, "readResource", object{"uri": "test://template/7/data"})["contents"])
	if len(contents) != 1 || decode[object](t, json.RawMessage(stringOf(contents[0]["text"])))["id"] != "7" {
		t.Errorf("a resource of the template: %v", contents)
	}
	if got, err := s.try(t, "readResource", object{"uri": "test://nowhere"}); err == nil || errorCode(err) != s.rev.CodeNoResource() && s.cannot["code of a missing resource"] == "" {
		t.Errorf("a resource that does not exist: %v, %v", got, err)
	}
}

func getPrompts(t *testing.T, s *session) {
	t.Helper()
	prompts := decode[[]object](t, s.want(t, "listPrompts", object{})["prompts"])
	if len(prompts) < 5 {
		t.Errorf("%d prompts are listed", len(prompts))
	}
	for _, p := range prompts {
		args := object{}
		for _, a := range decode[[]object](t, p["arguments"]) {
			args[stringOf(a["name"])] = "test://argument"
		}
		got, err := s.try(t, "getPrompt", object{"name": p["name"], "arguments": args})
		if p["name"] == "test_input_required_result_prompt" && !s.rev.HasElicitation() {
			if err == nil {
				t.Errorf("%s was got without a server request", p["name"])
			}
			continue
		}
		if messages := decode[[]object](t, got["messages"]); err != nil || len(messages) == 0 || messages[0]["content"] == nil {
			t.Errorf("%s: %v, %v", p["name"], got, err)
		}
	}
}

func complete(t *testing.T, s *session) {
	t.Helper()
	type completion struct {
		Completion struct {
			Values  []string
			Total   int
			HasMore bool
		}
	}
	got := decode[completion](t, s.want(t, "complete", object{
		"ref": object{"type": "ref/prompt", "name": "test_prompt_with_arguments"}, "argument": object{"name": "arg1", "value": "par"},
	})).Completion
	if !slices.Equal(got.Values, []string{"paris", "park", "party"}) {
		t.Errorf("completion of a prompt: %+v", got)
	}
	if s.cannot["completion of a template"] != "" {
		return
	}
	got = decode[completion](t, s.want(t, "complete", object{
		"ref": object{"type": "ref/resource", "uri": "test://template/{id}/data"}, "argument": object{"name": "id", "value": ""},
	})).Completion
	if len(got.Values) != 100 || got.Total != 150 || !got.HasMore {
		t.Errorf("completion of a template: %+v", got)
	}
}

// hearUpdates changes a resource, while the client is subscribed to it and afterwards.
func hearUpdates(t *testing.T, s *session) {
	t.Helper()
	if s.rev.HasSessions() {
		s.want(t, "subscribeResource", object{"uri": watched})
	}
	s.until(t, "update_resource", nil, watched, protocol.NoteResourceUpdated)
	if !s.rev.HasSessions() {
		return
	}
	s.want(t, "unsubscribeResource", object{"uri": watched})
	before, _ := s.notes.count(protocol.NoteResourceUpdated, watched)
	s.tool(t, "update_resource", nil, watched)
	s.notes.only(t, before, protocol.NoteResourceUpdated, watched)
}

// oneEra are servers that know one era only, and what a client of both ends up
// with.
var oneEra = map[string]struct {
	served []protocol.Revision
	want   protocol.Revision
}{
	"legacy":     {[]protocol.Revision{protocol.V20251125, protocol.V20250618, protocol.V20250326}, protocol.V20251125},
	"old legacy": {[]protocol.Revision{protocol.V20250326}, protocol.V20250326},
	"modern":     {[]protocol.Revision{protocol.V20260728}, protocol.V20260728},
}

func TestGoSDKClientFindsOutWhatOurServerSpeaks(t *testing.T) {
	t.Parallel()
	findsOut(t, connectGoSDK)
}

// findsOut connects a client to servers of one era, without a revision.
func findsOut(t *testing.T, connect connector) {
	t.Helper()
	for name, era := range oneEra {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := connect(t, []string{serveHTTP(t, era.served...)}, protocol.Unknown)
			if s.rev != era.want {
				t.Errorf("connected in %s, want %s", s.rev, era.want)
			}
			callTool(t, s, "session", expectations(era.want)["session"])
		})
	}
}

// It asks for server/discover first, which is not served here.
func TestGoSDKClientThatNegotiatesFallsBackOverHTTPAndSSE(t *testing.T) {
	t.Parallel()
	s := connectGoSDK(t, []string{serveSSE(t)}, protocol.Unknown)
	if s.rev != protocol.LatestLegacy {
		t.Fatalf("connected in %s", s.rev)
	}
	callTool(t, s, "echo", expectations(s.rev)["echo"])
}

// The client of mcp-go cannot be asked over this transport.
func TestB14_MCPGoClientCallsToolsOverHTTPAndSSE(t *testing.T) {
	t.Parallel()
	eachLegacy(t, func(t *testing.T, rev protocol.Revision) {
		s := connector(connectMCPGo).open(t, builtinAt(t, "sse"), builtinName, rev)
		all, some := expectations(rev), map[string]expected{}
		listed, err := s.tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"echo", "add", "large", "raise", "links", "session", "slow", "test_tool_with_progress", "test_image_content"} {
			if !slices.Contains(listed, name) {
				t.Errorf("%s is not listed", name)
			}
			callTool(t, s, name, all[name])
			if name != "raise" && name != "large" {
				some[name] = all[name]
			}
		}
		callAtOnce(t, s, some)
	})
}

// eachRevision runs a test in every revision, in parallel.
func eachRevision(t *testing.T, f func(t *testing.T, rev protocol.Revision)) {
	inRevisions(t, f, func(protocol.Revision) bool { return true })
}

// eachLegacy runs a test in every revision that HTTP+SSE can carry.
func eachLegacy(t *testing.T, f func(t *testing.T, rev protocol.Revision)) {
	inRevisions(t, f, protocol.Revision.HasSessions)
}

func inRevisions(t *testing.T, f func(t *testing.T, rev protocol.Revision), has func(protocol.Revision) bool) {
	for _, rev := range protocol.Revisions() {
		if has(rev) {
			t.Run(rev.String(), func(t *testing.T) {
				t.Parallel()
				f(t, rev)
			})
		}
	}
}
