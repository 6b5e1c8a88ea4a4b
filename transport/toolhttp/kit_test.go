package toolhttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/internal/wire/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/toolhttp"
)

const (
	plainJSON = "application/json"
	patience  = 10 * time.Second
)

// A testServer is a server under test, mounted at /call, and how to speak to it in
// plain HTTP.
type testServer struct {
	t      *testing.T
	url    string // of the base
	server *toolhttp.Server
}

// open serves s, with the built-in server behind it if it lacks one.
func open(t *testing.T, s *toolhttp.Server) *testServer {
	t.Helper()
	peertest.NoLeak(t)
	if s == nil {
		s = &toolhttp.Server{}
	}
	if s.Requests == nil {
		s.Requests = builtin.New(nil).Requests()
	}
	server := httptest.NewServer(mount(s))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = s.Shutdown(ctx)
		http.DefaultClient.CloseIdleConnections()
		server.Close()
	})
	return &testServer{t: t, url: server.URL + "/call", server: s}
}

// mount puts a server where its comment says.
func mount(s *toolhttp.Server) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/call", http.StripPrefix("/call", s))
	mux.Handle("/call/", http.StripPrefix("/call", s))
	return mux
}

// An answer is what came back for a request.
type answer struct {
	t      *testing.T
	status int
	header http.Header
	body   string
}

// do sends a request below the base, with pairs of header names and values. An
// empty value leaves the header out.
func (s *testServer) do(method, path, body string, header ...string) answer {
	s.t.Helper()
	resp := s.begin(s.t.Context(), method, path, body, header...)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("%s %s: the body broke off: %v", method, path, err)
	}
	return answer{s.t, resp.StatusCode, resp.Header, string(text)}
}

func (s *testServer) begin(ctx context.Context, method, path, body string, header ...string) *http.Response {
	s.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, reader)
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", plainJSON)
	}
	for i := 0; i < len(header); i += 2 {
		switch {
		case header[i] == "Host":
			req.Host = header[i+1]
		case header[i+1] == "":
			req.Header.Del(header[i])
		default:
			req.Header.Set(header[i], header[i+1])
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp
}

// events posts a call and returns the events of its stream.
func (s *testServer) events(path, body string) []sse.Event {
	s.t.Helper()
	resp := s.begin(s.t.Context(), http.MethodPost, path, body, "Accept", sse.ContentType)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != sse.ContentType {
		text, _ := io.ReadAll(resp.Body)
		s.t.Fatalf("POST %s: status %d, %s: %s", body, resp.StatusCode, resp.Header.Get("Content-Type"), text)
	}
	return readEvents(s.t, resp.Body)
}

func readEvents(t *testing.T, r io.Reader) []sse.Event {
	t.Helper()
	var list []sse.Event
	for reader := sse.NewReader(r, 1<<20); ; {
		e, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatalf("the stream broke: %v", err)
		}
		list = append(list, *e)
	}
}

// names returns the names of events.
func names(events []sse.Event) string {
	var list []string
	for _, e := range events {
		list = append(list, e.Name)
	}
	return strings.Join(list, " ")
}

// wantError fails the test unless the answer is a tool error with that status,
// id and code.
func (a answer) wantError(status int, id string, code int) *dragoman.Error {
	a.t.Helper()
	m := peertest.Parse(a.t, []byte(a.body))
	if a.status != status || a.header.Get("Content-Type") != plainJSON {
		a.t.Errorf("status %d, %s, want %d and JSON: %s", a.status, a.header.Get("Content-Type"), status, a.body)
	}
	if err := protocol.CheckToolError(m); err != nil {
		a.t.Fatalf("%v: %s", err, a.body)
	}
	if m.ID().String() != id || m.RPCError().Code != code {
		a.t.Errorf("got %s, want the id %s and the code %d", a.body, id, code)
	}
	return m.RPCError()
}

// wantResult fails the test unless the answer is a tool response with that id.
func (a answer) wantResult(id string) *dragoman.Message {
	a.t.Helper()
	m := peertest.Parse(a.t, []byte(a.body))
	if a.status != http.StatusOK || m.ID().String() != id {
		a.t.Fatalf("status %d with %s, want 200 and the id %s", a.status, a.body, id)
	}
	if err := protocol.CheckToolResponse(m); err != nil {
		a.t.Fatalf("%v: %s", err, a.body)
	}
	return m
}

// textOf returns the text of a result.
func textOf(t *testing.T, m *dragoman.Message) string {
	t.Helper()
	var result struct {
		Content []struct{ Text string }
	}
	if err := m.Decode(&result); err != nil {
		t.Fatalf("%v: %s", err, m)
	}
	var texts []string
	for _, item := range result.Content {
		texts = append(texts, item.Text)
	}
	return strings.Join(texts, "|")
}

// request is the text of a tool request.
func request(id, tool, arguments string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`
}

// A scriptedPeer is a peer that answers tools/call by a function, and lists the tool
// "t" without a schema. If it has no function, every result is an empty text.
type scriptedPeer struct {
	call func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error)
	list func(req *dragoman.Message) (*dragoman.Message, error)
}

func (p scriptedPeer) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	switch {
	case req.Method() == protocol.MethodListTools && p.list != nil:
		return p.list(req)
	case req.Method() == protocol.MethodListTools:
		return req.Reply(json.RawMessage(`{"resultType":"complete","ttlMs":60000,"cacheScope":"public","tools":[{"name":"t"}]}`))
	case p.call == nil:
		return req.Reply(json.RawMessage(`{"content":[{"type":"text","text":""}]}`))
	}
	return p.call(ctx, req, from)
}

func (p scriptedPeer) Notify(context.Context, *dragoman.Message) error { return nil }

// replies is a script that answers with the same result.
func replies(result string) scriptedPeer {
	return scriptedPeer{call: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		return req.Reply(json.RawMessage(result))
	}}
}

// fails is a script that answers with the same error.
func fails(e *dragoman.Error) scriptedPeer {
	return scriptedPeer{call: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		return req.Fail(e), nil
	}}
}

// notifyProgress sends progress to the caller of a request; more are members of params
// that begin with a comma.
func notifyProgress(ctx context.Context, req *dragoman.Message, from dragoman.Peer, more string) error {
	var b bytes.Buffer
	b.WriteString(`{"progressToken":`)
	b.Write(req.Meta(protocol.MetaProgressToken))
	b.WriteString(more + `}`)
	note, err := dragoman.NewNotification(protocol.NoteProgress, b.Bytes())
	if err != nil {
		return err
	}
	return from.Notify(ctx, note)
}
