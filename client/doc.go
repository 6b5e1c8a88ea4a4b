// Package client uses an MCP server of any era over any transport.
//
//	c, err := client.Connect(ctx, &client.Server{URL: "https://example.com/mcp"}, nil)
//	defer c.Close()
//	result, err := c.CallTool(ctx, "add", map[string]int{"a": 1, "b": 2}, nil)
//
// A [Client] that [Connect] returns uses the server's own era, which it detects. It is in
// front of an [era.Server]: after a lost connection the next request opens another one, with
// its handshake, log level and subscriptions. A request that may have reached the server is
// sent again only if its method only reads. [New] makes a Client for any peer of the modern
// era.
//
// An error of the server is a *[dragoman.Error]. If the caller's context ends first, the error
// is its cause, and the server has been sent a cancellation. Every other request without a
// response fails with an *[Error], whose [Kind] says what happened.
package client
