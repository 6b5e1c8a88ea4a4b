// Package manager keeps servers running that have names.
//
//	config.Server ──▶ Upstream ──▶ instance: target's dialer ─ keeper ─ era.Server
//	                     │
//	                     └─ doors: drained? ─ cache of lists ─ wait for the server ─ admission ─ era.Server's doors
//
// An [Upstream] is one server of a configuration. Its keeper is the dialer that
// era has: it knows every conversation, waits between attempts, and gives up for a
// while on a server that keeps ending. Its attendant is a client of our own that
// starts the server, keeps the lists of what it offers, and looks after its health.
//
// Nothing that has been sent is sent again, except by era, which repeats what only
// reads.
package manager
