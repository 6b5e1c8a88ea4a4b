package httpserver

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/internal/wire/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Defaults of a Endpoint.
const (
	DefaultMaxRequests = 16384
	DefaultBodyTimeout = 10 * time.Second
)

const (
	// closeWait is how long Shutdown continues when its context has ended: requests that
	// were told to stop are answered in that time, so that their clients learn that
	// they were lost.
	closeWait = 500 * time.Millisecond

	// cutWait is the last part of closeWait, when clients that do not read what is
	// written to them have been cut.
	cutWait = 100 * time.Millisecond
)

// BaseOptions configures a Endpoint. Zero values mean the defaults, negative limits and
// durations mean none.
type BaseOptions struct {
	// Hosts and Origins are those of a Gate. Trusted says that somebody in front has
	// checked Host and Origin.
	Hosts, Origins []string
	Trusted        bool

	// Caller returns who makes a request, or why it is refused. If nil, ByAddress does.
	Caller CallerFunc

	// MaxRequests is how many requests are served at once; more get 503.
	MaxRequests int

	// MaxMessage is the largest body, as in dragoman.Limits.
	MaxMessage int

	// BodyTimeout is how long a body may take to arrive, WriteTimeout how long a client
	// may take to read what is written to it.
	BodyTimeout, WriteTimeout time.Duration

	// Belongs, if not nil, reports whether a request belongs to another that is under
	// way, as an answer to a question does. It is served while Shutdown waits for that.
	Belongs func(*http.Request) bool

	// Logger receives refusals and panics. If nil, nothing is logged. What is refused because of
	// mistakes of clients is logged at the level info, see [Mistakes].
	Logger *slog.Logger
}

// A Base is what all HTTP servers share: the checks before each request, its answer,
// and the shutdown.
type Base struct {
	Limits dragoman.Limits // of messages
	Log    *slog.Logger    // never nil

	mistakes *Mistakes

	gate    *Gate // nil if Host and Origin have been checked
	caller  CallerFunc
	belongs func(*http.Request) bool
	max     int
	reading *httpframe.Timeouts // of requests whose body comes
	write   time.Duration

	draining chan struct{}   // closed when Shutdown begins
	aborted  context.Context // ends when what is in flight has had its time
	abort    context.CancelCauseFunc
	idle     chan struct{} // closed when Shutdown has begun and nothing is in progress

	mu       sync.Mutex // guards what follows, and the hooks of exchanges
	stopping bool
	first    *Exchange // of those that are open
	open     int
	busy     int // exchanges, and what Go runs
}

// NewBase returns a base that accepts requests.
func NewBase(o *BaseOptions) *Base {
	d := &Base{
		Limits: dragoman.Limits{MaxMessage: o.MaxMessage}, Log: Logger(o.Logger),
		caller: o.Caller, belongs: o.Belongs, max: httpframe.Limit(o.MaxRequests, DefaultMaxRequests),
		reading: httpframe.NewTimeouts(httpframe.Duration(o.BodyTimeout, DefaultBodyTimeout)), write: httpframe.Duration(o.WriteTimeout, sse.WriteTimeout),
		draining: make(chan struct{}), idle: make(chan struct{}),
	}
	d.mistakes = mistakesOf(d.Log)
	if d.caller == nil {
		d.caller = ByAddress
	}
	if !o.Trusted {
		d.gate = &Gate{Hosts: o.Hosts, Origins: o.Origins}
	}
	d.aborted, d.abort = context.WithCancelCause(context.Background())
	return d
}

// Logger returns l, or one that drops everything if it is nil.
func Logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}

// Serve checks a request and has f answer it. Host and Origin are checked before all
// else. The error of f is written as a
// [Refusal], unless f has begun to answer. A panic is logged; its request is refused,
// or its connection ended if the answer has begun.
//
// Pages may read every answer to a request that passed these checks, refusals too.
func (d *Base) Serve(w http.ResponseWriter, r *http.Request, f func(*Exchange) error) {
	x := &Exchange{W: w, R: r, base: d}
	if d.gate != nil {
		if err := d.gate.Check(r); err != nil {
			varyByOrigin(w.Header())
			x.refuse(err)
			return
		}
	}
	if AllowOrigin(w, r) {
		return
	}
	if refusal := d.enter(x); refusal != nil {
		x.refuse(refusal)
		return
	}
	defer d.leave(x)
	defer x.recover()
	var refusal *Refusal
	if x.Caller, refusal = CallerOf(r, d.caller); refusal != nil {
		x.refuse(refusal)
		return
	}
	if err := f(x); err != nil {
		x.refuse(err)
	}
}

