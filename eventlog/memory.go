package eventlog

import (
	"container/heap"
	"container/list"
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// Defaults of [MemoryOptions].
const (
	DefaultMaxEvents     = 1000
	DefaultMaxBytes      = 4 << 20
	DefaultMaxTotalBytes = 64 << 20
	DefaultTTL           = 5 * time.Minute
)

const (
	// eventCost and streamCost are what an event and a stream that has some
	// cost besides their bytes, about.
	eventCost  = 32
	streamCost = 384

	// maxSpent bounds how many streams without events are remembered.
	maxSpent = 8192
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

// withDefaults returns the limits in force.
func (o *MemoryOptions) withDefaults() MemoryOptions {
	var in MemoryOptions
	if o != nil {
		in = *o
	}
	return MemoryOptions{
		MaxEvents:     limit(in.MaxEvents, DefaultMaxEvents, math.MaxInt),
		MaxBytes:      limit(in.MaxBytes, DefaultMaxBytes, math.MaxInt),
		MaxTotalBytes: limit(in.MaxTotalBytes, DefaultMaxTotalBytes, math.MaxInt),
		TTL:           limit(in.TTL, DefaultTTL, math.MaxInt64),
	}
}

func limit[N int | time.Duration](n, standard, most N) N {
	switch {
	case n == 0:
		return standard
	case n < 0:
		return most
	}
	return n
}

// Memory is a [Log] in memory. It starts no goroutine: events that are too old
// go when it is next used. Its methods never wait, so they ignore ctx, and Append
// and Drop never fail.
//
// A stream that has lost all its events is remembered for its position alone.
// When there are too many of those, the oldest are forgotten. Streams that begin
// later begin behind their positions, so that none is given out twice.
type Memory struct {
	limits MemoryOptions

	mu      sync.Mutex
	streams map[string]*stream
	recent  list.List // of streams that hold events, by their last event
	spent   list.List // of streams that hold none, by when they lost the last
	bySize  bySize    // of streams that hold events
	bytes   int       // what they cost together
	floor   int64     // no forgotten stream came further than this
}

// A stream is guarded by its Memory's mu.
type stream struct {
	name   string
	events [][]byte
	last   int64 // position of the newest event, kept or not
	bytes  int   // what it costs; 0 without events
	at     time.Time
	place  *list.Element // in recent or spent
	index  int           // in bySize
}

// NewMemory returns an empty log. opts may be nil.
func NewMemory(opts *MemoryOptions) *Memory {
	return &Memory{limits: opts.withDefaults(), streams: make(map[string]*stream)}
}

// Append implements [Log].
func (m *Memory) Append(_ context.Context, name string, event []byte) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.expire(now)
	s := m.streams[name]
	if s == nil {
		s = &stream{name: strings.Clone(name), last: m.floor}
		s.place = m.spent.PushBack(s)
		m.streams[s.name] = s
	}
	m.add(s, event, now)
	for len(s.events) > 1 && (len(s.events) > m.limits.MaxEvents || s.bytes > m.limits.MaxBytes) {
		m.lose(s)
	}
	for m.bytes > m.limits.MaxTotalBytes {
		m.lose(m.bySize[0])
	}
	return s.last, nil
}

// After implements [Log].
func (m *Memory) After(_ context.Context, name string, position int64) ([][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(time.Now())
	s := m.streams[name]
	if s == nil || position < 0 || position > s.last {
		return nil, ErrUnknown
	}
	n := s.last - position
	if n > int64(len(s.events)) {
		return nil, ErrLost
	}
	return slices.Clone(s.events[len(s.events)-int(n):]), nil
}

// Drop implements [Log].
func (m *Memory) Drop(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(time.Now())
	s := m.streams[name]
	switch {
	case s == nil:
		return nil
	case len(s.events) > 0:
		m.release(s)
	default:
		m.spent.Remove(s.place)
	}
	delete(m.streams, s.name)
	return nil
}

// expire empties the streams whose last event is too old.
func (m *Memory) expire(now time.Time) {
	for e := m.recent.Front(); e != nil; e = m.recent.Front() {
		s := e.Value.(*stream)
		if now.Sub(s.at) < m.limits.TTL {
			return
		}
		m.empty(s)
	}
}

// cost is what keeping an event costs.
func cost(event []byte) int { return cap(event) + eventCost }

// add gives a stream its next event.
func (m *Memory) add(s *stream, event []byte, now time.Time) {
	more := cost(event)
	if len(s.events) == 0 {
		m.spent.Remove(s.place)
		s.place = m.recent.PushBack(s)
		heap.Push(&m.bySize, s)
		more += streamCost + 2*len(s.name)
	}
	m.recent.MoveToBack(s.place)
	s.at = now
	s.last++
	s.events = append(s.events, event)
	s.bytes += more
	m.bytes += more
	heap.Fix(&m.bySize, s.index)
}

// lose takes its oldest event from a stream that has some.
func (m *Memory) lose(s *stream) {
	if len(s.events) == 1 {
		m.empty(s)
		return
	}
	less := cost(s.events[0])
	s.events[0] = nil // or the array would keep it
	s.events = s.events[1:]
	s.bytes -= less
	m.bytes -= less
	heap.Fix(&m.bySize, s.index)
}

// empty takes all events from a stream that has some. It is remembered for its
// position.
func (m *Memory) empty(s *stream) {
	m.release(s)
	s.place = m.spent.PushBack(s)
	for m.spent.Len() > maxSpent {
		oldest := m.spent.Remove(m.spent.Front()).(*stream)
		m.floor = max(m.floor, oldest.last)
		delete(m.streams, oldest.name)
	}
}

// release takes a stream out of those that hold events.
func (m *Memory) release(s *stream) {
	m.bytes -= s.bytes
	s.events, s.bytes = nil, 0
	heap.Remove(&m.bySize, s.index)
	m.recent.Remove(s.place)
}
