// Package adapt translates a message of one revision into another: envelopes, result tags,
// content, forms, schemas and error codes. Packages era, up and down use it.
//
// A [Route] names the revisions of the two sides. Its methods are pure and keep nothing. They
// change only what the other side could not read or would read wrongly. Everything else passes
// byte for byte: unknown members, numbers of any size and spelling, order. What the other side
// merely ignores, such as titles, icons and annotations in older revisions, passes too.
//
// Sessions, rounds of input, subscriptions and tasks need state and are not here. Their owners
// look at a server's response first, because a result that asks for input and the error that
// demands a visit to a URL mean nothing across eras, see [Route.Response].
//
// At most 64 parts of an output schema are examined; a larger one is taken to accept objects
// and other values.
package adapt