// enter adds an exchange, or refuses it.
func (d *Base) enter(x *Exchange) *Refusal {
	belongs := false
	select {
	case <-d.draining:
		belongs = d.belongs != nil && d.belongs(x.R)
	default:
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.stopping && (!belongs || d.busy == 0):
		return Unavailable(protocol.Draining())
	case d.open >= d.max:
		return Unavailable(protocol.Overloaded("there are too many requests at once; try again later"))
	}
	if x.next = d.first; x.next != nil {
		x.next.prev = x
	}
	d.first = x
	d.open++
	d.busy++
	return nil
}

// leave removes an exchange whose handler returns, unless it was detached.
func (d *Base) leave(x *Exchange) {
	x.mu.Lock()
	x.over = true
	x.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !x.detached {
		d.remove(x)
	}
}

// remove removes an exchange. d.mu is locked.
func (d *Base) remove(x *Exchange) {
	if x.prev != nil {
		x.prev.next = x.next
	} else {
		d.first = x.next
	}
	if x.next != nil {
		x.next.prev = x.prev
	}
	if x.unwatch != nil {
		x.unwatch()
	}
	d.open--
	d.done()
}

// done decrements busy. d.mu is locked.
func (d *Base) done() {
	if d.busy--; d.busy == 0 && d.stopping {
		close(d.idle)
	}
}

// Go runs f on a goroutine of its own, which Shutdown waits for. It reports false if
// Shutdown has begun; f is not run then.
func (d *Base) Go(f func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopping {
		return false
	}
	d.busy++
	// Ends when f returns.
	go func() {
		defer func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.done()
		}()
		f()
	}()
	return true
}

// Draining is closed when Shutdown begins. Streams without an end should end then.
func (d *Base) Draining() <-chan struct{} { return d.draining }

// Aborted ends when what is in flight at Shutdown has had its time.
func (d *Base) Aborted() context.Context { return d.aborted }

// Shutdown refuses new requests with 503, and waits for those in flight until ctx
// ends. Then it tells the rest to stop, lets them answer, cuts clients that do not
// read, and returns the cause of ctx: half a second later at the latest, even if some
// still run.
func (d *Base) Shutdown(ctx context.Context) error {
	d.drain()
	if isClosed(d.idle, ctx.Done()) {
		return nil
	}
	d.abortAll(context.Cause(ctx))
	if d.idleWithin(closeWait - cutWait) {
		return context.Cause(ctx)
	}
	n := d.cutAll()
	if !d.idleWithin(cutWait) {
		d.Log.Warn("requests did not end in time and are abandoned", "requests", n)
	}
	return context.Cause(ctx)
}

// Close is Shutdown that does not wait for requests in flight to be done.
func (d *Base) Close() error {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(dragoman.ErrClosed)
	_ = d.Shutdown(ctx) // what it cut was to be cut
	return nil
}

// isClosed waits for the end of either, and reports whether the first has ended.
func isClosed(first <-chan struct{}, or <-chan struct{}) bool {
	select {
	case <-first:
	case <-or:
	}
	select {
	case <-first:
		return true
	default:
		return false
	}
}

func (d *Base) idleWithin(limit time.Duration) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-d.idle:
		return true
	case <-t.C:
		return false
	}
}

// drain refuses new requests, and calls the OnShutdown hooks of those in flight.
func (d *Base) drain() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopping {
		return
	}
	d.stopping = true
	close(d.draining)
	if d.busy == 0 {
		close(d.idle)
	}
	for x := d.first; x != nil; x = x.next {
		if x.onShutdown != nil {
			go x.onShutdown(d.aborted) // ends with the exchange
		}
	}
}

// abortAll calls the OnAbort hooks of all exchanges.
func (d *Base) abortAll(cause error) {
	d.abort(cause)
	var hooks []func()
	d.mu.Lock()
	for x := d.first; x != nil; x = x.next {
		if x.onAbort != nil {
			hooks = append(hooks, x.onAbort)
		}
	}
	d.mu.Unlock()
	for _, f := range hooks {
		f()
	}
}

// cutAll ends the connections of all exchanges, and returns how many there are.
func (d *Base) cutAll() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	for x := d.first; x != nil; x = x.next {
		x.cut()
	}
	return d.open
}

// recover ends an exchange whose handler has panicked.
func (x *Exchange) recover() {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	x.base.Log.Error("panic while answering a request", "method", x.R.Method, "path", x.R.URL.Path, "panic", p, "stack", string(debug.Stack()))
	if x.answered.Load() {
		panic(http.ErrAbortHandler) // so that the client sees that the answer is not whole
	}
	x.refuse(&Refusal{Status: http.StatusInternalServerError, Code: protocol.CodeInternal, Message: protocol.Panicked().Message})
}
