package rawclient

import (
	"time"

	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A Subject is the server that is looked at, and how patiently.
type Subject struct {
	// Spec is the server. Name is for people, Version is that of the client, as told to the server.
	Spec          *target.Spec
	Name, Version string

	// Timeout is how long an answer may take, Start how long the first one of a command.
	Timeout, Start time.Duration

	// Grace is how long a process may take to end by itself, and Glance how long something is waited
	// for that need not come. The packages that look at servers have defaults for both.
	Grace, Glance time.Duration

	answer, first time.Duration // the same as Timeout and Start, of a process that starts beside others
	hurry         bool          // responses have wrong ids
	ignores       bool          // a request was ignored
}

// Client makes a client of the server.
func (s *Subject) Client(w Wire, rev protocol.Revision) *Client {
	if wire, ok := w.(interface{ Hurry() }); ok && s.hurry {
		wire.Hurry()
	}
	return &Client{Wire: w, Revision: rev, Version: s.Version, Timeout: max(s.Timeout, s.answer), Start: s.first, subject: s}
}

// Hurry says that the server is known to answer under wrong ids: clients that are made from now on
// do not wait long for the right answer behind such a one.
func (s *Subject) Hurry() { s.hurry = true }

// slowStart is how many times longer a process may take to start beside others than alone.
const slowStart = 4

// Began says how long the first process took over its first answer, so that those that start beside
// others get the time that they need. It returns how long such a process may take over an answer: at
// least Timeout, and at most Start.
func (s *Subject) Began(took time.Duration) time.Duration {
	usual := slowStart * took
	s.answer, s.first = max(s.Timeout, min(s.Start, usual)), min(s.Start, slowStart*usual)
	return s.answer
}
