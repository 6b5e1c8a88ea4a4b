package jsonschema

import (
	"bytes"
	"container/list"
	"crypto/sha256"
	"encoding/json"
	"sync"
)

const (
	// MaxSchemas is how many schemas a Checker keeps compiled. Those that were
	// used longest ago go first.
	MaxSchemas = 256

	// MaxSchema is the largest schema that is compiled, in bytes. To compile one takes
	// longer than to read it, by far.
	MaxSchema = 256 << 10
)

// A Checker checks values and keeps the schemas that it has compiled. The zero
// value is ready to use, by any number of goroutines.
type Checker struct {
	mu      sync.Mutex // guards what follows, not the compiling
	entries map[[sha256.Size]byte]*list.Element
	recent  list.List // of *entry, the last used first
}

// An entry is a schema, compiled by whoever needs it first.
type entry struct {
	key      [sha256.Size]byte
	once     sync.Once
	compiled *node // nil if it cannot be compiled
}

// Check returns nil if value fits the schema, or an *[Error] that says what does
// not. A nil value stands for {}. What cannot be checked fits: a schema that
// cannot be compiled, a value that is not JSON, or both if it would take more than
// [MaxSteps].
func (c *Checker) Check(schema, value json.RawMessage) error {
	if len(schema) > MaxSchema {
		return nil
	}
	e := c.entry(sha256.Sum256(schema))
	e.once.Do(func() { e.compiled, _ = compile(schema) }) // what cannot be compiled is nil
	if e.compiled == nil {
		return nil
	}
	if value == nil {
		value = json.RawMessage("{}")
	}
	v, err := decode(value)
	if err != nil {
		return nil //nolint:nilerr // whoever takes the message has checked that it is JSON
	}
	if where, bad := unbounded(v); bad {
		return &Error{Violations: []Violation{{Path: root + where, Reason: tooManyDigits}}}
	}
	if wrong, _ := validate(e.compiled, v); wrong != nil {
		return wrong
	}
	return nil
}

// entry returns the schema with that hash, which may have to be compiled yet.
func (c *Checker) entry(key [sha256.Size]byte) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.entries[key]; at != nil {
		c.recent.MoveToFront(at)
		return at.Value.(*entry)
	}
	if c.entries == nil {
		c.entries = make(map[[sha256.Size]byte]*list.Element)
	}
	if len(c.entries) >= MaxSchemas {
		oldest := c.recent.Back()
		c.recent.Remove(oldest)
		delete(c.entries, oldest.Value.(*entry).key)
	}
	e := &entry{key: key}
	c.entries[key] = c.recent.PushFront(e)
	return e
}

// Valid returns nil if a schema can be compiled, or what is wrong with it.
func Valid(schema json.RawMessage) error {
	_, err := compile(schema)
	return err
}

// decode reads JSON text. Numbers keep their digits.
func decode(text json.RawMessage) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}
