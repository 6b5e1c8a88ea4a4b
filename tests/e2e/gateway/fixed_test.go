//go:build unix

package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	core "github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/observe"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// A fixedServer is a server of one era whose responses are fixed texts. It uses nothing of
// Dragoman but messages, so that what a gateway makes of them is the gateway's.
type fixedServer struct {
	era    protocol.Era
	onCall func() // runs in every call of a tool; may be nil
}

// fixedResults are the results of requests that have no parameter that matters.
var fixedResults = map[string]string{
	protocol.MethodPing:          `{}`,
	protocol.MethodListTools:     `{"tools":[{"name":"echo","description":"Return the text.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}},{"name":"fail","inputSchema":{"type":"object"}}]}`,
	protocol.MethodListPrompts:   `{"prompts":[{"name":"greet","arguments":[{"name":"name","required":true}]}]}`,
	protocol.MethodGetPrompt:     `{"messages":[{"role":"user","content":{"type":"text","text":"Greet her."}}]}`,
	protocol.MethodListResources: `{"resources":[{"uri":"test://one","name":"one","mimeType":"text/plain"}]}`,
	protocol.MethodReadResource:  `{"contents":[{"uri":"test://one","mimeType":"text/plain","text":"1"}]}`,
	protocol.MethodListTemplates: `{"resourceTemplates":[{"uriTemplate":"test://items/{id}","name":"items"}]}`,
	protocol.MethodComplete:      `{"completion":{"values":["Ada","Alan"],"total":2,"hasMore":false}}`,
	protocol.MethodSetLevel:      `{}`,
	protocol.MethodSubscribe:     `{}`,
	protocol.MethodUnsubscribe:   `{}`,
}

// fixedCapabilities are what a fixed server advertises.
const fixedCapabilities = `"capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"completions":{},"logging":{}},"serverInfo":{"name":"fixed","version":"1"},"instructions":"Call echo."`

// Accept implements dragoman.Acceptor.
func (s *fixedServer) Accept(context.Context, dragoman.Conn) (dragoman.Peer, error) { return s, nil }

// Notify implements dragoman.Peer.
func (s *fixedServer) Notify(context.Context, *dragoman.Message) error { return nil }

// Call implements dragoman.Peer.
func (s *fixedServer) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	modern, method := s.era == protocol.Modern, req.Method()
	if modern {
		if err := protocol.CheckEnvelope(req); err != nil {
			return req.Fail(err), nil
		}
	}
	result := fixedResults[method]
	switch method {
	case protocol.MethodInitialize:
		if !modern {
			result = `{"protocolVersion":"` + protocol.LatestLegacy.String() + `",` + fixedCapabilities + `}`
		}
	case protocol.MethodDiscover:
		if modern {
			result = `{"supportedVersions":["` + protocol.Latest.String() + `"],` + fixedCapabilities + `}`
		}
	case protocol.MethodCallTool:
		if s.onCall != nil {
			s.onCall()
		}
		switch req.Name() {
		case "echo":
			result = `{"content":[{"type":"text","text":"hello"}]}`
		case "fail":
			result = `{"content":[{"type":"text","text":"failed"}],"isError":true}`
		default:
			return req.Fail(&dragoman.Error{Code: protocol.CodeInvalidParams, Message: "Unknown tool: " + req.Name()}), nil
		}
	case protocol.MethodReadResource:
		if req.URI() != "test://one" {
			code := protocol.CodeInvalidParams
			if !modern {
				code = protocol.CodeResourceNotFound
			}
			return req.Fail(&dragoman.Error{Code: code, Message: "Resource not found: " + req.URI()}), nil
		}
	case protocol.MethodListen:
		if modern {
			return s.listen(ctx, req, from)
		}
	case protocol.MethodPing, protocol.MethodSetLevel, protocol.MethodSubscribe, protocol.MethodUnsubscribe:
		if modern {
			result = "" // this era does not have them
		}
	}
	switch {
	case result == "":
		return req.Fail(&dragoman.Error{Code: protocol.CodeMethodNotFound, Message: "Method not found: " + method}), nil
	case modern && protocol.Cacheable(method):
		result = `{"resultType":"complete","ttlMs":3600000,"cacheScope":"public",` + result[1:]
	case modern:
		result = `{"resultType":"complete",` + result[1:]
	}
	return req.Reply(json.RawMessage(result))
}

