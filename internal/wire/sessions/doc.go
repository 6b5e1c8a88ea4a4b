// Package sessions holds what outlives one connection of a legacy session. [Memory] is the
// handshake, log level and subscriptions that a server has received, so that they can be
// repeated to another process of it; package era uses it too. The rest is the record of a
// session over HTTP: how another server takes it over once, and what becomes of the calls that
// were in flight.
//
// A session is recorded when it is opened and when its log level or subscriptions change,
// never during a call. A server that finds an unknown session id in the store makes the
// session, repeats the handshake, and continues. A stream that waited for a response when the
// process ended gets −31003.
package sessions
