package event

import (
	"context"
	"time"

	"github.com/dragoman-mcp/dragoman"
)

// A Kind is what an [Event] reports. It is the name of the event in the audit log.
type Kind string

// The kinds of events.
const (
	Start         Kind = "start"          // of the gateway
	Stop          Kind = "stop"           // of the gateway, after everything else
	Reload        Kind = "reload"         // the configuration was read again
	SessionOpened Kind = "session-opened" // of a client, at an endpoint
	SessionClosed Kind = "session-closed"
	Denied        Kind = "denied" // a request was refused before it came to an endpoint
	SignIn        Kind = "sign-in"
	TokenIssued   Kind = "token-issued"
	TokenRevoked  Kind = "token-revoked"
)

// An Event is something that happened beside the requests that have an [Exchange]. Fields
// that do not apply are zero.
type Event struct {
	Kind    Kind
	Time    time.Time        // zero means now
	Request string           // the id of the HTTP request that caused it
	Caller  *dragoman.Caller // may be nil
	Server  string

	// Of a refused request: its method and path or tool, the status or code of the response,
	// and the rule that refused it.
	Method, Name string
	Code         int
	Rule         string

	Failed   bool          // the attempt failed
	Refused  bool          // it was refused, by a user or by us
	Reason   string        // in words of the gateway
	Duration time.Duration // of a session
}

// Nop is an Observer that ignores everything, to be embedded in those that do not.
type Nop struct{}

var _ Observer = Nop{}

// Begin implements Observer.
func (Nop) Begin(context.Context, *Exchange) error { return nil }

// End implements Observer.
func (Nop) End(context.Context, *Exchange) {}

// Watches implements Observer.
func (Nop) Watches(context.Context, *Link) bool { return false }

// Message implements Observer.
func (Nop) Message(context.Context, *Passing) {}

// Event implements Observer.
func (Nop) Event(context.Context, *Event) {}
