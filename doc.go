// Package dragoman has the types that all other packages share: a [Message] is one message of
// the Model Context Protocol as bytes, a [Peer] takes requests and notifications, a [Conn] is
// an open connection to one. It does no I/O and starts no goroutines; the transports, in the
// packages under transport/, do. To use a server, begin with package client; to bridge or
// serve, with era and a transport.
//
//	server := &stdio.Command{Path: "npx", Args: []string{"-y", "some-server"}} // a Dialer
//	conn, err := server.Dial(ctx, nil)
//	defer conn.Close()
//	req, err := dragoman.NewRequest(dragoman.IntID(1), "tools/list", nil)
//	resp, err := conn.Call(ctx, req, nil) // after a handshake; package client makes that
//
// Clients and servers are both Peers. So a bridge is a Peer that passes on what it receives,
// and timeouts, limits and translations are Peers around Peers.
//
// [Parse] checks a message once: JSON and UTF-8 (else −32700); at most 128 levels; one object
// with jsonrpc "2.0" in a known shape; an id that is a string or an integer; params and _meta
// that are objects; no name twice in the envelope, in params or in _meta, nor a reserved name
// in another case or with NULs; no half surrogate pair in id, method, name or uri (else
// −32600). A message over 16 MiB, unless configured, is [ErrTooLarge]. Everything else passes
// unchanged. A change is a splice: [Message.WithID] copies nothing, [Message.Edit] copies
// once.
package dragoman

// Version is the version of this library, which it introduces itself with where
// nobody says otherwise.
const Version = "0.7.0-dev"
