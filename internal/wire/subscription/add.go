package subscription

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// An addRequest is a resource that Add waits to be acknowledged.
type addRequest struct {
	uri       string
	done      chan error // gets nil when it is acknowledged; has room for it
	abandoned bool       // Add has returned; guarded by the Subscription's mu
}

// Add subscribes to a resource, until Remove. It returns when the server has
// acknowledged it, or why it has not: a refusal of the server is a
// *[dragoman.Error]. If ctx ends before, the resource is not added.
func (s *Subscription) Add(ctx context.Context, uri string) error {
	w := &addRequest{uri: uri, done: make(chan error, 1)}
	if err := s.enqueue(w); err != nil {
		return err
	}
	s.wakeUp()
	select {
	case err := <-w.done:
		return err
	case <-s.ended:
		return dragoman.ErrClosed
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case err := <-w.done: // meanwhile
		return err
	default:
	}
	w.abandoned = true
	return context.Cause(ctx)
}

// enqueue queues an addRequest. The error says that there are too many.
func (s *Subscription) enqueue(w *addRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opts.Max > 0 && !s.uris[w.uri] && s.size()+len(w.uri) > maxNameBytes {
		return protocol.Overloaded(fmt.Sprintf("the URIs of a session's subscriptions may have %d bytes in all; unsubscribe from some first", maxNameBytes))
	}
	if limit := s.opts.Max; limit > 0 && !s.uris[w.uri] && len(s.uris)+s.unanswered >= limit {
		return protocol.Overloaded(fmt.Sprintf("a session may subscribe to %d resources; unsubscribe from some first", limit))
	}
	delete(s.removed, w.uri)
	s.pending = append(s.pending, w)
	s.unanswered++
	return nil
}

// size returns the length of all URIs that Add has been given. The caller holds mu.
func (s *Subscription) size() (n int) {
	for uri := range s.uris {
		n += len(uri)
	}
	for uri := range s.removed {
		n += len(uri)
	}
	for _, w := range s.pending {
		n += len(w.uri)
	}
	return n
}

// Remove undoes Add. Changes of the resource are not notified any more; the server
// learns of it a little later.
func (s *Subscription) Remove(uri string) {
	s.mu.Lock()
	known := s.uris[uri]
	if known {
		s.removeLocked(uri)
	}
	s.mu.Unlock()
	if known {
		s.wakeUp()
	}
}

// removeLocked drops changes of a resource, which a listen may still report. The caller
// holds mu.
func (s *Subscription) removeLocked(uri string) {
	delete(s.uris, uri)
	if !slices.Contains(s.base.URIs, uri) {
		s.removed[uri] = true
	}
}

// takePending removes the adds that wait, and returns them and the interest with them.
func (s *Subscription) takePending() (pending []*addRequest, want protocol.Interest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.pending {
		if w.abandoned {
			s.unanswered--
			continue
		}
		pending = append(pending, w)
	}
	s.pending = nil
	want = s.base
	want.URIs = slices.AppendSeq(slices.Clone(s.base.URIs), maps.Keys(s.uris))
	for _, w := range pending {
		want.URIs = append(want.URIs, w.uri)
	}
	slices.Sort(want.URIs) // the same set is the same request
	want.URIs = slices.Compact(want.URIs)
	return pending, want
}

// acknowledge ends adds by what a listen covers. It returns how many it covers.
func (s *Subscription) acknowledge(added []*addRequest, l *sent) (accepted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unanswered -= len(added)
	for _, w := range added {
		switch {
		case !l.covers(w.uri):
			w.done <- &dragoman.Error{
				Code:    protocol.CodeInvalidParams,
				Message: "the server does not notify changes of " + w.uri + "; resources/list names those there are",
			}
		case w.abandoned && !s.uris[w.uri]:
			s.removeLocked(w.uri)
			s.signal() // the next listen is without it
		default:
			s.uris[w.uri] = true
			accepted++
			w.done <- nil
		}
	}
	return accepted
}

// refuse ends adds that could not be sent to the server.
func (s *Subscription) refuse(added []*addRequest, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unanswered -= len(added)
	for _, w := range added {
		w.done <- err
	}
}
