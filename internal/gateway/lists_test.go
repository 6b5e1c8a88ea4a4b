package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// A call at an endpoint needs the list of tools to check headers, arguments and rules, and the connection to the
// server to set headers. All have it from the catalog.
func TestCallsMakeNoRequestsForLists(t *testing.T) {
	var lists atomic.Int32
	server := builtin.New(&builtin.Options{Revisions: []protocol.Revision{protocol.Latest}})
	endpoint := &streamable.Server{Requests: server.Requests()}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(protocol.HeaderMethod) == protocol.MethodListTools {
			lists.Add(1)
		}
		endpoint.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		_ = server.Close()
		_ = endpoint.Shutdown(within(t))
		web.Close()
	})
	g := begin(t, fmt.Sprintf("servers:\n  a: {url: %q}\nrules: [\"allow anyone if read-only\", \"allow anyone tools echo\"]\n", web.URL))
	g.ready()
	for range 2 {
		for path, tool := range map[string]string{"/servers/a/mcp": "echo", "/mcp": "a_echo"} {
			era := protocol.Modern
			c, err := client.Connect(within(t), &client.Server{URL: g.url + path, Transport: "http-only"}, &client.Options{Name: "guest", Version: "1", Era: &era})
			if err != nil {
				t.Fatal(err)
			}
			echo(t, c, tool)
			_ = c.Close()
		}
		for path, tool := range map[string]string{"/servers/a/call/": "echo", "/call/": "a_echo"} {
			resp, err := http.Post(g.url+path+tool, "application/json", strings.NewReader(`{"text":"x"}`)) //nolint:noctx // a server of this test
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%s%s: %s", path, tool, resp.Status)
			}
		}
	}
	if n := lists.Load(); n != 1 {
		t.Errorf("the server was asked for its tools %d times, want once", n)
	}
}
