// Package ws carries MCP over WebSocket. No revision of the protocol defines
// that; this package speaks it as existing clients and servers do.
//
//	http.Handle("/ws", &ws.Server{Acceptor: acceptor})                        // a server
//	conn, err := (&ws.Client{URL: "wss://mcp.example.com/ws"}).Dial(ctx, nil) // a client
//
// One JSON-RPC message is one text message of the socket, of either era, and a call is
// cancelled by notifications/cancelled, as on stdio. The subprotocol is "mcp".
//
// There is a simpler dialect, tool frames: {"id":1,"name":"add","arguments":{"a":1}} calls a
// tool, and the response is a JSON-RPC response with that id. A [Server] translates them
// below the connection. A client that asks for "mcp" speaks JSON-RPC; otherwise its first
// message decides for as long as the socket is open. [Client] speaks tool frames if Tools is set.
//
// Each side pings the other and closes the connection if nothing comes back. Calls
// in flight when the other side closes the socket fail with a [CloseError]. On shutdown a
// Server refuses new requests and closes with 1001 after its last response.
//
//	1000  closed in good order     1007  text that is not UTF-8
//	1001  the server is stopping   1008  too much at once
//	1002  not WebSocket            1009  a message over the limit
//	1003  a binary message         1011  the server cannot serve the client
//	                               1013  the server has no room for it now
//
// The raw connection is held below the WebSocket library, so that a close can be cut, any
// byte counts as a sign of life, and what is written together goes out in one system call.
//
// Limits, by default:
//
//	tool frames in flight           1,024                             −31004
//	one write                       30 s                              cut, ErrSlow
//	ping                            every 25 s; any byte within 30 s  cut
//	response to a close             2 s                               cut
//	what still comes after a close  0.5 s, 256 KiB                    closed without reading it
package ws
