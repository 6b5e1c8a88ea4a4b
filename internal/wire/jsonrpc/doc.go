// Package jsonrpc keeps the requests that are in flight on a connection, and makes a
// [dragoman.Conn] of a stream of messages. It owns the ids and progress tokens that go over
// the wire. The transports are made of it: stdio, WebSocket and HTTP+SSE of a [Conn], the
// client of Streamable HTTP of the tables only.
//
// The tables do no I/O. [Calls] holds the requests that we sent: it replaces ids and progress
// tokens by its own, restores the caller's, and ends calls that take too long. [Requests]
// holds the requests that we received. A [Queue] holds notifications for a consumer that takes
// them in order; an [Inbox] delivers them in the background.
//
// What a Conn receives is routed by method first, then by id:
//
//   - a response ends the call that its id belongs to; late, repeated and unknown ones are
//     dropped;
//   - progress belongs to the call whose token it names; a change belongs to the listen whose
//     subscription it names, or, if it names none, to all listens that want it;
//   - a log message or a request of the server belongs to the only call in flight, because
//     a pipe does not say to which; if there are none or several, to the local peer. The
//     requests of a client always go to the local peer (option Server);
//   - all other notifications go to the local peer, in order.
//
// Nothing that follows initialize or notifications/initialized is handled before they are
// done.
//
// Our ids come from one counter for the whole process, which starts at a random number: some
// servers send each response to all of their clients, and the response of another connection
// must not match a call here. They lie between 2³⁰ and 2³¹, out of the way of programs that
// count from 1, and readable by servers that keep ids in 32 bits.
//
// Goroutines of a Conn, which all end with it:
//
//	reader  reads, parses, routes; serves short requests itself, since waking a thread costs
//	        more. After two milliseconds another goroutine takes over the reading
//	writer  writes what gathers while a caller's goroutine writes
//	inbox   delivers notifications to the local peer, while there are any
//	worker  serves one request at a time; ends after a second without work
//
// A caller writes its own request if no write is in progress, and passes progress and logs to
// its from while it waits. So a response or a notification costs no goroutine.
//
// Limits, unless configured:
//
//	calls in flight                1,024        ErrOverloaded, not sent
//	requests in flight             1,024        answered with −31004
//	messages held up by the        1,024 and    the Conn ends with ErrOverloaded
//	handshake                      4 MiB
//	bytes waiting to be written    4 MiB        requests and responses wait; progress keeps
//	                                            the newest, logs are dropped; at twice that
//	                                            changes end the Conn with ErrSlow
//	notifications waiting for a    1,024 or     progress keeps the newest, repeated ones
//	caller or for the local peer   4 MiB        are left out, others dropped
package jsonrpc
