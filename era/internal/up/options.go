package up

import (
	"cmp"
	"log/slog"
	"math"
	"time"

	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// DefaultMaxRounds is how often one request may ask the client for input.
	DefaultMaxRounds = 10

	// DefaultRoundsTimeout is how long the rounds of one request may take
	// together.
	DefaultRoundsTimeout = 10 * time.Minute

	// DefaultMaxSubscriptions is how many resources a session may subscribe to.
	DefaultMaxSubscriptions = 1024

	// MaxServerRequests is how much a server may ask in one round.
	MaxServerRequests = 64

	// DiscoverTimeout is how long the server may take to say what it can do.
	DiscoverTimeout = 30 * time.Second
)

// Options says how clients are carried. The zero value is ready to use.
type Options struct {
	// Name and Version are what we call ourselves if the server does not say who
	// it is. If empty, they are "dragoman" and "0.0.0".
	Name, Version string

	// Revisions are those that clients are offered. If nil, it is all of them.
	Revisions []protocol.Revision

	// MaxRounds is how often one request may ask the client for input. Zero
	// means DefaultMaxRounds; negative means no limit.
	MaxRounds int

	// RoundsTimeout bounds the rounds of one request, all together: after that
	// long no answer is waited for and no round begins. What the server does with
	// the answers may take longer. Zero means DefaultRoundsTimeout; negative
	// means no limit.
	RoundsTimeout time.Duration

	// MaxSubscriptions is how many resources a session may subscribe to. Zero
	// means DefaultMaxSubscriptions; negative means no limit.
	MaxSubscriptions int

	// Logger is told of what goes wrong between the server and us. If nil,
	// nothing is logged.
	Logger *slog.Logger
}

// withDefaults returns the options with all that was left out filled in.
func (o *Options) withDefaults() Options {
	var full Options
	if o != nil {
		full = *o
	}
	if full.Name == "" {
		full.Name = "dragoman"
	}
	if full.Version == "" {
		full.Version = "0.0.0"
	}
	if full.Revisions == nil {
		full.Revisions = protocol.Revisions()
	}
	full.MaxRounds = limit(full.MaxRounds, DefaultMaxRounds)
	full.MaxSubscriptions = limit(full.MaxSubscriptions, DefaultMaxSubscriptions)
	switch {
	case full.RoundsTimeout == 0:
		full.RoundsTimeout = DefaultRoundsTimeout
	case full.RoundsTimeout < 0:
		full.RoundsTimeout = math.MaxInt64 / 4 // 73 years
	}
	full.Logger = cmp.Or(full.Logger, slog.New(slog.DiscardHandler))
	return full
}

func limit(n, standard int) int {
	switch {
	case n == 0:
		return standard
	case n < 0:
		return math.MaxInt
	}
	return n
}
