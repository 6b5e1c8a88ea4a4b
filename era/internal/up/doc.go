// Package up carries clients of the legacy era to a server of the modern one.
//
// A [Server] has one link to the modern server, which all its sessions share.
// What a legacy session remembers is remembered here: who the client is, its log
// level, what it subscribed to. Every request goes up with all of that in its
// envelope.
//
//	session.go     one legacy conversation; what is answered here
//	initialize.go  the handshake, out of server/discover (discover.go)
//	call.go        a request on its way up, and its answer on the way down
//	rounds.go      answers that need input: the client is asked (ask.go), then
//	               the request is sent again
//	tasks.go       answers that are a task: it is followed to its end
//	subscribe.go   changes: one subscriptions/listen for all that a session
//	               wants to hear of
//
// A plain call costs no goroutine. A session that hears of changes has two: one
// that owns its subscriptions and one that waits in the listen.
package up
