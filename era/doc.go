// Package era lets clients of either era use a server of either era.
//
//	server := &era.Server{Dialer: &stdio.Command{Path: "some-server"}} // finds out its era
//	defer server.Close()
//	http.Handle("/mcp", &streamable.Server{Sessions: server, Requests: server.Requests()})
//
// [FromMethods] makes a server of functions, [NewFront] one of a peer of the modern era.
//
// The legacy era is that of revisions with a handshake, a session, and a server
// that asks its client. In the modern era every request stands for itself. A
// [Server] is one server, with a door for the clients of each era. Each client is
// served in its own era if the server speaks it; only a server of one era needs the
// crossing:
//
//	client \ server   legacy                        modern
//	legacy            legacySession: one of its     up: input rounds become questions
//	                  own
//	modern            down: questions become        passed on
//	                  input rounds
//
// Each caller has its own conversations with the server: one that all its modern
// requests share, and one for each of its legacy sessions; [Isolation] says
// otherwise. They are kept in one pool, which bounds them.
//
// Between the two sides messages stay as they are, except for what the other
// side's revision does not have.
//
//	server.go    a server, and where a request goes
//	front.go     the doors
//	methods.go   a server that is made of functions
//	probe.go     which eras the server speaks
//	legacy.go    legacy client, legacy server
//	modern.go    conversations in the modern era
//	warm.go      conversations that nobody uses yet
package era
