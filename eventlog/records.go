package eventlog

import (
	"context"
	"math"
)

// AnyRevision is what a write expects that replaces whatever is there.
const AnyRevision uint64 = math.MaxUint64

// Records keeps small values by keys, for longer than one server lives. Any number of goroutines and, if the
// implementation is shared, processes may use it concurrently. A key is any text; what stands before
// its first slash is its kind, by which an implementation may sort, bound and expire records.
//
// Each write gives a record a new revision. A write names the revision that it expects, which is 0 if there must
// be no record, and fails with [ErrConflict] if there is another. A record may be gone at any
// time, because it is old or there are too many, so that its reader must be able to do without.
//
// An implementation that waits for others bounds how long it waits, also if ctx has no deadline.
type Records interface {
	// Get returns the record of a key and its revision, which is 0 if the key has no record. The record is the
	// caller's own.
	Get(ctx context.Context, key string) (record []byte, revision uint64, err error)

	// Put sets the record of a key and returns its new revision.
	Put(ctx context.Context, key string, record []byte, expected uint64) (revision uint64, err error)

	// Delete removes the record of a key. Deleting a key without a record is a conflict only if a revision is expected.
	Delete(ctx context.Context, key string, expected uint64) error
}
