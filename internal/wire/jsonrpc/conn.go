package jsonrpc

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// LevelSteps is the level of how each message is read and written by a transport, below
// slog.LevelDebug.
const LevelSteps = slog.LevelDebug - 4

// A Conn is a conversation over a Stream.
type Conn struct {
	stream  Stream
	opts    Options
	local   dragoman.Peer // set once, by Start
	started atomic.Bool
	out     *queue
	stall   *time.Timer // owned by the goroutine that writes
	in      *Inbox[struct{}]

	ctx       context.Context // of the requests that are served; ends with the conversation
	cancel    context.CancelCauseFunc
	done      chan struct{} // closed when the conversation is over
	ended     atomic.Bool
	err       error         // set before done is closed
	reading   func()        // c.read, made once; one goroutine at a time runs it
	readDone  chan struct{} // closed when nobody reads any more
	writeDone chan struct{} // closed when nobody writes any more
	closed    chan struct{} // closed when the stream has been closed

	askLocal atomic.Bool // see AskLocal
	calls    *Calls
	requests *Requests
	barrier  handshakeBarrier
	workers  workers
	inline   inlineServing

	revision atomic.Uint32 // protocol.Revision, once it has been negotiated
}

var (
	_ dragoman.Conn        = (*Conn)(nil)
	_ dragoman.CallLimiter = (*Conn)(nil)
	_ dragoman.LocalAsker  = (*Conn)(nil)
)

// New returns the conversation over stream. Nothing is read before Start.
func New(stream Stream, opts *Options) *Conn {
	c := &Conn{
		stream:    stream,
		opts:      opts.withDefaults(),
		done:      make(chan struct{}),
		readDone:  make(chan struct{}),
		writeDone: make(chan struct{}),
		closed:    make(chan struct{}),
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.out = newQueue(c.opts.MaxQueue, c.writeOut)
	c.out.queued = c.opts.Queued
	c.in = NewInbox(func(note *dragoman.Message, _ struct{}) {
		Notify(c.ctx, c.local, note, c.opts.Logger)
		c.releaseHeld(note)
	})
	c.calls = NewCalls(c.opts.MaxCalls)
	c.requests = NewRequests(c.opts.MaxCalls)
	c.barrier.requests = c.requests
	c.reading = c.read
	// Ends when the queue is closed and empty, or the stream is.
	go c.write()
	return c
}

// Start makes local answer and begins to read. It is called once.
func (c *Conn) Start(local dragoman.Peer) {
	if local == nil {
		local = dragoman.NoPeer
	}
	c.local = local
	c.started.Store(true)
	c.workers.do(c.reading) // ends with the stream
}

// read takes frames until the stream ends. The goroutine that has read a
// request serves it, at once; another one reads on meanwhile.
func (c *Conn) read() {
	for !c.ended.Load() {
		frame, err := c.stream.Read()
		if err == nil {
			serve := c.takeFrame(frame)
			switch {
			case serve != nil && !c.serveNow(serve):
				return
			case serve == nil && !c.hasBuffered() && c.calls.HasCalls():
				// The caller that was woken goes first, and more answers gather meanwhile.
				// With one call alone there is nothing to gain by that.
				runtime.Gosched()
			}
			continue
		}
		var bad *BadFrame
		if errors.As(err, &bad) {
			c.badFrame(bad)
			continue
		}
		if errors.Is(err, io.EOF) {
			c.linger()
		}
		c.end(err)
		break
	}
	close(c.readDone)
}

// linger lets the requests that are being served finish after the other side has ended
// its stream. What we asked cannot be answered any more.
func (c *Conn) linger() {
	if c.opts.Linger <= 0 {
		return
	}
	c.calls.End(dragoman.Closed(io.EOF))
	c.requests.EndListens()
	c.requests.Wait(c.opts.Linger, c.done)
	c.out.drain(closeWait)
}

// end ends the conversation, once. It does not wait.
func (c *Conn) end(reason error) {
	if !c.ended.CompareAndSwap(false, true) {
		return
	}
	c.err = dragoman.Closed(reason)
	c.out.close(c.err) // first: what is answered because of the end is not sent
	close(c.done)      // before calls end: their callers must see that it is over
	c.calls.End(c.err)
	c.cancel(c.err)
	c.in.Close()
	c.workers.close()
	// Ends when it has closed the stream.
	go c.closeStream()
}

// closeStream closes the stream once what is queued has been written, or that takes
// too long.
func (c *Conn) closeStream() {
	defer close(c.closed)
	t := time.NewTimer(closeWait)
	defer t.Stop()
	select {
	case <-c.writeDone:
	case <-t.C:
	}
	_ = c.stream.Close()
}

// Close implements dragoman.Conn.
func (c *Conn) Close() error {
	c.end(nil)
	<-c.closed
	if c.started.Load() && !c.opts.Abandon {
		<-c.readDone
	}
	c.in.Wait(peerWait)
	<-c.writeDone
	c.requests.Wait(peerWait, nil)
	return nil
}

// AfterDone has f called when a connection is over.
func AfterDone(c dragoman.Conn, f func()) {
	if conn, ok := c.(interface{ AfterDone(func()) func() bool }); ok {
		conn.AfterDone(f)
		return
	}
	// Ends with the connection. Connections of this module's transports need no goroutine.
	go func() {
		<-c.Done()
		f()
	}()
}

// AfterDone has f called when the conversation is over, on a goroutine of its own, unless
// stop is called before.
func (c *Conn) AfterDone(f func()) (stop func() bool) { return context.AfterFunc(c.ctx, f) }

// Done implements dragoman.Conn.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err implements dragoman.Conn.
func (c *Conn) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// Revision returns what the handshake that passed through has negotiated, or
// protocol.Unknown.
func (c *Conn) Revision() protocol.Revision { return protocol.Revision(c.revision.Load()) } // #nosec G115 -- was stored as a Revision

// learnRevision stores the revision that an answer to initialize names.
func (c *Conn) learnRevision(req, resp *dragoman.Message) {
	if req.Method() == protocol.MethodInitialize && !resp.IsError() {
		c.revision.Store(uint32(protocol.ParseRevision(protocol.VersionOf(resp))))
	}
}
