package peertest

import (
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Connect opens a conversation through the transport under test: server
// accepts it, client receives what the server sends outside of any call and may
// be nil. It returns the dialling side. Whatever it starts ends by
// Close of either side or by t.Cleanup. It may fail t.
type Connect func(t *testing.T, client dragoman.Peer, server dragoman.Acceptor) dragoman.Conn

// Options says what a transport cannot do. The zero value is a transport that
// can do everything. Behaviours that need more are skipped, with the reason.
type Options struct {
	// Revision is what the messages of the suite look like. With a legacy
	// revision each conversation begins with initialize, with a modern one each
	// message of the dialling side has its envelope in _meta. Unknown means
	// neither: the transport does not look.
	Revision protocol.Revision

	// ToolsOnly says that tools/call and its answer are all that passes, rebuilt
	// on the way: there are no notifications and no other requests, and of params
	// only name and arguments arrive.
	ToolsOnly bool

	// Stateless says that each request stands for itself. The accepting side
	// has no conversation that it could use or close, and does not learn
	// that the dialling side closed its own.
	Stateless bool

	// NoServerRequests says that the accepting side cannot ask inside a call.
	// Modern revisions imply it.
	NoServerRequests bool

	// NoNotes says that notifications inside a call do not pass.
	NoNotes bool

	// NoCancel says that the callee does not learn that a call is cancelled.
	NoCancel bool

	// Direct says that the callee runs on the caller's goroutine, as with
	// [dragoman.Pipe]. Then what the callee does to its goroutine happens to
	// the caller too: a panic goes through both, and a side that does not
	// return blocks the other.
	Direct bool

	// MaxMessage is the size of the largest message that passes, in bytes. Zero
	// means that the transport's limit is [dragoman.DefaultMaxMessage] or none,
	// and that it is not tried out.
	MaxMessage int

	// MaxCalls limits the calls in flight, if that is less
	// than 200.
	MaxCalls int

	// Light says that another run over the same transport shows what depends on how
	// large or how many messages are: that is left out, and at most 20 calls are under
	// way at once. It is for runs that differ from that one in something else, such as
	// the revision. With -short, all runs are light.
	Light bool
}

// Run shows that a transport keeps the promises of [dragoman.Peer] and
// [dragoman.Conn]. opts may be nil.
func Run(t *testing.T, connect Connect, opts *Options) {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Light = o.Light || testing.Short()
	s := &suite{connect: connect, opts: o.withDefaults()}
	for _, list := range [...][]behaviour{calls, faults, notes, progress, questions, listens, cancels, closes, large, slow} {
		for _, b := range list {
			t.Run(b.name, func(t *testing.T) { s.run(t, b) })
		}
	}
}

// withDefaults sets what follows from other options.
func (o Options) withDefaults() Options {
	if o.ToolsOnly {
		o.Stateless, o.NoServerRequests, o.NoNotes = true, true, true
	}
	if !o.Revision.ServerMayAsk() {
		o.NoServerRequests = true
	}
	most := 200
	if o.Light {
		most = 20
	}
	if o.MaxCalls <= 0 || o.MaxCalls > most {
		o.MaxCalls = most
	}
	return o
}

type suite struct {
	connect Connect
	opts    Options
}

// A behaviour is something that every transport does.
type behaviour struct {
	name  string
	needs needs
	both  bool // shown from both sides
	run   func(t *test)
}

// needs is what a behaviour asks of a transport.
type needs uint

const (
	anyMethod       needs = 1 << iota // more than tools/call passes
	state                             // the accepting side has a conversation
	questionsInCall                   // the accepting side may ask inside a call
	serverRequests                    // it may send requests and notifications outside of any call
	notesInCall                       // notifications pass inside a call
	listening                         // subscriptions/listen
	cancelling                        // the callee learns of a cancel
	ownGoroutine                      // the callee does not run on the caller's goroutine
	sizeLimit                         // messages have a limit that is to be tried out
	volume                            // it is about large messages or many
)

// missing says why a transport need not show what has these needs, or "".
func (o *Options) missing(n needs) string {
	for _, m := range [...]struct {
		need    needs
		missing bool
		reason  string
	}{
		{anyMethod, o.ToolsOnly, "only tool calls pass"},
		{state | serverRequests, o.Stateless, "the accepting side has no conversation"},
		{questionsInCall | serverRequests, o.NoServerRequests, "the accepting side may not ask"},
		{notesInCall, o.NoNotes, "notifications inside a call do not pass"},
		{listening, o.ToolsOnly || o.NoNotes || o.Revision != protocol.Unknown && !o.Revision.HasListen(), "there are no listens"},
		{cancelling, o.NoCancel, "the callee does not learn of a cancel"},
		{ownGoroutine, o.Direct, "the callee runs on the caller's goroutine"},
		{sizeLimit, o.MaxMessage <= 0, "no limit of size to try out"},
		{volume, o.Light, "another run over this transport shows it"},
	} {
		if n&m.need != 0 && m.missing {
			return m.reason
		}
	}
	return ""
}

// run runs a behaviour, from both sides if it has two.
func (s *suite) run(t *testing.T, b behaviour) {
	if reason := s.opts.missing(b.needs); reason != "" {
		t.Skip(reason)
	}
	if !b.both {
		s.runOnce(t, b, false)
		return
	}
	t.Run("dialling side asks", func(t *testing.T) { s.runOnce(t, b, false) })
	t.Run("accepting side asks", func(t *testing.T) {
		if reason := s.opts.missing(serverRequests); reason != "" {
			t.Skip(reason)
		}
		s.runOnce(t, b, true)
	})
}

func (s *suite) runOnce(t *testing.T, b behaviour, reverse bool) {
	before := noLeak(t) // first, so that it looks last
	b.run(newTest(t, s, reverse, before))
}
