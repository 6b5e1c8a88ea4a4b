// Package rpc keeps account of requests under way, whatever carries them. It does
// no I/O.
//
// [Calls] is the table of what we ask: it gives ids and progress tokens of our own
// and puts the caller's back, finds the call that an answer, progress or change
// belongs to, and ends calls that take too long. [Requests] is the table of what we
// are asked. [Queue] holds notifications for somebody who takes them in order, and
// an [Inbox] delivers them in the background.
package rpc
