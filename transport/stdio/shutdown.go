package stdio

import (
	"context"
	"sync"
	"sync/atomic"
)

// Shutdown stops listening, refuses new requests of the clients that are there, and
// ends each conversation when what was under way on it is answered. When ctx ends,
// it cancels the rest, which is answered as lost, and returns the context's error.
func (s *Server) Shutdown(ctx context.Context) error {
	var cut atomic.Bool
	s.end(func(t *talk) {
		if t.finish(ctx) != nil {
			cut.Store(true)
		}
	})
	if cut.Load() {
		return context.Cause(ctx)
	}
	return nil
}

// Close stops listening, ends all conversations and waits for them.
func (s *Server) Close() error {
	s.end((*talk).close)
	return nil
}

// end takes no more clients, ends the conversation with each of those that are there
// by how, all at once, and waits for them.
func (s *Server) end(how func(*talk)) {
	var ending sync.WaitGroup
	s.mu.Lock()
	s.closed = true
	for l, cancel := range s.listeners {
		cancel()
		_ = l.Close()
	}
	for t := range s.talks {
		// Ends with the conversation.
		ending.Go(func() { how(t) })
	}
	s.mu.Unlock()
	ending.Wait()
	s.serving.Wait()
}
