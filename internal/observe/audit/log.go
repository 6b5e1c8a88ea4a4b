package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of Options.
const (
	DefaultMaxSize = 100 << 20
	DefaultMaxAge  = 7 * 24 * time.Hour
	DefaultKeep    = 10
)

const (
	// maxQueue is how many events wait to be written.
	maxQueue = 4096

	// maxBatch is how many are written at once.
	maxBatch = 256

	// gatherTime is how long the first event waits for others: to write them one by one,
	// each with a goroutine that is woken up, would cost more than all else. What a kill loses is
	// what has happened in that time.
	gatherTime = 5 * time.Millisecond

	// retryInterval is how long it takes until what could not be written is tried again.
	retryInterval = time.Second

	// endFailureAfter is how long nothing may fail before the log counts as written again.
	endFailureAfter = 10 * time.Second

	// deniedWindow is the time in which so many requests that were denied at the endpoint
	// are written down, in all and of one address. Others are counted.
	deniedWindow     = 10 * time.Second
	maxDenied        = 100
	maxDeniedAddress = 10
)

// Options configures a Log. In each limit zero means the default; a negative MaxAge
// means that a file is as old as it gets. One file at least is kept: it is how a file that was put
// aside is told from one that was taken away.
type Options struct {
	// MaxSize and MaxAge are when a file is put aside and another is begun. Keep is how many
	// are kept of those that were put aside.
	MaxSize int64
	MaxAge  time.Duration
	Keep    int

	// Refuse says that no call is passed on before it is written that it was started, see Begin.
	Refuse bool

	// Arguments says that those of calls are written down, see WantsArguments.
	Arguments bool

	// Webhook is told of some events, if it is not nil.
	Webhook *Webhook

	// Logger is told when events cannot be written, once, and when they can be again. If
	// nil, nobody is.
	Logger *slog.Logger
}

func (o *Options) withDefaults() *Options {
	d := *o
	d.MaxSize, d.MaxAge, d.Keep = cmp.Or(o.MaxSize, DefaultMaxSize), cmp.Or(o.MaxAge, DefaultMaxAge), max(1, cmp.Or(o.Keep, DefaultKeep))
	d.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &d
}

// A Log writes events down. All methods of a nil Log do nothing. Any number of goroutines
// may use it.
type Log struct {
	opts    atomic.Pointer[Options]
	queue   chan entry
	hurry   chan struct{} // holds a value while an event waits that is not to be gathered
	webhook hook
	file    *file         // of run
	closing chan struct{} // closed by Close
	done    chan struct{} // closed when run has ended
	err     error         // of the end; set before done is closed
	once    sync.Once

	blocked atomic.Bool // the last attempt to write has failed
	written atomic.Uint64
	refused atomic.Uint64 // calls, since the last time that their number was written

	mu      sync.Mutex
	failing bool
	failure Failure
	last    time.Time // when something failed
	lost    uint64    // events that are not written down, since the last time that this was
	denied  window
}

// An entry is an event that waits to be written.
type entry struct {
	event   Event
	written chan<- error // is sent once what came of it; nil if no caller waits
}

// A Failure says how events fail to be written.
type Failure struct {
	Since time.Time `json:"since"`
	Error string    `json:"error,omitempty"`
}

// A window counts requests that were denied at the endpoint.
type window struct {
	all        int
	by         map[string]int // by address
	suppressed uint64
}

// A Status says how a log is.
type Status struct {
	File    string         `json:"file"`
	Written uint64         `json:"written"`           // since the start
	Failure *Failure       `json:"failure,omitempty"` // while it lasts
	Lost    uint64         `json:"lost,omitempty"`    // events, that the log has still to tell of
	Webhook *WebhookStatus `json:"webhook,omitempty"`
}

// Open opens the log in a file, or continues with it. One process can have it open. The
// caller calls Close.
func Open(path string, opts *Options) (*Log, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, fmt.Errorf("audit: %s: %w", path, err)
	}
	return start(f, opts), nil
}

func start(f *file, opts *Options) *Log {
	l := &Log{queue: make(chan entry, maxQueue), hurry: make(chan struct{}, 1), file: f, closing: make(chan struct{}), done: make(chan struct{})}
	l.webhook.init()
	l.Configure(opts)
	go l.run() // ends with Close
	return l
}

// Configure replaces the options, from now on.
func (l *Log) Configure(opts *Options) {
	if l == nil {
		return
	}
	o := opts.withDefaults()
	l.opts.Store(o)
	l.webhook.configure(o.Webhook, o.Logger)
}

