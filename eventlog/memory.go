package eventlog

import (
	"context"
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
// go when it is next used. Its methods never wait, so they ignore ctx, and Append
// and Drop never fail.
//
// A stream that has lost all its events is remembered for its position alone.
// When there are too many of those, the oldest are forgotten. Streams that begin
// later begin behind their positions, so that none is given out twice.
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
func (m *Memory) Append(_ context.Context, name string, event []byte) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.index.expire(now)
	s := m.index.begin(name)
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
