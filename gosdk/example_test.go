package gosdk_test

import (
	"context"
	"fmt"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/gosdk"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A server of the official SDK for clients of either era. A program would serve the bridge by
// streamable.Server, ws.Server and stdio.Serve.
func ExampleDialer() {
	server := mcp.NewServer(&mcp.Implementation{Name: "greeter", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "greet"}, func(_ context.Context, _ *mcp.CallToolRequest, in struct{ Name string }) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello " + in.Name}}}, nil, nil
	})
	bridge := &era.Server{Dialer: gosdk.Dialer(server)}
	defer bridge.Close()

	for _, wanted := range []protocol.Era{protocol.Legacy, protocol.Modern} {
		c, err := client.Connect(context.Background(), &client.Server{Dialer: dragoman.Local(bridge)}, &client.Options{Name: "me", Version: "1", Era: &wanted})
		if err != nil {
			fmt.Println(err)
			return
		}
		result, err := c.CallTool(context.Background(), "greet", map[string]string{"Name": "Ada"}, nil)
		_ = c.Close()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(wanted, result.Content[0].Text)
	}
	// Output:
	// legacy hello Ada
	// modern hello Ada
}
