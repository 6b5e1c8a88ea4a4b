// Package eventlog keeps the events of streams for as long as a client that lost its
// connection may resume them.
//
//	log := eventlog.NewMemory(nil) // or eventlog.Open(dir, nil), which outlives the process
//	position, err := log.Append(ctx, "stream", eventlog.End, event)
//	events, err := log.After(ctx, "stream", position) // what has come since
//
// A transport/streamable.Server with a [Log] has resumable streams, and one with [Records] has sessions that
// outlive it. A log in files cuts off an
// event that was written in part when the process was killed. It survives the end of the
// process, not of the machine.
package eventlog

import (
	"context"
	"errors"
	"math"
	"time"
)

var (
	// ErrLost says that some of the events that were asked for are gone. What is
	// left of them is not returned: a gap must not look like a whole.
	ErrLost = errors.New("eventlog: events are lost")

	// ErrUnknown says that there is no such stream, or that it has not come as
	// far as that position.
	ErrUnknown = errors.New("eventlog: no such stream or position")

	// ErrConflict is returned for a write that expects another state than there is: another
	// process has written meanwhile. Nothing has changed.
	ErrConflict = errors.New("eventlog: changed by another writer")
)

// End is the position behind the last event of a stream, wherever that is.
const End int64 = -1

// A Log keeps the events of streams so that a client that lost its connection
// can have them again. Any number of goroutines and, if the implementation is shared,
// processes may use it concurrently.
//
// A stream begins with its first event and is known by a name. Its events are
// counted from 1, and a position is never given out twice, also when the events
// themselves are gone, until the stream is dropped.
type Log interface {
	// Append adds an event to a stream behind a position, and returns its own, which is the
	// next. It fails with ErrConflict if the stream has come further. If the log does not know that the
	// stream has come as far, the events between are lost, and those before them. Behind End nothing is
	// expected: it is for streams that several writers have.
	//
	// The event is kept, not copied: it must not be modified afterwards. After an error that is not
	// ErrConflict the event counts as lost, and the next is appended behind its position.
	Append(ctx context.Context, stream string, after int64, event []byte) (int64, error)

	// After returns the events of a stream behind a position, oldest first,
	// which are none if the position is that of the last. It fails with
	// ErrLost or ErrUnknown. The events must not be changed.
	After(ctx context.Context, stream string, position int64) ([][]byte, error)

	// Drop forgets a stream, if it is there. Its name must not be used again:
	// positions would start over.
	Drop(ctx context.Context, stream string) error
}

// Defaults of [MemoryOptions] and [FileOptions].
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

	// maxEmpties bounds how many streams without events are remembered.
	maxEmpties = 8192
)

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
