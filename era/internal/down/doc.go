// Package down carries clients of the modern era down to a server of the legacy
// era.
//
// A [Server] is what modern requests come to. Each caller has one session with the
// legacy server, initialized with what that caller can be asked, and all its calls
// run there side by side:
//
//	request ──▶ envelope ──▶ the caller's session ──▶ legacy server
//
// A request that the server cannot answer by asking is one Call on the goroutine
// that brought it. One that may be asked is a [call], which has a goroutine of its
// own, because it can outlive its request: a question of the server ends the
// request with an input_required result, and the call stays where it is until the
// client comes back with answers. No call is ever sent a second time, except for
// those that only read.
//
// A question belongs to a session. It is carried by the call that the conversation
// says it belongs to, or else by the likeliest call of the session, since they are all
// one caller's; if there is none, it waits for the next.
//
//	server.go    where requests come in: what one says of its sender, and where it goes
//	session.go   one conversation: its handshake, log level, what the server tells
//	question.go  what the server asks, and which call carries it
//	call.go      one request upstream, and the client's request that waits for it
//	suspend.go   calls that nobody waits for, until the client comes back
//	listen.go    one subscription of a client
//	list.go      cursors
//	url.go       calls that need the user to visit a web site first
//	task.go      tools that the server runs as tasks only
//
// The lock of a session guards its calls and questions. Locks are taken in the
// order session, suspended, pool where more than one is held at all, and none is
// held while somebody else's code runs.
package down
