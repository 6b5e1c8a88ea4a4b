// Package dragoman has the types that all other packages share: a [Message] is one
// message of the Model Context Protocol as bytes, a [Peer] is somebody who can be
// asked and told, a [Conn] is an open conversation with one. It does no I/O and
// starts no goroutines; the transports, in the packages under transport/, do. To use
// a server, begin with package client; to bridge or serve, with era and a transport.
//
//	server := &stdio.Command{Path: "npx", Args: []string{"-y", "some-server"}} // a Dialer
//	conn, err := server.Dial(ctx, nil)
//	defer conn.Close()
//	req, err := dragoman.NewRequest(dragoman.IntID(1), "tools/list", nil)
//	resp, err := conn.Call(ctx, req, nil) // after a handshake; package client makes that
//
// Everything that can be spoken to is a Peer, client and server alike, so a
// bridge is a Peer that passes on what it is given, and timeouts, limits and
// translations are Peers around Peers.
package dragoman

// Version is the version of this library, which it introduces itself with where
// nobody says otherwise.
const Version = "0.7.0-dev"
