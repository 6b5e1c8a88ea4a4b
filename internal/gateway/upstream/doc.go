// Package upstream keeps servers running that have names.
//
//	config.Server ──▶ Upstream ─ doors: lists ─ wait for the server ─ admission ─▶ era.Server ─▶ supervisor ─▶ target
//
// An [Upstream] is one server of a configuration. Its supervisor is the dialer that
// era has: it knows every conversation, waits between attempts, and gives up for a
// while on a server that keeps ending. In a conversation of its own it starts the
// server, keeps the lists of what it offers, and looks after its health.
//
//	manager.go     all servers, and what a configuration changes
//	upstream.go    one server: the doors, and what there is to say
//	settings.go    what its configuration says, with defaults
//	admit.go       how many requests there may be, and what is answered to the rest
//	lists.go       what a server offers
//	supervisor.go  who starts a server, looks after it, and stops it
//	state.go       its states, all changes of them, and who waits for a change
//	outage.go      what failures lead to, and who waits for how long
//	conn.go        conversations with it, and what becomes of them
//	reach.go       how it is reached, with what callers pass on, and what must not be shown
//	credential.go  what it is sent to be let in, and what to do if it refuses
//	signin.go      signing in to it, and asking users to
//	remember.go    what is known of it from earlier processes
//	events.go      what happens, and what servers write
//
// A request that comes while the server is away waits for the attempt that is under
// way. What follows if that fails depends on whether the server has been there:
//
//   - A server that was there and was lost is expected back. Requests wait for it,
//     until so many attempts have failed as its configuration says, for [MaxOutage] at
//     most.
//   - A server that has not been there yet, or not since it was last stopped because
//     nobody used it, may never be. Requests wait for further attempts only if those
//     follow soon, within [MaxPause]: they do for a command, and not for a URL. Else
//     they are refused at once, until the next attempt.
//   - A server that keeps failing is left alone, and requests are refused at once.
//
// An attempt takes ConnectTimeout at most, with everything that belongs to it: to
// dial, to find out the era, to shake hands. A process that ends when it is asked for
// its era has not said what it is: it may be unwell, or a legacy server that cannot
// bear the question. That counts as an attempt that failed, and the next one makes the
// handshake without asking; they take turns from then on. So a process that ends at
// once is started once in each attempt, and one that cannot bear the question comes up
// at its second start. One that lives and does not answer soon is given its time, and
// meanwhile another is started, with a handshake; if neither answers, the attempts that
// follow start one each.
//
// Nothing that has been sent is sent again, except by era, which repeats what only
// reads.
package upstream
