package upstream

import (
	"math"
	"time"

	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/target"
)

// Defaults of what a configuration may say. They are those of the tags in package
// config.
const (
	DefaultTimeout         = time.Hour              // of a request
	DefaultConnectTimeout  = 60 * time.Second       // of a start
	DefaultInstallTimeout  = 5 * time.Minute        // of a start by a command that may have to install the server
	DefaultRetryMin        = 250 * time.Millisecond // of a command
	DefaultRetryMax        = 30 * time.Second
	DefaultReconnectMin    = time.Second // of a URL
	DefaultReconnectMax    = 10 * time.Second
	DefaultRetryAttempts   = 3
	DefaultRestartMax      = 5
	DefaultRestartWindow   = 60 * time.Second
	DefaultHealthInterval  = 30 * time.Second
	DefaultHealthThreshold = 3
	DefaultCalls           = 128 // requests in flight
	DefaultQueue           = 64  // requests that wait
)

// Limits that cannot be set.
const (
	// MaxOutage is how long a request waits for a server that was there and is
	// away. One that has not failed yet may take its whole ConnectTimeout.
	MaxOutage = 10 * time.Second

	// MaxPause is the longest wait between two attempts that a request sits out
	// for a server that has not been there yet.
	MaxPause = 750 * time.Millisecond

	// MaxAdmission is how long a request waits while as many are in flight as may
	// be.
	MaxAdmission = time.Second

	// MaxListWait is how long a request for a list waits for a server of which no
	// list is known. It is less than toollist waits, so that the reason is told.
	MaxListWait = 4 * time.Second

	// MaxRetryAfter is how long a server may ask to be left alone.
	MaxRetryAfter = 5 * time.Minute

	// LogLines is how many lines are kept of each upstream.
	LogLines = 1000

	// pingTimeout bounds one health check.
	pingTimeout = 10 * time.Second
)

// settings is what a configuration says, with defaults filled in.
type settings struct {
	min, max      time.Duration // waits between attempts
	attempts      int           // before a request fails
	starts        int           // that may end badly within window
	window        time.Duration
	calls, queue  int
	connect       time.Duration
	timeout       time.Duration // zero means no limit
	idle          time.Duration // zero means never
	never         bool          // and that was said
	interval      time.Duration // zero means no looks at the health
	threshold     int
	lazy          bool
	process       bool // each conversation is one
	isolation     era.Isolation
	passes        bool // something of the caller is passed on
	sessionsShare bool // all sessions see the same lists
}

func newSettings(c *config.Server) settings {
	least, most := DefaultRetryMin, DefaultRetryMax
	if c.URL != "" {
		least, most = DefaultReconnectMin, DefaultReconnectMax
	}
	connect := DefaultConnectTimeout
	if c.Command != "" && target.Installs(append([]string{c.Command}, c.Args...)) {
		connect = DefaultInstallTimeout
	}
	s := settings{
		min: orDefault(c.Retry.Min, least), max: orDefault(c.Retry.Max, most),
		attempts: orDefault(c.Retry.Attempts, DefaultRetryAttempts),
		starts:   orDefault(c.Restart.Max, DefaultRestartMax), window: orDefault(c.Restart.Window, DefaultRestartWindow),
		calls: orDefault(c.Calls, DefaultCalls), queue: orDefault(c.Queue, DefaultQueue),
		connect: orDefault(c.ConnectTimeout, connect),
		timeout: orNone(c.Timeout, DefaultTimeout), idle: orNone(c.IdleStop, 0),
		interval: orNone(c.Health.Interval, DefaultHealthInterval), threshold: orDefault(c.Health.Threshold, DefaultHealthThreshold),
		never: c.IdleStop < 0, process: c.Command != "",
		passes: len(c.PassHeaders)+len(c.PassEnv) > 0 || c.Auth.SignIn == eachCaller,
	}
	s.lazy = c.Lazy || s.passes // there is nobody yet whose values could be passed on
	s.max = max(s.max, s.min)
	switch c.Isolation {
	case "client":
		s.isolation = era.PerCaller
	case "shared":
		s.isolation, s.sessionsShare = era.Shared, true
	case "request":
		s.isolation = era.PerRequest
	}
	return s
}

// sessionIdle is how long era keeps a session that nobody uses: as its key says, or
// else as long as the server itself. Zero means the default; that the server as such
// is kept running is the supervisor's doing.
func (s *settings) sessionIdle(c *config.Server) time.Duration {
	switch {
	case c.IdleSession < 0 || c.IdleSession == 0 && s.never:
		return math.MaxInt64 / 4 // there are few, and the oldest gives way
	case c.IdleSession > 0:
		return c.IdleSession
	}
	return s.idle
}

// longest is how long any request may take; zero means no limit.
func longest(base time.Duration, tools map[string]time.Duration) time.Duration {
	if base == 0 {
		return 0
	}
	for _, d := range tools {
		base = max(base, d)
	}
	return base
}

func orDefault[T int | time.Duration](v, d T) T {
	if v <= 0 {
		return d
	}
	return v
}

// orNone is orDefault for what may be none, which is negative and becomes zero.
func orNone(v, d time.Duration) time.Duration {
	switch {
	case v < 0:
		return 0
	case v == 0:
		return d
	}
	return v
}
