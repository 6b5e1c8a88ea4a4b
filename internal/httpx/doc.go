// Package httpx holds what the HTTP servers of this module share: the checks of Host
// and Origin, the reading of bodies, refusals, negotiation, and the headers that
// mirror parts of a message; and what its HTTP clients share.
package httpx
