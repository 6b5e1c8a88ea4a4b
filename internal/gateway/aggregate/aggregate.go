package aggregate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/syncs"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// DefaultPerMember is how long a list waits for one member.
const DefaultPerMember = 4 * time.Second

// A Member is one of the servers that an Aggregate is made of. It is comparable; two
// that are equal are the same server.
type Member interface {
	// Name is what the server is called here. No two members have the same.
	Name() string

	// Requests answers requests of the modern era. What it lists is offered.
	Requests() dragoman.Peer

	// Prefix is what stands before its names here. If nil, it is as Options say. A
	// change takes effect by Set.
	Prefix() *string

	// OnChange has f told of list changes, by the method of the notification,
	// until stop is called. f does not block.
	OnChange(f func(note string)) (stop func())
}

// Options are what an Aggregate says of itself, and how it works. The zero value
// holds the defaults.
type Options struct {
	// Name and Version are what it calls itself. If empty, they are "dragoman"
	// and dragoman.Version.
	Name, Version string

	// Instructions stand before those of the members.
	Instructions string

	// Plain leaves names as they are: of two members with a tool or prompt of one
	// name, the first wins. So what a member has is offered when the lists of all
	// before it are known, or have been. Otherwise the member's name and "_" stand
	// before its names.
	Plain bool

	// Logger receives what is left out. If nil, nothing is logged.
	Logger *slog.Logger

	// PerMember is how long a list waits for one member, which is left out then.
	// Zero means DefaultPerMember.
	PerMember time.Duration
}

// An Aggregate is several servers as one. It implements [dragoman.Peer], of the modern
// era. Any number of goroutines may use it.
type Aggregate struct {
	opts Options
	log  *slog.Logger
	info json.RawMessage // how we introduce ourselves

	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	busy   syncs.Group // our goroutines

	setting sync.Mutex // orders Set and Close
	group   atomic.Pointer[group]
	pages   snapshots
	listens subscription.Hub
}

// New returns an Aggregate of no members. opts may be nil.
func New(opts *Options) *Aggregate {
	a := new(Aggregate)
	if opts != nil {
		a.opts = *opts
	}
	if a.opts.Name == "" {
		a.opts.Name, a.opts.Version = "dragoman", dragoman.Version
	}
	if a.opts.PerMember <= 0 {
		a.opts.PerMember = DefaultPerMember
	}
	a.log = cmp.Or(a.opts.Logger, slog.New(slog.DiscardHandler))
	a.info = join(`{"name":`, dragoman.Quote(a.opts.Name), `,"version":`, dragoman.Quote(a.opts.Version), `}`)
	a.ctx, a.cancel = context.WithCancelCause(context.Background())
	a.group.Store(newGroup(nil, a.opts.Plain))
	return a
}

// Call answers a request. What belongs to a member passes as it is, but for the
// name of what it is about.
func (a *Aggregate) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if a.ctx.Err() != nil {
		return nil, dragoman.ErrClosed
	}
	r := &request{Message: req, from: from, group: a.group.Load()}
	resp, err := a.serve(ctx, r)
	switch {
	case err == nil:
		return resp, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	// The end of a member's conversation is not the end of ours.
	return protocol.Failure(req, err), nil
}

// A request is one that is being answered, by the members there were when it came.
type request struct {
	*dragoman.Message
	from  dragoman.Peer // may be nil
	group *group
}

// view returns what is known of what its sender is offered.
func (r *request) view(ctx context.Context) *view { return r.group.view(callerOf(ctx, r.Message)) }

// Notify drops what a modern client tells outside of any request: there is nothing
// that a member could use, and who cancels has been heard by the transport.
func (a *Aggregate) Notify(context.Context, *dragoman.Message) error { return nil }

// Close ends all subscriptions in good order, and refuses requests from then on.
// Those in progress continue. It waits for our goroutines.
func (a *Aggregate) Close() error {
	a.setting.Lock()
	defer a.setting.Unlock()
	if a.ctx.Err() == nil {
		for _, m := range a.group.Load().members {
			m.stop()
		}
	}
	a.cancel(dragoman.ErrClosed)
	a.busy.Wait()
	return nil
}

// join puts pieces of JSON text, strings or bytes, together.
func join(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			b = append(b, p...)
		case []byte:
			b = append(b, p...)
		case json.RawMessage:
			b = append(b, p...)
		}
	}
	return b
}

// array returns texts as a JSON array.
func array(texts []string) []byte {
	b := []byte{'['}
	for i, s := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, dragoman.Quote(s)...)
	}
	return append(b, ']')
}

// failure is an error of our own.
func failure(code int, format string, args ...any) *dragoman.Error {
	return &dragoman.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// invalid is the error for a request that is wrong.
func invalid(format string, args ...any) *dragoman.Error {
	return failure(protocol.CodeInvalidParams, format, args...)
}

var _ dragoman.Peer = (*Aggregate)(nil)
