// Package era lets clients of either era use a server of either era. Put a [Server]
// between a transport that clients come in by and a Dialer that reaches the server.
//
//	server := &era.Server{Dialer: &stdio.Command{Path: "some-server"}} // finds out its era
//	defer server.Close()
//	http.Handle("/mcp", &streamable.Server{Sessions: server, Requests: server.Requests()})
//
// [FromMethods] makes a server of functions, [NewFront] one of a peer of the modern era.
//
// The legacy era is that of revisions with a handshake, a session, and a server
// that asks its client. In the modern era every request stands for itself. A
// [Server] takes clients of the legacy era by Accept, and requests of the modern
// era by Requests. Each client is served in its own era if the server speaks it;
// only a server of one era needs a translation:
//
//	client \ server   legacy                               modern
//	legacy            a session of its own                 input rounds become questions
//	modern            questions become input rounds        passed on
//
// Each caller has its own conversations with the server: one that all its modern
// requests share, and one for each of its legacy sessions; [Isolation] says
// otherwise. They are kept in one pool, which bounds them.
//
// Between the two sides messages stay as they are, except for what the other
// side's revision does not have.
package era

// The files, in the order in which to read them:
//
//	server.go    a server, and where a request goes
//	front.go     what clients of each era come in by
//	methods.go   a server that is made of functions
//	probe.go     which eras the server speaks
//	legacy.go    legacy client, legacy server
//	modern.go    conversations in the modern era
//	warm.go      conversations that nobody uses yet
//
//	internal/up      legacy client, modern server
//	internal/down    modern client, legacy server
//	internal/adapt   a message of one revision in another
//	internal/pool    the conversations with the server
