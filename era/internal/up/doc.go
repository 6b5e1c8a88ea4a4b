// Package up serves clients of the legacy era with a server of the modern era. Package era
// uses it.
//
// A [Server] has one link to the modern server, which all its sessions share. It owns what a
// legacy session implies: who the client is, its log level, what it subscribed to. Every
// request goes up with all of that in its envelope.
//
//	session.go     one legacy session; what is answered here
//	initialize.go  the handshake, from server/discover (discover.go)
//	call.go        a request and its response
//	rounds.go      results that need input: the client is asked (ask.go), then the
//	               request is sent again
//	tasks.go       results that are a task: it is polled until it ends
//	subscribe.go   changes: one subscriptions/listen for all subscriptions of a session
//
// A plain call costs no goroutine. A session with subscriptions has two: one that owns them
// and one that waits in the listen.
//
//	rounds of one request                10, together 10 min      isError for tools, else −32603
//	server requests in one round         64                       −32603
//	subscriptions of a session           1,024, URIs of 256 KiB   −31004
//	polls of a task                      every 100 ms to 30 s     the call fails after 5 failures
package up