// listen acknowledges a subscription and keeps it until it is cancelled.
func (s *fixedServer) listen(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	note, err := dragoman.NewNotification(protocol.NoteAcknowledged, object{
		"_meta": object{protocol.MetaSubscriptionID: req.ID()}, "notifications": req.Get("notifications"),
	})
	if err == nil {
		err = from.Notify(ctx, note)
	}
	if err == nil {
		<-ctx.Done()
		err = context.Cause(ctx)
	}
	return nil, err
}

// open serves the server at a socket and returns its URL.
func (s *fixedServer) open(t *testing.T) string {
	return "unix:" + openSocket(t, &stdio.Server{Acceptor: s})
}

// openSocket serves clients at a Unix socket until the test ends, and returns its path.
func openSocket(t *testing.T, s *stdio.Server) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fixed") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	l, err := stdio.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }() // ends with the server
	t.Cleanup(func() {
		_ = s.Close()
		if err := <-served; !errors.Is(err, stdio.ErrServerClosed) {
			t.Error(err)
		}
		_ = os.RemoveAll(dir)
	})
	return path
}

// An insideGateway is a gateway in the process of the test.
type insideGateway struct {
	*core.Gateway
	base   string // of its URLs
	socket string // the path of that for messages as lines
}

// insideServe starts a gateway for the text of a configuration, and waits for its servers.
// If it is single, it is made as "dragoman run" makes it.
func insideServe(t *testing.T, text string, single bool) *insideGateway {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dragoman.yaml")
	writeFile(t, path, text)
	file, report := config.Load(nil, path)
	if len(report.Errors) > 0 {
		t.Fatal(report)
	}
	made, err := observe.NewGateway(&core.Options{Name: "gateway", Version: "1", Single: single}, file, slog.LevelInfo)
	if err != nil {
		t.Fatal(err)
	}
	g := &insideGateway{Gateway: made}
	web := httptest.NewServer(made.Handler(nil))
	g.base = web.URL
	t.Cleanup(func() {
		if err := made.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		web.Close()
	})
	g.socket = openSocket(t, &stdio.Server{Acceptor: made.Acceptor(), Caller: made.SocketCaller})
	for _, up := range made.Upstreams() {
		if _, err := up.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !single {
		gatewaytest.Eventually(t, func() error {
			for _, s := range made.Status().Servers {
				if s.State != "ready" || s.Tools != 2 {
					return fmt.Errorf("%s is %s and has %d tools", s.Name, s.State, s.Tools)
				}
			}
			return nil
		})
	}
	return g
}

// insideBoth starts a gateway with a fixed server of each era, by whose name it is called.
func insideBoth(t *testing.T, onCall func()) *insideGateway {
	t.Helper()
	var text strings.Builder
	text.WriteString("servers:\n")
	for _, era := range gatewaytest.Eras {
		fmt.Fprintf(&text, "  %s: {url: %q}\n", era, (&fixedServer{era: era, onCall: onCall}).open(t))
	}
	text.WriteString("groups:\n")
	for _, era := range gatewaytest.Eras {
		fmt.Fprintf(&text, "  %s: {servers: [%[1]s]}\n", era)
	}
	return insideServe(t, text.String(), false)
}

// insideSingle starts a gateway with one fixed server, as "dragoman run" does.
func insideSingle(t *testing.T, era protocol.Era, onCall func()) *insideGateway {
	t.Helper()
	return insideServe(t, fmt.Sprintf("servers: {%s: {url: %q}}", era, (&fixedServer{era: era, onCall: onCall}).open(t)), true)
}
