// Package auth says who may come in, and what they may do there.
//
// A [Policy] looks at what a client sends to prove who it is: a token that is listed
// here, one that somebody else has signed or knows, a certificate, or the user on the
// other side of a Unix socket. Its [Policy.Caller] stands at the door of the gateway,
// before anything else of a request is looked at, and fills in the [dragoman.Caller]
// that everything else goes by.
package auth
