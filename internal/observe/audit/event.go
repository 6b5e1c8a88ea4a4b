// Package audit writes an audit log: one event per line, as JSON, in files that show later
// changes. The gateway records the events; docs/audit.md describes them.
//
//	event.go    events
//	record.go   an event as a line, and the chain of lines
//	log.go      the log: a queue, and the goroutine that writes
//	file.go     the files, when they are opened and rotated
//	tail.go     where a file of an earlier process continues
//	verify.go   reading files, and finding changes
//	webhook.go  sending lines elsewhere
//
//	Log.Record ─▶ queue ─▶ goroutine ─▶ file, head ─▶ queue ─▶ goroutine ─▶ webhook
//
// Each line has the hash of the line before and its own, so a line that was changed, moved,
// removed or inserted is found, across all files. A program that can write the files can
// compute all hashes again: compare the last hash with one that was kept elsewhere, such as by
// the webhook.
//
// Record copies an event into the queue and never waits; a nil Log does nothing. The goroutine
// of the log owns the file. It gathers events for 5 ms, writes them at once, then writes the
// head; so the file may be ahead of the head and never behind, which is how a cut end is
// found. The head is also the file that is locked, because the other one is renamed. A write
// succeeds as a whole or is taken back; what could not be written is encoded again with each
// attempt, one per second, after the number of events that were lost. Both goroutines end with
// Close.
//
// With refuse, a call waits in [Log.Begin] until its record is written, without gathering: one
// write and two wake-ups, 20 µs. Otherwise the log costs a call 2 µs, 3% (BenchmarkRecord,
// BenchmarkAudit).
//
//	queue                           4,096 events  lost ones are counted and recorded; with refuse,
//	                                              requests are refused from 2,048 on
//	text of an event; arguments     512 bytes;    cut
//	                                4 KiB
//	denials at an endpoint in 10 s  100, 10 of    counted
//	                                an address
//	webhook queue; per request      1,024; 100    dropped, counted; the next request
//	webhook request; attempts;      10 s; 6; 3 s  dropped, counted
//	all at Close
package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
)

// Kinds of events.
const (
	Call             = "call"         // a request to a server has ended
	CallStarted      = "call-started" // a request is about to be passed on, see [Log.Begin]
	SessionOpened    = string(event.SessionOpened)
	SessionClosed    = string(event.SessionClosed)
	DeniedAtEndpoint = string(event.Denied)
	SignIn           = string(event.SignIn)
	TokenIssued      = string(event.TokenIssued)
	TokenRevoked     = string(event.TokenRevoked)
	Reload           = string(event.Reload)
	Start            = string(event.Start)
	Stop             = string(event.Stop)

	// What the log says of itself.
	FileBegun = "file" // the first record of each file
	Torn      = "torn" // a line before was not written whole, because of a kill or a full disk
	Cut       = "cut"  // records that were there are missing
	Lost      = "lost" // events that could not be written

	CallsRefused = "calls-refused" // because they could not be written
)

// Outcomes.
const (
	Answered  = "answered"
	Failed    = "error"     // an error of the server; Code is its code
	Denied    = "denied"    // by a rule of ours
	Refused   = "refused"   // by us, for another reason; it was not sent to the server
	Cancelled = "cancelled" // by the caller
	Unknown   = "unknown"   // it was sent, and what became of it is not known
)

// An Event is something that has happened. Fields that do not apply are left at zero.
type Event struct {
	Time time.Time `json:"-"` // zero means now
	Kind string    `json:"event"`

	Request string `json:"request,omitempty"` // its id, as in the log
	Caller
	Server string `json:"server,omitempty"`
	Method string `json:"method,omitempty"` // of MCP, or of HTTP if it came no further
	Name   string `json:"name,omitempty"`   // of a tool or a prompt, a resource's URI, a path

	Outcome  string        `json:"outcome,omitempty"`
	Code     int           `json:"code,omitempty"`   // of a JSON-RPC error, or HTTP status
	Rule     string        `json:"rule,omitempty"`   // that denied it
	Reason   string        `json:"reason,omitempty"` // in words of ours
	Duration time.Duration `json:"-"`
	In       int           `json:"in,omitempty"`  // bytes of the request
	Out      int           `json:"out,omitempty"` // bytes of the answer

	// Arguments are those of a call, without secrets and bounded. See [Arguments].
	Arguments string `json:"arguments,omitempty"`

	Count  uint64 `json:"count,omitempty"`  // of what this is about: events, bytes
	Digest string `json:"digest,omitempty"` // of the bytes that a torn line has left
	Oldest uint64 `json:"oldest,omitempty"` // the first record that is kept, in the first of a file
}

// Caller is a caller as it is written down. Session is a digest when it is: with the id
// itself somebody could use the session.
type Caller struct {
	Principal  string `json:"principal,omitempty"`
	Credential string `json:"credential,omitempty"`
	Address    string `json:"address,omitempty"`
	Client     string `json:"client,omitempty"`
	Session    string `json:"session,omitempty"`
	Transport  string `json:"transport,omitempty"`
}

// CallerOf returns a caller as it is written down. It has nothing of the caller's headers.
func CallerOf(c *dragoman.Caller) Caller {
	return Caller{Principal: c.Principal, Credential: c.Credential, Address: c.Address, Client: c.Client, Session: c.Session, Transport: c.Transport}
}

// Longest texts of a record, in bytes. What is longer is cut.
const (
	maxShort     = 128  // names that we give, and those of methods and clients
	maxLong      = 512  // names, URIs, principals and reasons
	maxArguments = 4096 // before they are quoted
)

// Arguments returns the arguments of a call as they may be written down.
func Arguments(value []byte) string {
	if len(value) == 0 {
		return ""
	}
	return redact.Value(value, maxArguments)
}

// bound cuts what is too long, so that an event that waits holds on to little, and to
// nothing of the message that it is about.
func (e *Event) bound() {
	for _, s := range []*string{&e.Kind, &e.Request, &e.Credential, &e.Address, &e.Client, &e.Session, &e.Transport, &e.Server, &e.Method, &e.Outcome, &e.Rule, &e.Digest} {
		*s = redact.Cut(*s, maxShort)
	}
	e.Principal, e.Reason = redact.Cut(e.Principal, maxLong), redact.Cut(e.Reason, maxLong)
	e.Name, e.Arguments = strings.Clone(redact.Cut(e.Name, maxLong)), redact.Cut(e.Arguments, maxArguments+maxShort)
	e.Client = strings.Clone(e.Client)
}

// complete makes of an event what is written down of it.
func (e *Event) complete() {
	e.Reason, e.Name = redact.Text(e.Reason), redact.URI(e.Name)
	if e.Session != "" {
		sum := sha256.Sum256([]byte(e.Session))
		e.Session = hex.EncodeToString(sum[:8])
	}
}
