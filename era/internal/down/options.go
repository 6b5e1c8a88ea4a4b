package down

import (
	"context"
	"log/slog"
	"time"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// Defaults of [Options].
const (
	// DefaultMaxSessions is how many sessions there are with the server at most.
	DefaultMaxSessions = 64

	// DefaultQueueTimeout is how long a request waits for a session to become
	// free when there are that many.
	DefaultQueueTimeout = 10 * time.Second

	// DefaultIdleTimeout is how long a session stays open that nobody uses.
	DefaultIdleTimeout = 5 * time.Minute

	// DefaultMaxSuspended is how many calls may wait for their client to come
	// back.
	DefaultMaxSuspended = 1024

	// DefaultSuspendTimeout is how long each of them waits.
	DefaultSuspendTimeout = 10 * time.Minute

	// DefaultMaxRounds is how often one call may ask its client.
	DefaultMaxRounds = 32

	// DefaultGather is how long further questions are waited for after the first
	// of a round.
	DefaultGather = 5 * time.Millisecond
)

// Limits that cannot be set.
const (
	// MaxWaiting is how many requests may wait for a session.
	MaxWaiting = 256

	// MaxQuestions is how many questions of one call may be open at once.
	MaxQuestions = 64

	// MaxListens is how many subscriptions one session serves.
	MaxListens = 1024

	// MaxURIs is how many resources one subscription may name; the rest is left
	// out of its acknowledgement.
	MaxURIs = 1024

	// MaxEvents is how many changes may wait for one subscription to be told;
	// those that come then are dropped and counted in the log.
	MaxEvents = 1024

	// OpenTimeout is how long a session may take to open. A server that has to
	// be fetched before it starts takes long.
	OpenTimeout = 2 * time.Minute

	// partTimeout bounds what is said to a server when its client has gone:
	// the end of a subscription or of a task.
	partTimeout = 5 * time.Second

	// maxKinds is how many spellings of capabilities are remembered, and
	// maxKindSize how long one may be.
	maxKinds, maxKindSize = 256, 4 << 10
)

// Options says how a legacy server is used. The zero value holds the defaults.
type Options struct {
	// Name and Version are what we call ourselves when a client does not say who
	// it is. If empty, they are "dragoman" and "0".
	Name, Version string

	// Revisions are what server/discover names, modern ones first. If nil, it is
	// the latest.
	Revisions []protocol.Revision

	// Caller says who makes a request. Callers share nothing. If nil, all
	// requests are of one.
	Caller func(context.Context) string

	// PerRequest opens a session for every request and closes it behind it.
	PerRequest bool

	// MaxSessions is how many sessions there are at most. At the limit one that
	// nobody uses is closed; if there is none, a request waits for QueueTimeout.
	MaxSessions  int
	QueueTimeout time.Duration

	// IdleTimeout is how long a session stays open unused.
	IdleTimeout time.Duration

	// MaxSuspended is how many calls may wait for their client's answers. Over
	// it, questions are answered with an error and the call goes on.
	MaxSuspended int

	// SuspendTimeout is how long each of them waits. Then the call is cancelled.
	SuspendTimeout time.Duration

	// MaxRounds is how often a call may ask its client. After that, its questions
	// are answered with an error.
	MaxRounds int

	// Gather is how long further questions are waited for after the first of a
	// round, so that those asked side by side reach the client together.
	Gather time.Duration

	// TTL is for how long clients may take a list, or what server/discover says,
	// for the current one.
	TTL time.Duration

	// Logger is told what is dropped. If nil, nothing is logged.
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var full Options
	if o != nil {
		full = *o
	}
	if full.Name == "" {
		full.Name = "dragoman"
	}
	if full.Version == "" {
		full.Version = "0"
	}
	if full.Revisions == nil {
		full.Revisions = []protocol.Revision{protocol.Latest}
	}
	if full.Caller == nil {
		full.Caller = func(context.Context) string { return "" }
	}
	fill(&full.MaxSessions, DefaultMaxSessions)
	fill(&full.QueueTimeout, DefaultQueueTimeout)
	fill(&full.IdleTimeout, DefaultIdleTimeout)
	fill(&full.MaxSuspended, DefaultMaxSuspended)
	fill(&full.SuspendTimeout, DefaultSuspendTimeout)
	fill(&full.MaxRounds, DefaultMaxRounds)
	fill(&full.Gather, DefaultGather)
	if full.Logger == nil {
		full.Logger = slog.New(slog.DiscardHandler)
	}
	return full
}

// fill gives a limit that was left out its default.
func fill[T int | time.Duration](v *T, fallback T) {
	if *v <= 0 {
		*v = fallback
	}
}
