// Package store keeps [eventlog.Records] in a directory ([Dir]) and in memory ([Memory]), [Leases] on top of them,
// and keys. The gateway and upstream use it.
//
// In a directory a record is a file that is replaced as a whole, with a checksum; a damaged one counts as
// absent. Records survive the end of the process, not of the machine.
package store

import (
	"cmp"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"github.com/dragoman-mcp/dragoman/eventlog"
)

// ErrTooLarge says that a record is larger than [MaxRecord].
var ErrTooLarge = errors.New("store: the record is too large")

// MaxRecord is the largest record, in bytes.
const MaxRecord = 16 << 20

// Defaults of [Options].
const (
	DefaultMaxAge     = 30 * 24 * time.Hour
	DefaultMaxRecords = 65536
)

// Options configures Open and NewMemory. The zero value is ready to use.
type Options struct {
	// MaxAge is how long a record is kept after it was put. Zero means the
	// default; negative means no limit.
	MaxAge time.Duration

	// MaxRecords is how many records are kept, of each kind in a directory; the oldest go first. In a
	// directory there may be more for up to an hour. Zero means the default; negative
	// means no limit.
	MaxRecords int

	// Logger receives damaged records. If nil, nothing is logged.
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var in Options
	if o != nil {
		in = *o
	}
	if in.MaxAge = cmp.Or(in.MaxAge, DefaultMaxAge); in.MaxAge < 0 {
		in.MaxAge = math.MaxInt64
	}
	if in.MaxRecords = cmp.Or(in.MaxRecords, DefaultMaxRecords); in.MaxRecords < 0 {
		in.MaxRecords = math.MaxInt
	}
	in.Logger = cmp.Or(in.Logger, slog.New(slog.DiscardHandler))
	return in
}

// newRevision returns a revision that no record has had. Revisions are compared for equality only.
func newRevision() uint64 { return 1 + rand.Uint64N(eventlog.AnyRevision-1) } // #nosec G404 -- it is no secret
