// Package httpx holds what every HTTP door of this module does alike: the checks
// of Host and Origin, the reading of bodies, refusals, negotiation, and the
// headers that mirror parts of a message; and what every client does alike.
package httpx
