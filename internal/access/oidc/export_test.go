package oidc

import "time"

// SetTimes gives all requests of a client as long as d.
func SetTimes(c *Client, d time.Duration) {
	c.requestTime, c.tokenTime, c.transport.TLSHandshakeTimeout = d, d, d
}
