// Package ws carries MCP over WebSocket. No revision of the protocol defines
// that; this package speaks it as existing clients and servers do.
//
//	http.Handle("/ws", &ws.Server{Acceptor: acceptor})                        // a server
//	conn, err := (&ws.Client{URL: "wss://mcp.example.com/ws"}).Dial(ctx, nil) // a client
//
// Messages go as on standard input and output: one JSON-RPC message is one text
// message of the socket, of either era, and a call is cancelled by
// notifications/cancelled. The subprotocol is "mcp".
//
// Beside it stands a simpler dialect, tool frames: {"id":1,"name":"add",
// "arguments":{"a":1}} calls a tool, and the answer is a JSON-RPC response with
// that id. [Server] understands both. A client that asks for "mcp" speaks
// JSON-RPC; otherwise its first message decides, for as long as the socket is
// open. [Client] speaks tool frames if Tools is set.
//
// Each side pings the other and closes the connection if nothing comes back. Calls
// that wait when the other side closes the socket fail with a [CloseError].
//
//	1000  closed in good order     1007  text that is not UTF-8
//	1001  the server is stopping   1008  too much at once
//	1002  not WebSocket            1009  a message over the limit
//	1003  a binary message         1011  the server cannot serve the client
//	                               1013  the server has no room for it now
package ws
