package state

import (
	"bytes"
	"container/list"
	"sync"
)

// DefaultMaxMemory is how many records NewMemory keeps if it is not told.
const DefaultMaxMemory = 65536

// memory is a Store that ends with the process.
type memory struct {
	max int

	mu      sync.Mutex
	records map[name]*list.Element
	order   list.List // of *entry, by when they were put
}

// A name is what a record is known by.
type name struct{ kind, key string }

type entry struct {
	name   name
	record []byte
}

// NewMemory returns an empty store in memory for so many records; zero means
// DefaultMaxMemory. When there are more, those go that were put longest ago.
func NewMemory(max int) Store {
	if max <= 0 {
		max = DefaultMaxMemory
	}
	return &memory{max: max, records: make(map[name]*list.Element)}
}

func (m *memory) Put(kind, key string, record []byte) error {
	own := &entry{name{kind, key}, bytes.Clone(record)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(own.name)
	m.records[own.name] = m.order.PushBack(own)
	for m.order.Len() > m.max {
		m.remove(m.order.Front().Value.(*entry).name)
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

// remove takes a record out, if it is there. mu is held.
func (m *memory) remove(n name) {
	if e := m.records[n]; e != nil {
		m.order.Remove(e)
		delete(m.records, n)
	}
}
