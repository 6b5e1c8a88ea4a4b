package store

import (
	"bytes"
	"container/list"
	"sync"
)

// DefaultMaxMemory is how many records NewMemory keeps if it is not told.
const DefaultMaxMemory = 65536

// maxMemoryBytes bounds the length of all records in memory.
const maxMemoryBytes = 64 << 20

// memory is a Store that ends with the process.
type memory struct {
	max int

	mu      sync.Mutex
	records map[name]*list.Element
	size    int       // bytes of all records
	order   list.List // of *entry, by when they were put
	large   list.List // of those whose record is longer than the share of one
}

// A name is what a record is known by.
type name struct{ kind, key string }

type entry struct {
	name   name
	record []byte
	large  *list.Element // nil if the record is not
}

// NewMemory returns an empty store in memory for so many records; zero means
// DefaultMaxMemory. When there are more, those go that were put longest ago. When they have more than
// 64 MiB together, the oldest of those go that are longer than their share of that: who has long records
// forgets its own first.
func NewMemory(max int) Store {
	if max <= 0 {
		max = DefaultMaxMemory
	}
	return &memory{max: max, records: make(map[name]*list.Element)}
}

func (m *memory) Put(kind, key string, record []byte) error {
	own := &entry{name: name{kind, key}, record: bytes.Clone(record)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(own.name)
	m.records[own.name] = m.order.PushBack(own)
	m.size += own.size()
	if own.size() > maxMemoryBytes/m.max {
		own.large = m.large.PushBack(own)
	}
	for m.order.Len() > m.max {
		m.remove(m.order.Front().Value.(*entry).name)
	}
	for m.size > maxMemoryBytes && m.large.Len() > 0 {
		m.remove(m.large.Front().Value.(*entry).name)
	}
	return nil
}

func (m *memory) Get(kind, key string) (record []byte, ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.records[name{kind, key}]
	if e == nil {
		return nil, false, nil
	}
	return bytes.Clone(e.Value.(*entry).record), true, nil
}

func (m *memory) Delete(kind, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(name{kind, key})
	return nil
}

// size returns how many bytes a record takes, with its name.
func (e *entry) size() int { return len(e.name.kind) + len(e.name.key) + len(e.record) }

// remove takes a record out, if it is there. mu is held.
func (m *memory) remove(n name) {
	if e := m.records[n]; e != nil {
		own := m.order.Remove(e).(*entry)
		if own.large != nil {
			m.large.Remove(own.large)
		}
		m.size -= own.size()
		delete(m.records, n)
	}
}
