package ws

import (
	"context"
	"testing"
	"time"
)

// patience is how long a test waits for what must come at once.
const patience = 30 * time.Second

// stop ends all conversations of a server, without waiting for what is in flight.
func stop(t testing.TB, s *Server) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Shutdown(ctx) // what it returns is that ctx has ended, or nothing
}
