// Package gateway lets clients to the servers of a configuration, over every
// transport and in either era.
//
// Each server is at /servers/NAME, all of them together at the root, and those of
// a group at /groups/NAME. Below each of these are the doors: /mcp (Streamable
// HTTP), /sse with /messages (HTTP+SSE), /ws (WebSocket) and /call (tool calls over
// plain HTTP).
//
//	gateway.go  what a configuration turns into, now and when it changes
//	reload.go   when the files change
//	doors.go    every transport in front of one server, and which doors a path leads to
//	chain.go    one server, who hears when what it offers changes, and several as one
//	filter.go   what a caller is offered of a server
//	bound.go    what a server gives out is good for who got it
//	access.go   who may come in
//	front.go    where users sign in
//	limits.go   how much callers, sessions and servers may have and do
//	record.go   what of all this is logged, and written down in the audit log
//	state.go    what outlives the process, and whether it is written
//	status.go   what can be asked about all this, by everybody, by the owner, and with a browser
//	control.go  what the owner can do while it runs
//	tap.go      what the owner is shown of what passes
//
// A Gateway opens no sockets: who has one serves it with what is here.
package gateway