// WantsArguments reports whether calls are written down with their arguments.
func (l *Log) WantsArguments() bool { return l != nil && l.opts.Load().Arguments }

var errQueue = errors.New("more happens than can be written")

var errNotWritten = errors.New("the audit log cannot be written, and no request is passed on without it; try again later")

// Begin writes that a call is about to be passed on, and returns when that is in the file, if the log refuses what
// it cannot write. Otherwise it does nothing. With an error the call must not be passed on; it is that of the
// context if that has ended.
func (l *Log) Begin(ctx context.Context, e *Event) error {
	if !l.Refuses() {
		return nil
	}
	// The other half of the queue is for calls in flight.
	if l.blocked.Load() || len(l.queue) > maxQueue/2 {
		l.refused.Add(1)
		return errNotWritten
	}
	begun := *e
	begun.Kind = CallStarted
	written := make(chan error, 1)
	if !l.enqueue(begun, written) {
		l.refused.Add(1)
		return errNotWritten
	}
	select {
	case l.hurry <- struct{}{}:
	default: // it is known
	}
	select {
	case err := <-written:
		return err
	case <-l.done:
		return errNotWritten
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ready returns an error if the log refuses what it cannot write, and could not write what came last.
func (l *Log) Ready() error {
	if l.Refuses() && l.blocked.Load() {
		l.refused.Add(1)
		return errNotWritten
	}
	return nil
}

// Refuses reports whether calls must not be passed on before Begin.
func (l *Log) Refuses() bool { return l != nil && l.opts.Load().Refuse }

// Record writes an event down. It does not wait: if too many are waiting, the event is
// counted as lost.
func (l *Log) Record(e Event) {
	if l != nil {
		l.enqueue(e, nil)
	}
}

// enqueue has an event written, and reports whether there is room for it. If not, it is counted as lost, unless its
// caller waits for that.
func (l *Log) enqueue(e Event, written chan<- error) bool {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.bound()
	select {
	case <-l.closing:
		if written == nil {
			l.lose(1)
		}
		return false
	case l.queue <- entry{e, written}:
		return true
	default:
	}
	if written == nil {
		l.fail(errQueue, 1)
	}
	return false
}

func (l *Log) lose(n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost += n
}

// Deny writes down that a request was denied at the endpoint, so that those who are can make
// the log as large as they like: beyond a limit they are counted.
func (l *Log) Deny(e Event) {
	if l == nil {
		return
	}
	e.Kind, e.Outcome = DeniedAtEndpoint, Denied
	l.mu.Lock()
	w := &l.denied
	suppress := w.all >= maxDenied || w.by[e.Address] >= maxDeniedAddress
	if suppress {
		w.suppressed++
	} else {
		if w.by == nil {
			w.by = make(map[string]int)
		}
		w.all++
		w.by[e.Address]++
	}
	l.mu.Unlock()
	if !suppress {
		l.Record(e)
	}
}

// endWindow begins the next one, and writes down what was counted in the one before.
func (l *Log) endWindow() {
	l.mu.Lock()
	n := l.denied.suppressed
	l.denied = window{}
	l.mu.Unlock()
	if n > 0 {
		l.Record(Event{Kind: DeniedAtEndpoint, Outcome: Denied, Count: n, Reason: "requests that were denied besides, and are not written down one by one"})
	}
}

// Close writes what is waiting and ends. If that cannot be written, it is lost.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.once.Do(func() {
		l.endWindow()
		close(l.closing)
	})
	<-l.done
	return l.err
}

// Status returns how the log is, or nil if there is none.
func (l *Log) Status() *Status {
	if l == nil {
		return nil
	}
	s := &Status{File: l.file.path, Written: l.written.Load(), Webhook: l.webhook.status()}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Lost = l.lost
	if l.failing {
		failure := l.failure
		s.Failure = &failure
	}
	return s
}

