package badserver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// Good returns the built-in server, with which nothing is wrong, on each transport behind a URL, by
// the transport's name. It ends with the test.
func Good(t *testing.T) map[string]*target.Spec {
	t.Helper()
	server := builtin.New(&builtin.Options{Version: "1"})
	t.Cleanup(func() { _ = server.Close() })
	old := &sse.Server{Acceptor: server, MessagesPath: "/messages"}
	mux := http.NewServeMux()
	mux.Handle("/mcp", &streamable.Server{Sessions: server, Requests: server.Requests()})
	mux.Handle("/sse", old.Stream())
	mux.Handle("/messages", old.Messages())
	mux.Handle("/ws", &ws.Server{Acceptor: server})
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	return map[string]*target.Spec{
		"Streamable HTTP": {URL: web.URL + "/mcp"},
		"HTTP+SSE":        {URL: web.URL + "/sse"},
		"WebSocket":       {URL: "ws" + strings.TrimPrefix(web.URL, "http") + "/ws"},
	}
}
