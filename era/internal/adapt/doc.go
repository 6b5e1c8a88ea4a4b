// Package adapt says what a message of one revision looks like in another.
//
// A [Route] names the revisions of the two sides. Its methods are pure: they
// keep nothing, ask nobody, and change only what the other side could not read
// or would read wrongly. Everything else passes byte for byte: unknown members,
// numbers of any size and spelling, order. What the other side merely ignores,
// such as titles, icons and annotations in older revisions, passes too.
//
// What needs a memory is not here: sessions, rounds of input, subscriptions,
// tasks. Those who have one look at a server's answer first, because a result
// that asks for input and the error that demands a visit to a URL mean nothing
// across eras, see [Route.Response].
package adapt
