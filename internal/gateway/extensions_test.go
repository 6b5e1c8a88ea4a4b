package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// A witness is a server of one era that notes with which extensions of the client each
// request has come.
type witness struct {
	era protocol.Era

	mu   sync.Mutex
	seen map[string]string // by method
}

const (
	serverExtensions = `{"com.example/x":{},"io.modelcontextprotocol/events":{},"io.modelcontextprotocol/skills":{},"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{}}`
	clientExtensions = `{"com.example/y":{"n":1},"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}`
)

// start serves it, and returns its URL.
func (w *witness) start(t *testing.T) string {
	t.Helper()
	endpoint := new(streamable.Server)
	if w.era == protocol.Modern {
		endpoint.Requests = dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			return w.answer(req, req.Meta(protocol.MetaClientCapabilities))
		}}
	} else {
		endpoint.Sessions = dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
			var caps json.RawMessage
			return dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
				if req.Method() == protocol.MethodInitialize {
					caps = req.Get("capabilities")
				}
				return w.answer(req, caps)
			}}, nil
		})
	}
	web := httptest.NewServer(endpoint)
	t.Cleanup(func() {
		_ = endpoint.Shutdown(within(t))
		web.Close()
	})
	return web.URL
}

func (w *witness) answer(req *dragoman.Message, caps json.RawMessage) (*dragoman.Message, error) {
	w.mu.Lock()
	w.seen[req.Method()] = namesIn(dragoman.Member(caps, "extensions"))
	w.mu.Unlock()
	const capabilities = `"capabilities":{"tools":{},"extensions":` + serverExtensions + `}`
	switch req.Method() {
	case protocol.MethodInitialize:
		return req.Reply([]byte(`{"protocolVersion":"` + protocol.LatestLegacy.String() + `",` + capabilities + `,"serverInfo":{"name":"w","version":"1"}}`))
	case protocol.MethodDiscover:
		return req.Reply([]byte(`{"resultType":"complete","supportedVersions":["` + protocol.Latest.String() + `"],` + capabilities + `,"ttlMs":60000,"cacheScope":"public"}`))
	case protocol.MethodListTools:
		return req.Reply([]byte(`{"resultType":"complete","tools":[{"name":"t","inputSchema":{"type":"object"}}],"ttlMs":60000,"cacheScope":"public"}`))
	case protocol.MethodCallTool:
		return req.Reply([]byte(`{"resultType":"complete","content":[]}`))
	case protocol.MethodPing:
		return req.Reply(nil)
	}
	return req.Fail(&dragoman.Error{Code: protocol.CodeMethodNotFound, Message: "no"}), nil
}

// forget has nothing be seen yet.
func (w *witness) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = make(map[string]string)
}

func (w *witness) saw(method string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[method]
}

// namesIn returns the last parts of the names of extensions, in order.
func namesIn(extensions []byte) string {
	var all map[string]json.RawMessage
	_ = json.Unmarshal(extensions, &all) // what is none has no names
	var names []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		names = append(names, name[strings.Index(name, "/")+1:])
	}
	return strings.Join(names, " ")
}

// What is advertised at each endpoint to clients of each era of servers of each, and what of
// the clients' extensions the servers see in calls and in lists.
func TestExtensionsReachTheOtherSideWhereverTheyCanExist(t *testing.T) {
	const legacy, modern = protocol.Legacy, protocol.Modern
	for _, c := range []struct {
		path           string
		client, server protocol.Era
		advertised     string
		called, listed string // tasks mean nothing for lists, and are left out of those that are kept for many clients
	}{
		{"/servers/s/mcp", legacy, legacy, "x events skills tasks ui", "y tasks ui", "y tasks ui"},
		{"/servers/s/mcp", legacy, modern, "x skills ui", "y tasks ui", "y tasks ui"},
		{"/servers/s/mcp", modern, legacy, "x skills ui", "y ui", "y ui"},
		{"/servers/s/mcp", modern, modern, "x events skills tasks ui", "y tasks ui", "y ui"},
		{"/mcp", legacy, legacy, "skills ui", "y ui", "y ui"},
		{"/mcp", legacy, modern, "skills ui", "y tasks ui", "y ui"},
		{"/mcp", modern, legacy, "skills ui", "y ui", "y ui"},
		{"/mcp", modern, modern, "events skills tasks ui", "y tasks ui", "y ui"},
	} {
		t.Run(fmt.Sprintf("%s, %s client, %s server", strings.Trim(c.path, "/"), c.client, c.server), func(t *testing.T) {
			w := &witness{era: c.server, seen: make(map[string]string)}
			g := begin(t, "servers:\n  s: {url: "+w.start(t)+"}\n")
			g.ready()
			w.forget()
			tool := "t"
			if c.path == "/mcp" {
				tool = "s_t"
			}
			capabilities, send := g.speak(t, c.path, c.client)
			if got := namesIn(dragoman.Member(capabilities, "extensions")); got != c.advertised {
				t.Errorf("advertised: %q, want %q", got, c.advertised)
			}
			send(protocol.MethodListTools, `{}`)
			send(protocol.MethodCallTool, `{"name":"`+tool+`","arguments":{}}`)
			if got := w.saw(protocol.MethodCallTool); got != c.called {
				t.Errorf("a call came with %q, want %q", got, c.called)
			}
			if got := w.saw(protocol.MethodListTools); got != c.listed {
				t.Errorf("a list was asked for with %q, want %q", got, c.listed)
			}
		})
	}
}

