package streamable

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/wire/toollist"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	maxCalls  = 1024
	maxServed = 1024

	// closeWait is how long notifications that wait, and then the DELETE
	// of the session, may take at Close.
	closeWait = 2 * time.Second

	// goneWait is how long the other calls of a session that the server has
	// ended may take to be refused too.
	goneWait = 500 * time.Millisecond

	// peerWait is how long peers that were told to stop are waited for.
	peerWait = 500 * time.Millisecond
)

// A clientConn is a conversation over Streamable HTTP. It has no connection of its own:
// each message is an HTTP request, which the caller's goroutine makes and whose answer
// it reads.
type clientConn struct {
	client *Client
	opts   *clientOptions
	log    *slog.Logger
	local  dragoman.Peer
	tools  *toollist.Cache // of the client, unless the local peer has the lists

	ctx         context.Context // ends with the conversation
	cancel      context.CancelCauseFunc
	done        chan struct{}   // closed when the conversation is over
	sending     context.Context // of notifications; ends when those that waited have been sent
	stopSending context.CancelFunc
	closed      chan struct{} // closed when its goroutines have ended

	mu       sync.Mutex     // guards the fields up to the blank line
	ended    error          // why the conversation is over
	fallback dragoman.Conn  // takes all messages, if the server speaks HTTP+SSE
	current  *clientSession // or nil

	busy     sync.WaitGroup    // our goroutines; none is added once ended is set
	calls    *jsonrpc.Calls    // their owners are *clientCall
	requests *jsonrpc.Requests // of the server
	in       *jsonrpc.Inbox[*clientCall]
	out      noteQueue
	drains   atomic.Int32 // goroutines in readToEnd
}

var (
	_ dragoman.Conn               = (*clientConn)(nil)
	_ dragoman.Correlator         = (*clientConn)(nil)
	_ dragoman.BackgroundReceiver = (*clientConn)(nil)
)

func newClientConn(client *Client, local dragoman.Peer) *clientConn {
	if local == nil {
		local = dragoman.NoPeer
	}
	client.opts.http.Acquire() // until shutDown
	c := &clientConn{
		client:   client,
		opts:     &client.opts,
		log:      client.opts.log,
		local:    local,
		tools:    &client.tools,
		done:     make(chan struct{}),
		closed:   make(chan struct{}),
		calls:    jsonrpc.NewCalls(maxCalls),
		requests: jsonrpc.NewRequests(maxServed),
	}
	if l := toollist.ListerOf(local); l != nil {
		c.tools = &toollist.Cache{Lister: l}
	}
	c.in = jsonrpc.NewInbox(c.deliver)
	c.calls.SetTimeout(client.opts.timeout, client.opts.maxTimeout)
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.sending, c.stopSending = context.WithCancel(context.Background())
	return c
}

// start runs f on a goroutine that Close waits for. It reports false, and does not run
// f, if the conversation is over.
func (c *clientConn) start(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		return false
	}
	// Each f ends with c.ctx, or soon after.
	c.busy.Go(f)
	return true
}

// Call implements dragoman.Peer.
func (c *clientConn) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if other := c.fallbackConn(); other != nil {
		return other.Call(ctx, req, from)
	}
	k, resp, err := c.call(ctx, req, from)
	if k == nil {
		return nil, err
	}
	c.client.forgetIfRefused(err)
	switch {
	case k.modern:
	case req.Method() != protocol.MethodInitialize:
		if err == nil && !resp.IsError() {
			c.reopenBackground(k.session)
		}
	case looksLikeSSE(k.status, resp, err):
		if other := c.dialFallback(ctx); other != nil {
			return other.Call(ctx, req, from)
		}
	case k.opened != nil:
		c.setSession(k.opened)
	}
	return resp, err
}

// call makes one call.
func (c *clientConn) call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*clientCall, *dragoman.Message, error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	k, err := c.begin(ctx, req, from)
	if err != nil {
		return nil, nil, err
	}
	resp, err := k.run()
	if err != nil {
		if other, _, _ := k.Outcome(); other != nil { // it came on another stream
			resp, err = other, nil
		}
	}
	if err = k.finish(err); err != nil {
		return k, nil, err
	}
	resp = k.Incoming(resp)
	return k, resp, nil
}

