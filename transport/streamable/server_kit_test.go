package streamable_test

import (
	"bytes"
	"context"
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
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// A site is a server under test, and how to speak to it in plain HTTP.
type site struct {
	t       *testing.T
	url     string
	session string // sent as Mcp-Session-Id if not empty
	version string // sent as MCP-Protocol-Version if not empty
	header  http.Header
}

// open serves s, with the built-in server behind the endpoints that it lacks.
func open(t *testing.T, s *streamable.Server) *site {
	t.Helper()
	peertest.NoLeak(t)
	if s == nil {
		s = &streamable.Server{}
	}
	if s.Sessions == nil && s.Requests == nil {
		e := builtin.New(nil)
		s.Sessions, s.Requests = e, e.Requests()
	}
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
		http.DefaultClient.CloseIdleConnections()
		server.Close()
	})
	return &site{t: t, url: server.URL}
}

// with returns the site with more headers; an empty value removes one.
func (s *site) with(pairs ...string) *site {
	c := *s
	c.header = c.header.Clone()
	if c.header == nil {
		c.header = http.Header{}
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			c.header.Del(pairs[i])
			c.header[http.CanonicalHeaderKey(pairs[i])] = []string{""}
			continue
		}
		c.header.Add(pairs[i], pairs[i+1])
	}
	return &c
}

// do sends a request. The body of the response is closed with the test.
func (s *site) do(ctx context.Context, method, body string) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, s.url, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if s.session != "" {
		req.Header.Set(protocol.HeaderSession, s.session)
	}
	if s.version != "" {
		req.Header.Set(protocol.HeaderVersion, s.version)
	}
	for name, values := range s.header {
		req.Header.Del(name)
		for _, v := range values {
			switch {
			case name == "Host":
				req.Host = v
			case v != "":
				req.Header.Add(name, v)
			}
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// post sends one message and returns the status and the whole body.
func (s *site) post(body string) (int, string) {
	s.t.Helper()
	resp := s.do(s.t.Context(), http.MethodPost, body)
	return resp.StatusCode, s.read(resp)
}

func (s *site) read(resp *http.Response) string {
	s.t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// want posts a message and checks the status and a part of the answer.
func (s *site) want(body string, status int, part string) {
	s.t.Helper()
	got, text := s.post(body)
	if got != status || !strings.Contains(text, part) {
		s.t.Errorf("%.200s\nis answered with %d %s\nwant %d and %s", body, got, text, status, part)
	}
}

// hello opens a session of that revision.
func (s *site) hello(rev protocol.Revision) *site {
	s.t.Helper()
	resp := s.do(s.t.Context(), http.MethodPost, initialize(rev, `{"sampling":{},"elicitation":{},"roots":{}}`))
	text := s.read(resp)
	c := *s
	c.session = resp.Header.Get(protocol.HeaderSession)
	if resp.StatusCode != http.StatusOK || c.session == "" || !strings.Contains(text, `"protocolVersion":"`+rev.String()+`"`) {
		s.t.Fatalf("initialize is answered with %d %v %s", resp.StatusCode, resp.Header, text)
	}
	if rev.NeedsVersionHeader() {
		c.version = rev.String()
	}
	c.want(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, http.StatusAccepted, "")
	return &c
}

func initialize(rev protocol.Revision, caps string) string {
	return `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + rev.String() +
		`","capabilities":` + caps + `,"clientInfo":{"name":"t","version":"1"}}}`
}

// eventsOf reads the events of a response as they come.
type eventsOf struct {
	t *testing.T
	r *sse.Reader
}

func (s *site) events(resp *http.Response) *eventsOf {
	s.t.Helper()
	if ct := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || ct != "text/event-stream" {
		s.t.Fatalf("answered with %d %q, want an event stream: %s", resp.StatusCode, ct, s.read(resp))
	}
	return &eventsOf{s.t, sse.NewReader(resp.Body, 1<<24)}
}

// next returns the next event that has data.
func (e *eventsOf) next() *sse.Event {
	e.t.Helper()
	for {
		ev, err := e.r.Next()
		if err != nil {
			e.t.Fatalf("the stream ends: %v", err)
		}
		if len(ev.Data) > 0 {
			return ev
		}
	}
}

// message returns the next message.
func (e *eventsOf) message() *dragoman.Message {
	e.t.Helper()
	m, err := dragoman.Parse(bytes.Clone(e.next().Data))
	if err != nil {
		e.t.Fatal(err)
	}
	return m
}

// end checks that nothing more comes.
func (e *eventsOf) end() {
	e.t.Helper()
	if ev, err := e.r.Next(); err == nil {
		e.t.Errorf("then comes %+v, want the end", ev)
	}
}

// echoCall is a call of the tool echo.
func echoCall(id, text string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + text + `"}}}`
}

// modernCall is a request of the modern era, and its site the headers for it.
func modernCall(id, method, params string) string {
	if params != "" {
		params += ","
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `"_meta":{"` +
		protocol.MetaProtocolVersion + `":"` + protocol.Latest.String() + `","` + protocol.MetaClientCapabilities + `":{}}}}`
}

func (s *site) modern(method, name string) *site {
	c := s.with(protocol.HeaderMethod, method)
	c.version = protocol.Latest.String()
	if name != "" {
		c = c.with(protocol.HeaderName, name)
	}
	return c
}
