// Package gateway serves the servers of a configuration to clients, over every transport and
// in either era. It puts together what its sub-packages own: configuration, upstreams,
// aggregates, stored records. The public package gateway and the commands use it. It opens no
// sockets.
//
// Each server is at /servers/NAME, all of them together at the root, and those of a group at
// /groups/NAME. Below each of these are the endpoints: /mcp (Streamable HTTP), /sse with
// /messages (HTTP+SSE), /ws (WebSocket) and /call (tool calls over plain HTTP).
//
//	gateway.go   what a configuration becomes, now and when it changes
//	reload.go    when the files change
//	routes.go    which endpoint a path leads to
//	endpoint.go  a server or an aggregate over every transport
//	pipeline.go  the steps of a request, put together
//	filter.go    what a caller is offered of a server (authorize)
//	bound.go     values of a server that are bound to a principal
//	access.go    authentication
//	front.go     sign-in of users
//	record.go    events: start and stop, reloads, sessions, refusals
//	state.go     what outlives the process, and whether it was written
//	status.go    the status, for the public, the owner, and a browser
//	control.go   what the owner can do while it runs
//
// A request passes these steps, which pipeline.go puts together. There is one chain per server,
// for its own endpoint and for each aggregate that it is a member of:
//
//	Host, Origin ─▶ CORS ─▶ authenticate ─▶ route ─┬─ /servers/NAME ─▶ observe ─▶ admit ─▶ chain
//	                                               └─ aggregate ─▶ observe ─▶ admit ─▶ front ─▶ aggregate ─▶ observe ─▶ chain
//
//	chain: authorize ─▶ upstream
//
// The order matters. Package event observes everything, and makes the response of a refusal
// by a later step. The filter is before the limits of the server, which are the upstream's, so
// that calls that are refused do not use up a rate; behind it names are the server's own. A request for something that is not offered gets
// the error for something that does not exist, and is not sent. Values that a server wants
// back (states, cursors, task ids) carry a MAC of the principal; nothing is stored for that,
// and an invalid one is refused. In the legacy era tasks are the session's own and stay as
// they are.
//
// Limits of callers and sessions (package admission) are counted for all endpoints together, by
// principal or address, never by what the client calls itself. A rate is kept as the time at
// which its bucket will be full: one number per caller, and no goroutine. Both kinds of limits
// take 0.4 µs per call; a step without limits does not exist.
//
// The table of routes is replaced as a whole. Reloads come one after another: start new
// upstreams, which get new requests from then on, make endpoints for new names, swap the table,
// set the members of aggregates, retire upstreams that were replaced, shut down the endpoints of
// names that are gone. The endpoint and the chain of a name stay for as long as it is
// configured, and with them the connections and sessions of clients. If the store is a
// directory, sessions continue in the next process too. When filters or rules
// change, the chain reports the list changes to sessions and subscriptions that may receive
// them. A server with errors in the configuration has no upstream but stays a member of its
// aggregates, unavailable, so its names do not become those of another server.
//
// The control socket is in a directory of its owner and refuses descendants of this process
// (Linux), so a server cannot control the gateway that runs it.
package gateway
