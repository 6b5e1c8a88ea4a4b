// Package upstream keeps named servers running. A [Manager] has one [Service] and one
// [Upstream] per server of the configuration; internal/gateway passes requests to the Service.
//
//	Service ──▶ Upstream ─ retired? ─ lists ─ available? ─ slot ─▶ era.Server ─▶ supervisor ─▶ target
//
// The Service stays for as long as the name is configured. A server whose configuration has
// changed is another Upstream behind it, with an era.Server of its own. The Service remembers
// the handshake of each session, and repeats it at the new upstream when the session is used
// next. The old upstream finishes its requests in flight.
//
// The supervisor is the dialer of the era.Server: it sees every connection and its outcome,
// waits between attempts, and opens the breaker for a server that keeps failing. On a
// connection of its own, one goroutine starts the server, fetches its lists for the catalog, and
// checks its health. Requests wait for the supervisor before they are given to era, so one that arrives
// in an outage has not been sent.
//
//	manager.go     all servers, and what a configuration changes
//	service.go     one server for its clients: requests and sessions
//	upstream.go    one server as configured: its requests, and its status
//	settings.go    its configuration, with defaults
//	admit.go       slots and queue
//	lists.go       the catalog of its lists, and how that asks the server
//	supervisor.go  starts, health checks, stops
//	state.go       states, and the goroutines that wait for a change
//	outage.go      consequences of failures, and waits
//	conn.go        connections and their outcome
//	reach.go       the dialer, with what callers forward, and what must be redacted
//	credential.go  credentials for the server, and what to do when it refuses them
//	signin.go      sign-in
//	remember.go    what is known from earlier processes
//	events.go      events, and the output of servers
//
// The state changes in one table only. "Answered" is a response to a request sent after the
// last failure; "troubled" is a failure while other requests are answered:
//
//	state        wanted    answered  troubled  failed       unused
//	idle         starting  ready               backing off
//	starting               ready               backing off  idle
//	ready        starting            degraded  backing off  idle
//	degraded     starting  ready               backing off  idle
//	backing off  starting  ready                            idle
//
// Failures are connections that do not open or end by themselves, requests that do not reach
// the server (502, 503 and 504 too), and health checks. 401, 403, 429 and 500 are not.
//
// A request waits for the attempt in progress. If that fails, requests to a server that was
// available wait for more, as many as configured, for [MaxOutage] at most; requests to one
// that was not yet available wait only if the next attempt follows within [MaxPause]. A server
// that keeps failing is left alone, and requests are refused immediately. A process that ends
// when it is asked for its era may be a legacy server that cannot bear the question, so
// attempts ask and shake hands in turn.
//
// Lists are fetched on the supervisor's connection, also for callers, except as package catalog describes.
// Clients that declare extensions share one more connection per set. A server to which callers forward
// headers, or that serves a single command line, has no connection of our own: it is started
// by its clients.
//
// Limits that docs/limits.md does not have:
//
//	wait between attempts                   less up to a fifth at random; Retry-After up to 5 min
//	health failures while calls in flight   ten times the threshold
package upstream
