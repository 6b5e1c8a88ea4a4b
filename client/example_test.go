package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

func ExampleConnect() {
	builtIn := builtin.New(nil)
	web := httptest.NewServer(&streamable.Server{Sessions: builtIn, Requests: builtIn.Requests()})
	defer web.Close()

	ctx := context.Background()
	server := &client.Server{URL: web.URL} // or Command: []string{"npx", "-y", "some-server"}
	c, err := client.Connect(ctx, server, &client.Options{Name: "example", Version: "1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	fmt.Println(c.ServerInfo().Name, "speaks the", c.Era(), "era")

	result, err := c.CallTool(ctx, "echo", map[string]string{"text": "hello"}, nil)
	switch rpc, answered := errors.AsType[*dragoman.Error](err); {
	case answered:
		fmt.Println("the server says no:", rpc.Message)
	case errors.Is(err, client.Timeout):
		fmt.Println("the server takes too long")
	case err != nil:
		fmt.Println(err)
	default:
		fmt.Println(result.Text())
	}
	// Output:
	// dragoman-everything speaks the modern era
	// hello
}

func ExampleCall() {
	builtIn := builtin.New(nil)
	web := httptest.NewServer(&streamable.Server{Sessions: builtIn, Requests: builtIn.Requests()})
	defer web.Close()

	result, err := client.Call(context.Background(), web.URL, "tools/call", map[string]any{
		"name": "test_error_handling", "arguments": map[string]any{},
	}, nil)
	fmt.Println(len(result) > 0, err)
	// Output: true <nil>
}

// A client of a server in this process, which is of the modern era.
func ExampleNew() {
	server := builtin.New(nil)
	defer server.Close()
	c := client.New(server.Requests(), nil)
	defer c.Close()
	result, err := c.CallTool(context.Background(), "echo", map[string]string{"text": "hello"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Text())
	// Output: hello
}
