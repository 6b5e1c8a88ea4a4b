// Package gosdk lets programs that are made with the official Go SDK use every transport of
// Dragoman.
//
//	// A client of the SDK, over WebSocket:
//	session, err := client.Connect(ctx, gosdk.Transport(&ws.Client{URL: "ws://127.0.0.1:8808/ws"}), nil)
//
//	// A server of the SDK, for clients of either era, over any number of transports:
//	s := &era.Server{Dialer: gosdk.Dialer(server)}
//	defer s.Close()
//	http.Handle("/mcp", &streamable.Server{Sessions: s, Requests: s.Requests()})
//	http.Handle("/ws", &ws.Server{Acceptor: s})
//	err := stdio.Serve(ctx, s, nil)
//
// The SDK reads and writes messages; a [dragoman.Peer] is asked and answers. What lies
// between is handled here: the SDK is given ids of its own, small ones, because it rounds
// large ones and takes some for others; a request that could not be delivered is answered
// by an error and does not end the session; what a server tells and asks while it
// works on a request travels with that request; a cancel reaches whoever works on
// the request.
package gosdk
