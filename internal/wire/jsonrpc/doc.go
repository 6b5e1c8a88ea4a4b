// Package jsonrpc keeps the requests that are in flight on a connection, whatever carries
// them, and makes a [dragoman.Conn] of a stream of messages.
//
// The tables do no I/O: [Calls] holds the requests that we sent. It gives them ids and
// progress tokens of our own and restores the caller's, finds the call that a response, a
// progress notification or a change belongs to, and ends calls that take too long.
// [Requests] holds the requests that we received. A [Queue] holds notifications for a
// consumer that takes them in order, and an [Inbox] delivers them in the background.
//
// A [Conn] serves each request of the other side on a goroutine of its own. What arrives is
// routed by method first, then by id:
//
//   - a response ends the call that its id belongs to; late, repeated and unknown ones are
//     dropped;
//   - progress belongs to the call whose token it names; a change belongs to the listen
//     whose subscription it names, or, if it names none, to all listens that want it; a log
//     message of the server belongs to the only call in flight. The goroutine of the caller
//     hands them to its from, in order and before the response;
//   - a request of the server belongs to the only call in flight too, because a pipe does
//     not say to which. If there are none or several, the local peer gets it, as it gets all
//     that a client asks;
//   - all other notifications go to the local peer, in order.
//
// Two goroutines belong to a Conn, one reads and one writes, and a third while there are
// notifications for the local peer: a peer that is slow to take them delays neither reading
// nor calls. All end with the Conn.
//
// Limits: calls and requests in flight by number, bytes waiting to be written, notifications
// waiting to be taken. A call over the limit fails with [dragoman.ErrOverloaded], a request
// over it is answered so, and writers wait for room. Of notifications that find no room,
// progress keeps the newest, log messages are dropped, and changes end the connection with
// [dragoman.ErrSlow] at twice the limit.
package jsonrpc
