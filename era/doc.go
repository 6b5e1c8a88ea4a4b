// Package era lets clients of either era use a server of either era. Put a [Server] between a
// transport that clients come in by and a Dialer that reaches the server.
//
//	server := &era.Server{Dialer: &stdio.Command{Path: "some-server"}} // finds out its era
//	defer server.Close()
//	http.Handle("/mcp", &streamable.Server{Sessions: server, Requests: server.Requests()})
//
// [FromMethods] makes a server of functions, [NewFrontend] one of a peer of the modern era.
//
// The legacy era is that of revisions with a handshake, a session, and requests of the server
// to its client. In the modern era every request stands for itself. A [Server] takes legacy
// clients by Accept and modern requests by Requests. Each client is served in its own era if
// the server speaks it; only a server of one era needs a translation:
//
//	client \ server   legacy                                      modern
//	legacy            a session of its own                        input rounds become requests
//	modern            server requests become input rounds         passed on
//
// A server is modern if it answers server/discover, which no legacy server knows; one error
// code alone is not enough. A process that has read that request and is silent for a fifth of
// the time for its response, or answers −32600 or −32602, is assumed to be legacy, and the
// next initialize goes to the same process. A server that is remembered as legacy is not
// asked. Where it is unknown what a process has read, a second connection tries a handshake
// after five seconds. What was found out is forgotten when a handshake fails or the server is
// started again.
//
// All connections to a server are in one pool. A modern caller has one for all its requests, a
// legacy session its own; [Isolation] changes that. One connection is Dragoman's own: it
// declares all capabilities, so that a legacy server hides nothing.
//
// A request that is lost with its connection gets −31003. It is sent again only if its method
// only reads, or the server refused it because its session was gone. A legacy session survives
// the loss of its server: the next request opens another connection and repeats handshake, log
// level and subscriptions. If a tool was called in the lost session, the next response says so
// in _meta["dragoman/session-renewed"].
//
// Messages are changed only where the other side's revision differs.
//
//	opening a connection; time for the    60 s; 5 s, 30 s for commands that may install the
//	response to server/discover           server, three times that with a hint
//	an initialize                         256 KiB; to survive the server 64 KiB
//	answers of an input round that a      10 min
//	function of FromMethods has asked for
package era

// The files, in the order in which to read them:
//
//	server.go    a server, and where a request goes
//	front.go     what clients of each era come in by
//	methods.go   a server that is made of functions; call.go has what these use
//	probe.go     which eras the server speaks
//	legacy.go    legacy client, legacy server
//	modern.go    conversations in the modern era
//	warm.go      conversations that nobody uses yet
//
//	internal/up      legacy client, modern server
//	internal/down    modern client, legacy server
//	internal/rounds  what input rounds need that are made here
//	internal/adapt   a message of one revision in another
//	internal/pool    the conversations with the server
