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

// retryAfter returns how long the server asks to wait, or zero.
func retryAfter(err error) time.Duration {
	var (
		streamed *streamable.HTTPError
		old      *sse.StatusError
		socket   *ws.StatusError
	)
	switch {
	case errors.As(err, &streamed):
		return streamed.RetryAfter
	case errors.As(err, &old):
		return old.RetryAfter
	case errors.As(err, &socket):
		return socket.RetryAfter
	}
	return 0
}
