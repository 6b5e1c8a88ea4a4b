// Package store keeps small records that outlive the process ([Dir]), and the same in memory.
// The gateway, upstream and authserver use it.
//
// A record is a file that is replaced as a whole, with a checksum; a damaged one counts as
// absent. Records survive the end of the process, not of the machine.
package store

import "errors"

// ErrTooLarge says that a record is larger than [MaxRecord].
var ErrTooLarge = errors.New("store: the record is too large")

// MaxRecord is the largest record of a [Dir], in bytes.
const MaxRecord = 16 << 20

// A Store keeps small records by kind and key. Any number of goroutines may use
// it at once. It is a help and no database: a record may be gone, so who looks
// for one must be able to do without.
type Store interface {
	// Put keeps a record, in place of the one that is there.
	Put(kind, key string, record []byte) error

	// Get returns a record, and whether there is one. It is the caller's own.
	Get(kind, key string) (record []byte, ok bool, err error)

	// Delete forgets a record, if it is there.
	Delete(kind, key string) error
}

// Records are those of one kind.
type Records struct {
	store Store
	kind  string
}

// Kind returns the records of one kind in a store.
func Kind(s Store, kind string) *Records { return &Records{store: s, kind: kind} }

// Put keeps a record, in place of the one that is there.
func (r *Records) Put(key string, record []byte) error { return r.store.Put(r.kind, key, record) }

// Get returns a record, and whether there is one.
func (r *Records) Get(key string) (record []byte, ok bool, err error) {
	return r.store.Get(r.kind, key)
}

// Delete forgets a record, if it is there.
func (r *Records) Delete(key string) error { return r.store.Delete(r.kind, key) }
