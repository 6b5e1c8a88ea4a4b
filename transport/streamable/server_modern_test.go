package streamable_test

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

func TestS15_ModernRequestsAreCheckedAgainstTheirHeaders(t *testing.T) {
	s := open(t, nil)
	call := modernCall("5", "tools/call", `"name":"echo","arguments":{"text":"x"}`)
	good := s.modern("tools/call", "echo")
	other := strings.ReplaceAll(call, protocol.Latest.String(), "v999.0.0")
	region := modernCall("6", "tools/call", `"name":"test_x_mcp_header","arguments":{"region":"eu","priority":42}`)
	for _, test := range []struct {
		name   string
		site   *site
		body   string
		status int
		part   string
	}{
		{"good", good, call, 200, `"resultType":"complete"`},
		{"name in Base64", s.modern("tools/call", "=?base64?"+base64.StdEncoding.EncodeToString([]byte("echo"))+"?="), call, 200, `"result"`},
		{"name in bad Base64", s.modern("tools/call", "=?base64?***?="), call, 400, "-32020"},
		{"no version header", good.with(protocol.HeaderVersion, ""), call, 400, "-32020"},
		{"other version header", good.with(protocol.HeaderVersion, "2026-12-01"), call, 400, "-32020"},
		{"header right, body of the future", good, other, 400, "-32020"},
		{"version of the future", good.with(protocol.HeaderVersion, "v999.0.0"), other, 400, `"requested":"v999.0.0"`},
		{"no method header", good.with(protocol.HeaderMethod, ""), call, 400, "-32020"},
		{"other method header", s.modern("tools/list", "echo"), call, 400, "-32020"},
		{"no name header", s.modern("tools/call", ""), call, 400, "-32020"},
		{"other name header", s.modern("tools/call", "count"), call, 400, "-32020"},
		{"name header twice", good.with(protocol.HeaderName, "echo", protocol.HeaderName, "echo"), call, 400, "-32020"},
		{"no capabilities", good, strings.Replace(call, `,"`+protocol.MetaClientCapabilities+`":{}`, "", 1), 400, "-32602"},
		{"no claim but a modern header", good, `{"jsonrpc":"2.0","id":5,"method":"tools/list"}`, 400, "-32602"},
		{"initialize with a modern header", good, initialize(protocol.LatestLegacy, "{}"), 400, "-32020"},
		{"removed method", s.modern("ping", ""), modernCall("5", "ping", ""), 404, "-32601"},
		{"unknown method", s.modern("nope", ""), modernCall("5", "nope", ""), 404, "-32601"},
		{"unknown tool", s.modern("tools/call", "nope"), modernCall("5", "tools/call", `"name":"nope"`), 200, "-32602"},
		{"a missing capability", s.modern("tools/call", "test_missing_capability"), modernCall("5", "tools/call", `"name":"test_missing_capability"`), 400, "-32021"},
		{"a response", good, `{"jsonrpc":"2.0","id":5,"result":{}}`, 400, "-32600"},
		{"a notification", good, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, 202, ""},
		{"S02 argument twice", s.modern("tools/call", "test_x_mcp_header").with("Mcp-Param-Region", "eu"), strings.Replace(region, `"region":"eu"`, `"region":"us","region":"eu"`, 1), 400, "-32600"},
		{"argument not repeated", s.modern("tools/call", "test_x_mcp_header"), region, 400, "-32020"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := *test.site
			c.t = t
			c.want(test.body, test.status, test.part)
		})
	}
	resp := good.do(t.Context(), http.MethodPost, call)
	if resp.Header.Get(protocol.HeaderSession) != "" {
		t.Error("a modern answer has a session id")
	}
	c := s.modern("", "")
	if resp := c.do(t.Context(), http.MethodGet, ""); resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "POST" {
		t.Errorf("GET of a modern client: %d, Allow %q", resp.StatusCode, resp.Header.Get("Allow"))
	}
}

func TestServersOfOneEraNameTheirRevisions(t *testing.T) {
	e := builtin.New(nil)
	modern := open(t, &streamable.Server{Requests: e.Requests()})
	modern.want(initialize(protocol.LatestLegacy, "{}"), http.StatusBadRequest, `"supported":["`+protocol.Latest.String()+`"]`)
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if resp := modern.do(t.Context(), method, ""); resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "POST" {
			t.Errorf("%s: %d", method, resp.StatusCode)
		}
	}
	legacy := open(t, &streamable.Server{Sessions: e})
	legacy.modern("server/discover", "").want(modernCall("1", "server/discover", ""), http.StatusBadRequest, `"supported":["`+protocol.LatestLegacy.String()+`"`)
}

func TestS51_ModernDisconnectIsACancel(t *testing.T) {
	started, ended := make(chan struct{}), make(chan error, 1)
	s := open(t, &streamable.Server{Requests: dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() == protocol.MethodListTools {
			return req.Reply(map[string]any{"tools": []any{}})
		}
		close(started)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, ctx.Err()
	}}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-started
		cancel()
	}()
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(modernCall("1", "tools/call", `"name":"x"`)))
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "*/*", protocol.HeaderVersion: protocol.Latest.String(), protocol.HeaderMethod: "tools/call", protocol.HeaderName: "x"} {
		req.Header.Set(k, v)
	}
	if resp, err := http.DefaultClient.Do(req); err == nil {
		resp.Body.Close()
		t.Error("the request was answered")
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the callee was not told")
	}
}

func TestListenIsAStreamThatEndsInGoodOrder(t *testing.T) {
	e := builtin.New(nil)
	server := &streamable.Server{Requests: e.Requests()}
	s := open(t, server)
	resp := s.modern("subscriptions/listen", "").do(t.Context(), http.MethodPost, modernCall(`"L"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`))
	stream := s.events(resp)
	if m := stream.message(); m.Method() != protocol.NoteAcknowledged || m.MetaText(protocol.MetaSubscriptionID) != "L" {
		t.Errorf("first comes %s", m)
	}
	s.modern("tools/call", "test_trigger_tool_change").want(modernCall("2", "tools/call", `"name":"test_trigger_tool_change"`), http.StatusOK, `"result"`)
	if m := stream.message(); m.Method() != protocol.NoteToolsChanged {
		t.Errorf("then comes %s", m)
	}
	go func() { _ = server.Shutdown(context.Background()) }()
	if m := stream.message(); m.Kind() != dragoman.Response || m.ID().String() != `"L"` || m.IsError() {
		t.Errorf("the end is %s", m)
	}
	stream.end()
}
