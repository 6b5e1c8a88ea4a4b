// Package gateway lets clients to the servers of a configuration, over every
// transport and in either era.
//
// Each server is at /servers/NAME, all of them together at the root, and those of
// a group at /groups/NAME. Below each of these are the doors: /mcp (Streamable
// HTTP), /sse with /messages (HTTP+SSE), /ws (WebSocket) and /call (tool calls over
// plain HTTP).
//
//	doors.go    every transport in front of one server
//	routes.go   which doors a path leads to
//	chain.go    one server, with what is offered of it (filter.go) and who hears when that
//	            changes (listeners.go)
//	union.go    several servers as one
//	calls.go    what of this is logged
//	audit.go    what of all this is written down
//	gateway.go  what a configuration turns into, now and when it changes
//	reload.go   when the files change
//	status.go   what can be asked about all this, by everybody and by the owner
//	page.go     what a person sees who comes with a browser
//	control.go  what the owner can do while it runs
//
// A Gateway opens no sockets: who has one serves it with what is here.
package gateway
