// Package mux makes a [dragoman.Conn] of a stream of messages. The tables of what is
// under way are those of package rpc.
//
// Each request of the other side is served on a goroutine of its own. What arrives is
// routed by method first, then by id:
//
//   - an answer ends the call that its id belongs to; late, double and unknown
//     ones are dropped;
//   - progress belongs to the call whose token it names, a change to the listen
//     whose subscription it names, or if it names none to all listens that want
//     it, a server's log message to the only call under way; the caller's own
//     goroutine hands them to its from, in order and before the answer;
//   - a server's request belongs to the only call under way too, because a pipe
//     does not say to which; if there are none or several, the local peer is
//     asked, and so it is for all that a client asks;
//   - all other notifications go to the local peer, in order.
//
// Two goroutines belong to a Conn, one reads and one writes, and a third while
// there are notifications for the local peer: one that is slow to take them holds up
// neither reading nor calls. All end with the Conn.
//
// Limits: calls and requests under way by number, bytes waiting to be written,
// notifications waiting to be taken. A call over the limit fails with
// [dragoman.ErrOverloaded], a request over it is answered so, writers wait for
// room, and of notifications that find no room progress keeps the newest, log
// messages are dropped, and changes end the conversation with
// [dragoman.ErrSlow] at twice the limit.
package mux
