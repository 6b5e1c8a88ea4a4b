// Package sessions holds what outlives one connection of a legacy session: the handshake that
// a server has heard ([Memory]), so that another server, or the same one after a loss, can
// hear it again; and the record of a session over HTTP, how another server takes it over
// once, and what becomes of the calls that were in flight.
package sessions