// speak has a client with extensions begin to speak, and returns what is advertised to it and
// how it sends requests.
func (g *running) speak(t *testing.T, path string, era protocol.Era) (capabilities json.RawMessage, send func(method, params string) *dragoman.Message) {
	t.Helper()
	s := new(session)
	send = func(method, params string) *dragoman.Message {
		t.Helper()
		req, err := dragoman.NewRequest(dragoman.IntID(1), method, json.RawMessage(params))
		if err == nil && era == protocol.Modern {
			req, err = protocol.Envelope{
				Version: protocol.Latest.String(), Capabilities: json.RawMessage(`{"extensions":` + clientExtensions + `}`), Client: json.RawMessage(`{"name":"c","version":"1"}`),
			}.Put(req)
		}
		if err != nil {
			t.Fatal(err)
		}
		status, body := s.speak(t, g.url+path, req)
		if _, data, ok := strings.Cut(body, "data: {"); ok {
			body = "{" + data
		}
		resp, err := dragoman.Parse([]byte(strings.TrimSpace(body)))
		if status != http.StatusOK || err != nil || resp.IsError() {
			t.Fatalf("%s: status %d, %s, %v", method, status, body, err)
		}
		return resp
	}
	if era == protocol.Modern {
		return send(protocol.MethodDiscover, `{}`).Get("capabilities"), send
	}
	resp := send(protocol.MethodInitialize, `{"protocolVersion":"`+protocol.LatestLegacy.String()+`","capabilities":{"extensions":`+clientExtensions+`},"clientInfo":{"name":"c","version":"1"}}`)
	if status, body := s.post(t, g.url+path, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); status != http.StatusAccepted {
		t.Fatalf("initialized: %d %s", status, body)
	}
	return resp.Get("capabilities"), send
}

// speak posts a request with the headers of its era.
func (s *session) speak(t *testing.T, url string, req *dragoman.Message) (status int, body string) {
	t.Helper()
	if !protocol.IsModern(req) {
		return s.post(t, url, req.String())
	}
	headers := map[string]string{protocol.HeaderVersion: protocol.Latest.String(), protocol.HeaderMethod: req.Method()}
	if name := req.Name(); name != "" {
		headers[protocol.HeaderName] = name
	}
	return s.postWith(t, url, req.String(), headers)
}

// An event stream lasts, and its events name the request by the id that each side gave it.
func TestEventsArePushedToTheRequestThatStreamsThem(t *testing.T) {
	endpoint := &streamable.Server{Requests: dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		switch req.Method() {
		case protocol.MethodDiscover:
			return req.Reply([]byte(`{"resultType":"complete","supportedVersions":["` + protocol.Latest.String() + `"],"capabilities":{"extensions":{"io.modelcontextprotocol/events":{}}},"ttlMs":60000,"cacheScope":"public"}`))
		case protocol.MethodListEvents:
			return req.Reply([]byte(`{"resultType":"complete","events":[{"name":"e"}],"ttlMs":60000,"cacheScope":"public"}`))
		case protocol.MethodStreamEvents:
			note, err := dragoman.NewNotification("notifications/events/event", json.RawMessage(`{"name":"`+req.Name()+`","_meta":{"`+protocol.MetaSubscriptionID+`":`+req.ID().String()+`}}`))
			if err == nil {
				err = from.Notify(ctx, note)
			}
			if err != nil {
				return nil, err
			}
			return req.Reply([]byte(`{"resultType":"complete","_meta":{"` + protocol.MetaSubscriptionID + `":` + req.ID().String() + `}}`))
		}
		return req.Fail(&dragoman.Error{Code: protocol.CodeMethodNotFound, Message: "no"}), nil
	}}}
	web := httptest.NewServer(endpoint)
	t.Cleanup(func() {
		_ = endpoint.Shutdown(within(t))
		web.Close()
	})
	g := begin(t, "servers:\n  s: {url: "+web.URL+"}\n")
	g.ready()
	for _, path := range []string{"/servers/s/mcp", "/mcp"} {
		req, err := dragoman.NewRequest(dragoman.StringID("mine"), protocol.MethodStreamEvents, json.RawMessage(`{"name":"e","arguments":{}}`))
		if err == nil {
			req, err = protocol.Envelope{Version: protocol.Latest.String()}.Put(req)
		}
		if err != nil {
			t.Fatal(err)
		}
		status, body := new(session).speak(t, g.url+path, req)
		if status != http.StatusOK || strings.Count(body, `"`+protocol.MetaSubscriptionID+`":"mine"`) != 2 || !strings.Contains(body, "notifications/events/event") {
			t.Errorf("%s: status %d, %s", path, status, body)
		}
	}
}
