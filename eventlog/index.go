package eventlog

import (
	"container/heap"
	"container/list"
	"slices"
	"strings"
	"time"
)

// An index knows which events of which streams are kept, and decides which go
// at a limit. What an event is, E, is up to whoever keeps it, and so is the lock.
type index[E any] struct {
	limits MemoryOptions
	cost   func(E) int // of an event, besides eventCost
	gone   func(E)     // is told of every event that goes; may be nil
	marks  bool        // streams know their newest event also when it is gone

	streams map[string]*stream[E]
	recent  list.List // of streams that hold events, by their last event
	spent   list.List // of streams that hold none, by when they lost the last
	bySize  bySize[E] // of streams that hold events
	bytes   int       // what they cost together
	floor   int64     // no forgotten stream came further than this
}

type stream[E any] struct {
	name   string
	events []E
	newest E     // the last one that was added, kept or not, if the index marks it
	last   int64 // position of the newest event, kept or not
	bytes  int   // what it costs; 0 without events
	at     time.Time
	place  *list.Element // in recent or spent
	index  int           // in bySize
}

// begin returns a stream, which is made if it is not known.
func (x *index[E]) begin(name string) *stream[E] {
	s := x.streams[name]
	if s == nil {
		s = &stream[E]{name: strings.Clone(name), last: x.floor}
		x.know(s)
	}
	return s
}

// know adds a stream without events.
func (x *index[E]) know(s *stream[E]) {
	s.place = x.spent.PushBack(s)
	x.streams[s.name] = s
}

// add gives a stream its next event, and takes what is too much.
func (x *index[E]) add(s *stream[E], event E, now time.Time) {
	x.put(s, event, now)
	for len(s.events) > 1 && (len(s.events) > x.limits.MaxEvents || s.bytes > x.limits.MaxBytes) {
		x.lose(s)
	}
	for x.bytes > x.limits.MaxTotalBytes {
		x.lose(x.bySize[0])
	}
}

func (x *index[E]) put(s *stream[E], event E, now time.Time) {
	more := x.cost(event) + eventCost
	if len(s.events) == 0 {
		x.spent.Remove(s.place)
		s.place = x.recent.PushBack(s)
		heap.Push(&x.bySize, s)
		more += streamCost + 2*len(s.name)
	}
	x.recent.MoveToBack(s.place)
	s.at = now
	s.last++
	s.events = append(s.events, event)
	if x.marks {
		s.newest = event
	}
	s.bytes += more
	x.bytes += more
	heap.Fix(&x.bySize, s.index)
}

// after returns the events of a stream behind a position.
func (x *index[E]) after(name string, position int64) ([]E, error) {
	s := x.streams[name]
	if s == nil || position < 0 || position > s.last {
		return nil, ErrUnknown
	}
	n := s.last - position
	if n > int64(len(s.events)) {
		return nil, ErrLost
	}
	return slices.Clone(s.events[len(s.events)-int(n):]), nil
}

// drop forgets a stream, and tells whether it was there.
func (x *index[E]) drop(name string) bool {
	s := x.streams[name]
	switch {
	case s == nil:
		return false
	case len(s.events) > 0:
		x.release(s)
	default:
		x.spent.Remove(s.place)
	}
	delete(x.streams, s.name)
	return true
}

// forget drops a stream whose name may be used again.
func (x *index[E]) forget(s *stream[E]) {
	x.floor = max(x.floor, s.last)
	x.drop(s.name)
}

// skip makes a stream lose the event that would have been its next, and with it
// all that are kept: what is behind the hole alone is of no use.
func (x *index[E]) skip(s *stream[E]) {
	if len(s.events) > 0 {
		x.empty(s)
	}
	s.last++
}

// expire empties the streams whose last event is too old.
func (x *index[E]) expire(now time.Time) {
	for e := x.recent.Front(); e != nil; e = x.recent.Front() {
		s := e.Value.(*stream[E])
		if now.Sub(s.at) < x.limits.TTL {
			return
		}
		x.empty(s)
	}
}

// lose takes its oldest event from a stream that has some.
func (x *index[E]) lose(s *stream[E]) {
	if len(s.events) == 1 {
		x.empty(s)
		return
	}
	first := s.events[0]
	less := x.cost(first) + eventCost
	clear(s.events[:1]) // or the array would keep it
	s.events = s.events[1:]
	s.bytes -= less
	x.bytes -= less
	heap.Fix(&x.bySize, s.index)
	if x.gone != nil {
		x.gone(first)
	}
}

// empty takes all events from a stream that has some. It is remembered for its
// position.
func (x *index[E]) empty(s *stream[E]) {
	x.release(s)
	s.place = x.spent.PushBack(s)
	x.bound()
}

// bound forgets the oldest streams without events if they are too many.
func (x *index[E]) bound() {
	for x.spent.Len() > maxSpent {
		oldest := x.spent.Remove(x.spent.Front()).(*stream[E])
		x.floor = max(x.floor, oldest.last)
		delete(x.streams, oldest.name)
	}
}

// release takes a stream out of those that hold events.
func (x *index[E]) release(s *stream[E]) {
	if x.gone != nil {
		for _, event := range s.events {
			x.gone(event)
		}
	}
	x.bytes -= s.bytes
	s.events, s.bytes = nil, 0
	heap.Remove(&x.bySize, s.index)
	x.recent.Remove(s.place)
}

// event returns the event at a position, if that is kept.
func (s *stream[E]) event(position int64) *E {
	i := int64(len(s.events)) - 1 - (s.last - position)
	if i < 0 || i >= int64(len(s.events)) {
		return nil
	}
	return &s.events[i]
}
