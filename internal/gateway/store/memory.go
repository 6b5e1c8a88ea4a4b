package store

import (
	"bytes"
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/eventlog"
)

// maxMemoryBytes bounds the length of all records in memory.
const maxMemoryBytes = 64 << 20

// Memory is [eventlog.Records] that end with the process. When there are too many, those go that were put
// longest ago. When they have more than 64 MiB together, the oldest of those go that are longer than
// their share of that: a caller with long records loses its own first.
type Memory struct {
	opts Options

	mu      sync.Mutex
	records map[string]*list.Element // by key
	size    int                      // bytes of all records
	order   list.List                // of *entry, by when they were put
	large   list.List                // of those whose record is longer than the share of one
}

var _ eventlog.Records = (*Memory)(nil)

type entry struct {
	key      string
	record   []byte
	revision uint64
	at       time.Time     // when it was put
	large    *list.Element // nil if the record is not
}

// NewMemory returns an empty store. opts may be nil.
func NewMemory(opts *Options) *Memory {
	return &Memory{opts: opts.withDefaults(), records: make(map[string]*list.Element)}
}

// Put implements [eventlog.Records].
func (m *Memory) Put(_ context.Context, key string, record []byte, expected uint64) (uint64, error) {
	if err := checkSize(record); err != nil {
		return 0, err
	}
	own := &entry{key: key, record: bytes.Clone(record), revision: newRevision(), at: time.Now()}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	if !m.has(key, expected) {
		return 0, eventlog.ErrConflict
	}
	m.remove(key)
	m.records[key] = m.order.PushBack(own)
	m.size += own.size()
	if own.size() > maxMemoryBytes/m.opts.MaxRecords {
		own.large = m.large.PushBack(own)
	}
	for m.order.Len() > m.opts.MaxRecords {
		m.remove(m.order.Front().Value.(*entry).key)
	}
	for m.size > maxMemoryBytes && m.large.Len() > 0 {
		m.remove(m.large.Front().Value.(*entry).key)
	}
	return own.revision, nil
}

// Get implements [eventlog.Records].
func (m *Memory) Get(_ context.Context, key string) (record []byte, revision uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	e := m.records[key]
	if e == nil {
		return nil, 0, nil
	}
	own := e.Value.(*entry)
	return bytes.Clone(own.record), own.revision, nil
}

// Delete implements [eventlog.Records].
func (m *Memory) Delete(_ context.Context, key string, expected uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	if !m.has(key, expected) {
		return eventlog.ErrConflict
	}
	m.remove(key)
	return nil
}

// has reports whether a key has the expected revision. mu is held.
func (m *Memory) has(key string, expected uint64) bool {
	if expected == eventlog.AnyRevision {
		return true
	}
	e := m.records[key]
	if e == nil {
		return expected == 0
	}
	return e.Value.(*entry).revision == expected
}

// size returns how many bytes a record takes, with its key.
func (e *entry) size() int { return len(e.key) + len(e.record) }

// expire removes what is too old. mu is held.
func (m *Memory) expire() {
	for e := m.order.Front(); e != nil && time.Since(e.Value.(*entry).at) >= m.opts.MaxAge; e = m.order.Front() {
		m.remove(e.Value.(*entry).key)
	}
}

// remove removes a record, if it is there. mu is held.
func (m *Memory) remove(key string) {
	if e := m.records[key]; e != nil {
		own := m.order.Remove(e).(*entry)
		if own.large != nil {
			m.large.Remove(own.large)
		}
		m.size -= own.size()
		delete(m.records, key)
	}
}
