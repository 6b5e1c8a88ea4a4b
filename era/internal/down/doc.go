// Package down serves clients of the modern era with a server of the legacy era. Package era
// uses it.
//
// A [Server] takes modern requests. Each caller has one session with the legacy server,
// initialized with the capabilities of that caller, and all its calls run there side by side:
//
//	request ──▶ envelope ──▶ the caller's session ──▶ legacy server
//
// A request during which the server can ask nothing is one Call on the goroutine that brought
// it. Any other is a [call] with its own goroutine, because it can outlive its request: a
// server request ends the client's request with input_required, and the call is suspended
// until the client's retry. The retry finds it by a sealed requestState (AES-GCM over
// instance, call, caller, method, digest of the request, expiry, round). No call is sent
// twice, except those that only read.
//
// A server request is carried by the call that the connection assigns it to, or by the
// likeliest call of the session that can be asked: one with a waiting client request, then one
// of a tool that has asked before, then the oldest. All are of one caller. Without any call it
// waits for the next, which is sent only after the response: servers ask for roots right after
// the handshake. A session that several callers share declares no capabilities. A list change
// is reported to all subscriptions of its caller.
//
//	server.go    takes requests, and chooses the session
//	session.go   one connection: handshake, log level, notifications
//	question.go  server requests, and the calls that carry them
//	call.go      one request upstream, and the client's request that waits for it
//	suspend.go   suspended calls
//	listen.go    one subscription of a client
//	list.go      cursors
//	url.go       calls that need the user to visit a web site first
//	task.go      tools that the server runs as tasks only
//
// The lock of a session guards its calls and questions. Locks are taken in the order session,
// suspended, pool, and none is held while other code runs.
//
// Limits that docs/limits.md does not have:
//
//	suspended calls; of one caller          1,024; 64           questions get an error
//	server requests of a session            1,024; 10 min       −31004; answered as cancelled
//	progress kept for a suspended call      64 KiB              left out
//	states of visited URLs, in 10 min       16,384, 1,024 of    −31004
//	                                        one caller
//	a ping after the handshake (roots),     250 ms              the calls are sent
//	after responses that calls wait for
//	a server request on our own connection  2 s                 an error
//	tools known to ask                      1,024               all are forgotten
package down
