package manager

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// backoff returns how long to wait after so many failures in a row: min doubled
// with each, up to a fifth more or less so that many do not come at once, and
// never more than max.
func (s *settings) backoff(failures int) time.Duration {
	d := s.max
	if n := failures - 1; n < 40 {
		d = min(s.min<<max(n, 0), s.max)
		if d < s.min { // it has overflowed
			d = s.max
		}
	}
	return min(time.Duration(float64(d)*(0.8+0.4*rand.Float64())), s.max)
}

// statusOf returns the HTTP status by which a server has refused, if that is what the
// error is, and how long it asks to wait.
func statusOf(err error) (status int, wait time.Duration, ok bool) {
	if e, ok := errors.AsType[*streamable.HTTPError](err); ok {
		return e.Status, e.RetryAfter, true
	}
	if e, ok := errors.AsType[*sse.StatusError](err); ok {
		return e.Status, e.RetryAfter, true
	}
	if e, ok := errors.AsType[*ws.StatusError](err); ok {
		return e.Status, e.RetryAfter, true
	}
	return 0, 0, false
}
