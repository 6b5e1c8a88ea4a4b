package era_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	library "github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// A server of tools on Streamable HTTP and on standard input and output, for clients of
// every revision. A program would end with http.ListenAndServe and stdio.Serve.
func ExampleFromMethods() {
	server := era.FromMethods(dragoman.Methods{
		"tools/list": func(context.Context, *dragoman.Message, dragoman.Peer) (any, error) {
			return json.RawMessage(`{"tools":[{"name":"greet","inputSchema":{"type":"object"}}]}`), nil
		},
		"tools/call": func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (any, error) {
			if req.Name() != "greet" {
				return nil, &dragoman.Error{Code: protocol.CodeInvalidParams, Message: "Unknown tool: " + req.Name()}
			}
			return json.RawMessage(`{"content":[{"type":"text","text":"hello"}]}`), nil
		},
	}, &era.FrontendOptions{Name: "greeter", Version: "1"})
	defer server.Close()
	web := httptest.NewServer(&streamable.Server{Sessions: server, Requests: server.Requests()})
	defer web.Close()
	in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}` + "\n") // os.Stdin
	_ = stdio.ServeIO(context.Background(), server, in, os.Stdout, nil)

	callGreet(web.URL, protocol.Legacy)
	callGreet(web.URL, protocol.Modern)
	// Output:
	// {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"greeter","version":"1"}}}
	// greeter, legacy era: hello
	// greeter, modern era: hello
}

// callGreet calls the tool greet over HTTP, in an era.
func callGreet(url string, e protocol.Era) {
	ctx := context.Background()
	c, err := library.Connect(ctx, &library.Server{URL: url}, &library.Options{Era: &e})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	result, err := c.CallTool(ctx, "greet", nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s, %s era: %s\n", c.ServerInfo().Name, c.Era(), result.Text())
}

// A server of the legacy era, for clients of both.
func ExampleServer() {
	old := builtin.New(&builtin.Options{Revisions: []protocol.Revision{protocol.LatestLegacy}})
	defer old.Close()
	server := &era.Server{Dialer: dragoman.Local(old)} // or &stdio.Command{…}, &streamable.Client{…}
	defer server.Close()
	web := httptest.NewServer(&streamable.Server{Sessions: server, Requests: server.Requests()})
	defer web.Close()

	modern := protocol.Modern
	c, err := library.Connect(context.Background(), &library.Server{URL: web.URL}, &library.Options{Era: &modern})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	result, err := c.CallTool(context.Background(), "echo", map[string]string{"text": "across"}, nil)
	fmt.Println(result.Text(), err)
	// Output: across <nil>
}

// A peer of the modern era, for clients of both.
func ExampleNewFrontend() {
	only := builtin.New(&builtin.Options{Revisions: []protocol.Revision{protocol.Latest}})
	defer only.Close()
	front := era.NewFrontend(only.Requests(), nil)
	defer front.Close()

	legacy := protocol.Legacy
	c, err := library.Connect(context.Background(), &library.Server{Dialer: dragoman.Local(front)}, &library.Options{Era: &legacy})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	fmt.Println(c.Revision())
	// Output: 2025-11-25
}
