package eventlog

import (
	"container/heap"
	"container/list"
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// MemoryOptions configures NewMemory. The zero value is ready to use. In each
// field zero means the default and a negative number means no limit.
type MemoryOptions struct {
	// MaxEvents is how many events of a stream are kept.
	MaxEvents int

	// MaxBytes is how many bytes of a stream are kept. Its newest event is kept
	// also if that alone is larger.
	MaxBytes int

	// MaxTotalBytes is how many bytes of all streams are kept. At the limit
	// the stream that holds most loses its oldest event, so that those who
	// hold little lose nothing to one that holds much.
	MaxTotalBytes int

	// TTL is how long the events of a stream are kept after its last one.
	TTL time.Duration
}

// Memory is a [Log] in memory. It starts no goroutine: events that are too old
// go when it is next used. Its methods never wait, so they ignore ctx.
//
// A stream that has lost all its events is remembered for its position alone.
// When there are too many of those, the oldest are forgotten. What is appended to the End of
// a stream that is not known gets a position behind theirs, so that none is given out twice.
type Memory struct {
	mu    sync.Mutex
	index index[[]byte]
}

// NewMemory returns an empty log. opts may be nil.
func NewMemory(opts *MemoryOptions) *Memory {
	return &Memory{index: index[[]byte]{
		limits:  opts.withDefaults(),
		cost:    func(event []byte) int { return cap(event) },
		streams: make(map[string]*stream[[]byte]),
	}}
}

// Append implements [Log].
func (m *Memory) Append(_ context.Context, name string, after int64, event []byte) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.index.expire(now)
	s, err := m.index.begin(name, after)
	if err != nil {
		return 0, err
	}
	m.index.add(s, event, now)
	return s.last, nil
}

// After implements [Log].
func (m *Memory) After(_ context.Context, name string, position int64) ([][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.index.expire(time.Now())
	return m.index.after(name, position)
}

// Drop implements [Log].
func (m *Memory) Drop(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.index.expire(time.Now())
	m.index.drop(name)
	return nil
}

// An index knows which events of which streams are kept, and decides which go
// at a limit. What an event is, E, is up to whoever keeps it, and so is the lock.
type index[E any] struct {
	limits  MemoryOptions
	cost    func(E) int // of an event, besides eventCost
	evicted func(E)     // is told of every event that goes; may be nil
	marks   bool        // streams know their newest event also when it is gone

	streams map[string]*stream[E]
	recent  list.List // of streams that hold events, by their last event
	empties list.List // of streams that hold none, by when they lost the last
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
	place  *list.Element // in recent or empties
	index  int           // in bySize
}

// begin returns a stream for an event behind a position. It is made if it is not known.
func (x *index[E]) begin(name string, after int64) (*stream[E], error) {
	s := x.streams[name]
	switch {
	case after < End, s != nil && End < after && after < s.last:
		return nil, ErrConflict
	case s == nil:
		s = &stream[E]{name: strings.Clone(name), last: x.floor}
		if after != End {
			s.last = after
		}
		x.addEmpty(s)
	case after > s.last:
		x.lose(s, after)
	}
	return s, nil
}

// addEmpty adds a stream without events.
func (x *index[E]) addEmpty(s *stream[E]) {
	s.place = x.empties.PushBack(s)
	x.streams[s.name] = s
}

// add gives a stream its next event, and takes what is too much.
func (x *index[E]) add(s *stream[E], event E, now time.Time) {
	x.put(s, event, now)
	for len(s.events) > 1 && (len(s.events) > x.limits.MaxEvents || s.bytes > x.limits.MaxBytes) {
		x.dropOldest(s)
	}
	for x.bytes > x.limits.MaxTotalBytes {
		x.dropOldest(x.bySize[0])
	}
}

func (x *index[E]) put(s *stream[E], event E, now time.Time) {
	more := x.cost(event) + eventCost
	if len(s.events) == 0 {
		x.empties.Remove(s.place)
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

// drop forgets a stream, and reports whether it was there.
func (x *index[E]) drop(name string) bool {
	s := x.streams[name]
	switch {
	case s == nil:
		return false
	case len(s.events) > 0:
		x.release(s)
	default:
		x.empties.Remove(s.place)
	}
	delete(x.streams, s.name)
	return true
}

// forget drops a stream whose name may be used again.
func (x *index[E]) forget(s *stream[E]) {
	x.floor = max(x.floor, s.last)
	x.drop(s.name)
}

// lose makes a stream lose its events up to a position, and with them all that are kept: those before
// a gap are of no use.
func (x *index[E]) lose(s *stream[E], position int64) {
	if len(s.events) > 0 {
		x.empty(s)
	}
	s.last = position
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

// dropOldest takes its oldest event from a stream that has some.
func (x *index[E]) dropOldest(s *stream[E]) {
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
	if x.evicted != nil {
		x.evicted(first)
	}
}

// empty takes all events from a stream that has some. It is remembered for its
// position.
func (x *index[E]) empty(s *stream[E]) {
	x.release(s)
	s.place = x.empties.PushBack(s)
	x.trimEmpty()
}

// trimEmpty forgets the oldest streams without events if they are too many.
func (x *index[E]) trimEmpty() {
	for x.empties.Len() > maxEmpties {
		oldest := x.empties.Remove(x.empties.Front()).(*stream[E])
		x.floor = max(x.floor, oldest.last)
		delete(x.streams, oldest.name)
	}
}

// release takes a stream out of those that hold events.
func (x *index[E]) release(s *stream[E]) {
	if x.evicted != nil {
		for _, event := range s.events {
			x.evicted(event)
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

// bySize is a heap of streams with the largest on top. Each knows its index.
type bySize[E any] []*stream[E]

func (h bySize[E]) Len() int           { return len(h) }
func (h bySize[E]) Less(i, j int) bool { return h[i].bytes > h[j].bytes }

func (h bySize[E]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *bySize[E]) Push(x any) {
	s := x.(*stream[E])
	s.index = len(*h)
	*h = append(*h, s)
}

func (h *bySize[E]) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}
