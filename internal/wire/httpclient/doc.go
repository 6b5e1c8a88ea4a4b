// Package httpclient is the HTTP client below every transport: connections, redirects on one
// origin, statuses and bodies as errors that say what to do, and the addresses that a URL
// which somebody else chose must not reach: this machine, its network, a cloud's metadata.
package httpclient
