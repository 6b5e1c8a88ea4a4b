// Package streamable carries MCP over Streamable HTTP, in every revision that
// has it: with sessions and resumable streams from 2025-03-26 to 2025-11-25,
// and without either in 2026-07-28.
//
//	http.Handle("/mcp", &streamable.Server{Sessions: acceptor, Requests: peer})          // a server
//	conn, err := (&streamable.Client{URL: "https://mcp.example.com/mcp"}).Dial(ctx, nil) // a client
//
// A [Server] is an http.Handler that serves both eras on one URL.
// What a client sends says which it speaks. A [Client] is a Dialer that finds
// out what the server speaks.
package streamable
