package subscription

import (
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/retry"
)

const (
	// maxLosses is how many connections in a row a client with subscriptions may lose
	// before it is given up.
	maxLosses = 5

	// steady is how long a connection must last for that to start over.
	steady = time.Minute
)

// afterLosses is the wait before another connection. The first in a row is opened at once.
var afterLosses = retry.Backoff{Min: 100 * time.Millisecond, Max: time.Second}

// Losses decides whether another connection to the server is opened for a client that has
// subscriptions. The zero value is ready to use.
type Losses struct {
	count int // in a row
	began time.Time
}

// Opened notes that there is a connection.
func (l *Losses) Opened() { l.began = time.Now() }

// Lost notes that it is lost.
func (l *Losses) Lost() {
	if time.Since(l.began) > steady {
		l.count = 0
	}
}

// Retry waits before another connection is opened. It reports false if there were too
// many, or one of the channels is closed.
func (l *Losses) Retry(gone, closed <-chan struct{}) bool {
	if l.count >= maxLosses {
		return false
	}
	t := time.NewTimer(afterLosses.Wait(l.count))
	defer t.Stop()
	l.count++
	select {
	case <-t.C:
	case <-gone:
	case <-closed:
	}
	select { // if the first wait, which is none, has ended together with a channel
	case <-gone:
		return false
	case <-closed:
		return false
	default:
		return true
	}
}