// run writes events as they come. It owns the file.
func (l *Log) run() {
	defer close(l.done)
	windows := time.NewTicker(deniedWindow)
	defer windows.Stop()
	gathered := time.NewTimer(gatherTime)
	defer gathered.Stop()
	var batch []entry
	var buf []byte
	for ended := false; !ended; {
		if len(batch) == 0 && !l.blocked.Load() { // else it could not be written
			select {
			case e := <-l.queue:
				batch = append(batch, e)
				if e.written == nil && len(l.queue) < maxBatch && !l.isClosing() {
					gathered.Reset(gatherTime)
					select {
					case <-gathered.C:
					case <-l.hurry:
					}
				}
			case <-windows.C:
				l.endWindow()
				l.endFailure()
				continue
			case <-l.closing:
				ended = len(l.queue) == 0
			}
		}
		batch = l.gather(batch)
		var err error
		if buf, err = l.write(buf, batch); err == nil {
			clear(batch)
			batch = batch[:0]
			continue
		}
		l.blocked.Store(true)
		l.fail(err, 0)
		batch = l.withdraw(batch)
		select {
		case <-l.closing:
			ended = true
		case <-time.After(retryInterval):
		}
	}
	l.end(batch)
}

// withdraw returns a batch that was not written without the calls that wait for that. They are not passed on.
func (l *Log) withdraw(batch []entry) []entry {
	return slices.DeleteFunc(batch, func(e entry) bool {
		if e.written != nil {
			l.refused.Add(1)
			e.written <- errNotWritten // there is room for one
		}
		return e.written != nil
	})
}

func (l *Log) isClosing() bool {
	select {
	case <-l.closing:
		return true
	default:
		return false
	}
}

// gather adds what is waiting to a batch.
func (l *Log) gather(batch []entry) []entry {
	for len(batch) < maxBatch {
		select {
		case e := <-l.queue:
			batch = append(batch, e)
		default:
			return batch
		}
	}
	return batch
}

// write writes a batch, behind the number of events that were lost.
func (l *Log) write(buf []byte, batch []entry) ([]byte, error) {
	l.mu.Lock()
	lost, since := l.lost, l.failure.Since
	l.mu.Unlock()
	refused := l.refused.Load()
	if len(batch) == 0 && lost == 0 && refused == 0 {
		return buf, nil
	}
	events := make([]Event, 0, len(batch)+2)
	if lost > 0 {
		events = append(events, Event{Kind: Lost, Time: time.Now(), Count: lost, Reason: "events that could not be written, since " + since.UTC().Format(timeFormat)})
	}
	if refused > 0 {
		events = append(events, Event{Kind: CallsRefused, Time: time.Now(), Outcome: Refused, Count: refused, Reason: "calls that were refused because they could not be written"})
	}
	for i := range batch {
		events = append(events, batch[i].event)
	}
	for i := range events {
		events[i].complete()
	}
	buf, err := l.file.write(buf, events, l.opts.Load())
	if err != nil {
		return buf, err
	}
	l.written.Add(uint64(len(events)))
	l.refused.Add(-refused)
	l.recovered(lost)
	for i := range batch {
		if w := batch[i].written; w != nil {
			w <- nil // there is room for one
		}
	}
	l.webhook.offer(buf, events)
	if cap(buf) > 1<<20 {
		buf = nil
	}
	return buf, nil
}

// fail notes that something cannot be written, and events that are lost by that. The log
// says so once.
func (l *Log) fail(err error, lost uint64) {
	l.mu.Lock()
	first := !l.failing
	l.last = time.Now()
	if first {
		l.failing, l.failure.Since = true, l.last
	}
	l.lost += lost
	l.failure.Error = err.Error()
	l.mu.Unlock()
	if o := l.opts.Load(); first {
		what := "what happens now may be missing from it"
		if o.Refuse {
			what = "requests are refused"
		}
		o.Logger.Error("the audit log is not written: "+what+"; make room on its disk, and see dragoman status", "error", err)
	}
}

// recovered notes that everything was written, with the number of those that were lost.
func (l *Log) recovered(lost uint64) {
	l.blocked.Store(false)
	l.mu.Lock()
	l.lost -= lost
	l.mu.Unlock()
	l.endFailure()
}

// endFailure ends a failure when nothing has failed for a while: a disk that is full, and a
// queue, have room now and then.
func (l *Log) endFailure() {
	l.mu.Lock()
	since := l.failure.Since
	over := l.failing && !l.blocked.Load() && l.lost == 0 && time.Since(l.last) >= endFailureAfter
	if over {
		l.failing = false
	}
	l.mu.Unlock()
	if over {
		l.opts.Load().Logger.Info("the audit log is written again", "since", since)
	}
}

// end closes everything.
func (l *Log) end(unwritten []entry) {
	l.lose(uint64(len(unwritten) + len(l.queue)))
	lost := l.Status().Lost
	l.webhook.close()
	l.err = l.file.close()
	if lost > 0 {
		l.opts.Load().Logger.Error("events are missing from the audit log", "lost", lost)
	}
}
