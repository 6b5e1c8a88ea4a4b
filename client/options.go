package client

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Defaults of Options.
const (
	// DefaultTimeout is how long the server may take over a request.
	DefaultTimeout = 30 * time.Second

	// DefaultMaxTimeout is how long it may take if it makes progress.
	DefaultMaxTimeout = 5 * time.Minute

	// DefaultConnectTimeout is how long a server may take to start or to be
	// reached, and to say who it is.
	DefaultConnectTimeout = 60 * time.Second
)

// A Handler answers a question of the server. params is that of the question;
// the result is JSON text or a value to encode. A *[dragoman.Error] is told to
// the server as it is, any other error by its text. ctx ends when the server
// does not want the answer any more.
type Handler func(ctx context.Context, params json.RawMessage) (result any, err error)

// Options says how a Client behaves. The zero value is ready to use.
type Options struct {
	// Name and Version are how we introduce ourselves. If Name is empty, they are
	// "dragoman" and dragoman.Version.
	Name, Version string

	// Era is the era to speak, and Revision the revision. If they are nil and
	// zero, the server decides. Connect fails if the server does not speak a
	// Revision that is given.
	Era      *protocol.Era
	Revision protocol.Revision

	// Hint is the era that the server spoke when it was last used, if that is
	// remembered. What is asked first goes by it, see [era.Server].
	Hint *protocol.Era

	// Sampling, Elicitation (by forms), ElicitationURL (by web sites) and Roots
	// answer the server's questions. The server is told that we can be asked
	// what there is a handler for. They may be called by several goroutines at
	// once.
	Sampling, Elicitation, ElicitationURL, Roots Handler

	// Capabilities, if not nil, is the JSON object of capabilities that is declared to the
	// server, in place of one that follows from the handlers.
	Capabilities json.RawMessage

	// OnNotification is given what the server tells: log messages, changes of
	// lists and of resources, and progress of requests that have no OnProgress.
	// It may be called by several goroutines at once, and the server is not heard
	// until it returns.
	OnNotification func(note *dragoman.Message)

	// Timeout is how long the server may take over a request, reset by
	// each progress that it reports, up to MaxTimeout in all; the time that our
	// own handlers take does not count. Zero means DefaultTimeout and
	// DefaultMaxTimeout, negative no limit.
	Timeout, MaxTimeout time.Duration

	// ToolTimeouts are the Timeouts of single tools, by name.
	ToolTimeouts map[string]time.Duration

	// ConnectTimeout bounds Connect, and each attempt to connect again. Zero
	// means DefaultConnectTimeout.
	ConnectTimeout time.Duration

	// Logger receives what happens between us and the server. If nil, nothing is
	// logged.
	Logger *slog.Logger
}

// withDefaults returns a copy in which everything is decided.
func (o *Options) withDefaults() Options {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Name == "" {
		opts.Name, opts.Version = "dragoman", dragoman.Version
	}
	orDefault(&opts.Timeout, DefaultTimeout)
	orDefault(&opts.MaxTimeout, DefaultMaxTimeout)
	orDefault(&opts.ConnectTimeout, DefaultConnectTimeout)
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Revision != protocol.Unknown && opts.Era == nil {
		era := opts.Revision.Era()
		opts.Era = &era
	}
	return opts
}

func orDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// clientInfo is how we introduce ourselves.
func (o *Options) clientInfo() json.RawMessage {
	text, _ := json.Marshal(map[string]string{"name": o.Name, "version": o.Version}) // strings can always be encoded
	return text
}

// capabilities returns the capabilities that are declared to the server.
func (o *Options) capabilities() json.RawMessage {
	type object = map[string]any
	if o.Capabilities != nil {
		return o.Capabilities
	}
	can, elicit := object{}, object{}
	if o.Sampling != nil {
		can["sampling"] = object{}
	}
	if o.Roots != nil {
		can["roots"] = object{}
	}
	if o.Elicitation != nil {
		elicit["form"] = object{}
	}
	if o.ElicitationURL != nil {
		elicit["url"] = object{}
	}
	if len(elicit) > 0 {
		can["elicitation"] = elicit
	}
	text, _ := json.Marshal(can) // as above
	return text
}

// handler returns who answers a question, or nil.
func (o *Options) handler(method string, params json.RawMessage) Handler {
	switch method {
	case protocol.MethodCreateMessage:
		return o.Sampling
	case protocol.MethodListRoots:
		return o.Roots
	case protocol.MethodElicit:
		var how struct{ Mode string }
		_ = json.Unmarshal(params, &how) // a question that names no mode has a form
		if how.Mode == "url" {
			return o.ElicitationURL
		}
		return o.Elicitation
	}
	return nil
}