// Notify implements dragoman.Peer. It does not wait for the server, except with
// notifications/initialized, which other messages must not overtake.
func (c *clientConn) Notify(ctx context.Context, note *dragoman.Message) error {
	if other := c.fallbackConn(); other != nil {
		return other.Notify(ctx, note)
	}
	if note.Method() == protocol.NoteInitialized && !protocol.IsModern(note) {
		return c.sendInitialized(ctx, note)
	}
	_, err := c.send(note)
	return err
}

// fallbackConn returns the conversation over HTTP+SSE that takes the place of this one,
// or nil.
func (c *clientConn) fallbackConn() dragoman.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fallback
}

// dialFallback opens a conversation over HTTP+SSE in place of this one. It returns
// nil if there is none to be had.
func (c *clientConn) dialFallback(ctx context.Context) dragoman.Conn {
	if c.client.Fallback == nil {
		return nil
	}
	other, err := c.client.Fallback.Dial(ctx, c.local)
	if err != nil {
		c.log.Debug("the server does not speak HTTP+SSE either", "error", err)
		return nil
	}
	c.mu.Lock()
	first := c.fallback
	if first == nil {
		c.fallback = other
	}
	c.mu.Unlock()
	if first != nil { // another call was faster
		_ = other.Close()
		return first
	}
	if !c.start(func() {
		select {
		case <-other.Done():
			c.end(other.Err())
		case <-c.ctx.Done():
		}
	}) {
		_ = other.Close()
		return other
	}
	c.client.remember(&Protocol{SSE: true, Era: protocol.Legacy, Revisions: []protocol.Revision{protocol.V20241105}})
	return other
}

// looksLikeSSE reports whether an answer to initialize is what a server that knows
// only HTTP+SSE would say.
func looksLikeSSE(status int, resp *dragoman.Message, err error) bool {
	if status != 400 && status != 404 && status != 405 {
		return false
	}
	if err != nil {
		_, ok := errors.AsType[*protocol.StatusError](err)
		return ok
	}
	return resp.IsError() && !isModernCode(resp.RPCError().Code)
}

func isModernCode(code int) bool {
	return code == protocol.CodeUnsupported || code == protocol.CodeMissingCapability || code == protocol.CodeHeaderMismatch
}

// Correlates implements dragoman.Correlator: what belongs to a request comes on
// its stream.
func (c *clientConn) Correlates() bool { return c.fallbackConn() == nil }

// ReceivesBackground implements dragoman.BackgroundReceiver: a server that refuses the
// background stream cannot send what belongs to no request.
func (c *clientConn) ReceivesBackground() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fallback != nil || c.current == nil || c.current.background != backgroundRefused
}

// HasSession reports whether the server keeps a session for the conversation: it has given an
// id in its answer to initialize.
func (c *clientConn) HasSession() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fallback != nil || c.current == nil || c.current.id != ""
}

// end ends the conversation, once. It does not wait for the server or for peers.
func (c *clientConn) end(reason error) {
	c.mu.Lock()
	if c.ended != nil {
		c.mu.Unlock()
		<-c.done // Err must return the reason once any end has returned
		return
	}
	c.ended = dragoman.Closed(reason)
	ended, s := c.ended, c.current
	c.mu.Unlock()
	c.out.close(ended)
	c.in.Close()
	close(c.done)
	c.calls.End(ended)
	c.cancel(ended)
	// Ends when everything has been sent, or that takes too long.
	go c.shutDown(s, reason)
}

// shutDown sends the notifications that wait, then the DELETE, and waits for all
// goroutines of the conversation.
func (c *clientConn) shutDown(s *clientSession, reason error) {
	defer close(c.closed)
	c.out.drain(closeWait)
	c.stopSending()
	if s != nil && s.id != "" && !errors.Is(reason, ErrSessionGone) {
		ctx, cancel := context.WithTimeout(context.Background(), closeWait)
		c.deleteSession(ctx, s)
		cancel()
	}
	if other := c.fallbackConn(); other != nil {
		_ = other.Close()
	}
	c.busy.Wait()
	c.opts.http.Release()
}

// Close implements dragoman.Conn.
func (c *clientConn) Close() error {
	c.cancelAll()
	c.end(nil)
	<-c.closed
	c.in.Wait(peerWait)
	c.requests.Wait(peerWait, nil)
	return nil
}

// Done implements dragoman.Conn.
func (c *clientConn) Done() <-chan struct{} { return c.done }

// Err implements dragoman.Conn.
func (c *clientConn) Err() error {
	select {
	case <-c.done:
		return c.endReason()
	default:
		return nil
	}
}

// endReason returns why the conversation is over, or nil.
func (c *clientConn) endReason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}
