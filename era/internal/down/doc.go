// Package down carries clients of the modern era down to a server of the legacy
// era.
//
// A [Server] is the modern door. Behind it is a pool of sessions with the legacy
// server, each initialized with what its clients can be asked, and used by one
// caller only:
//
//	request ──▶ envelope ──▶ session of (caller, capabilities) ──▶ legacy server
//
// A request that the server cannot answer by asking is one Call on the goroutine
// that brought it. One that may be asked is a [call], which has a goroutine of its
// own, because it can outlive its request: a question of the server ends the
// request with an input_required result, and the call stays where it is until the
// client comes back with answers. No call is ever sent a second time, except for
// those that only read.
//
// Who owns what:
//
//	pool     which sessions there are, who uses them, how many there may be
//	session  one conversation: its handshake, log level, subscriptions; says
//	         which call a question or a log message belongs to
//	call     one request upstream, its questions, and the client's request that
//	         waits for it, if one does
//	desk     calls that nobody waits for
//	listen   one subscription of a client
//
// Locks are taken in the order call, desk, session, pool where more than one is
// held at all, and none is held while somebody else's code runs.
package down
