// Package client uses an MCP server of any era over any transport.
//
//	c, err := client.Connect(ctx, &client.Server{URL: "https://example.com/mcp"}, nil)
//	defer c.Close()
//	result, err := c.CallTool(ctx, "add", map[string]int{"a": 1, "b": 2}, nil)
//
// A Client that [Connect] returns speaks the server's own era, which it finds out. It
// stands in front of an [era.Server]: a conversation that is lost is opened again by
// the next request, with its handshake, log level and subscriptions. A request that may
// have reached the server is sent again only if its method does nothing but read.
// [New] makes a Client for any peer of the modern era.
//
// An error of the server is a *[dragoman.Error]. If the caller's context ends
// first, the error is its cause, and the server has been told. Every
// other request without an answer fails with an *[Error], whose [Kind] says what
// happened.
package client
