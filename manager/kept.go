package manager

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// errHang ends what does not answer when it starts.
var errHang = errors.New("it does not answer in time after its start")

// A kept conversation is one that a keeper has opened.
type kept struct {
	dragoman.Conn
	keeper *keeper
	born   time.Time
	since  int // incidents before it

	ours   atomic.Bool           // we have closed it
	lost   atomic.Pointer[error] // why we gave it up, if that is a failure
	proven atomic.Bool           // the server has answered on it
	faulty atomic.Bool           // a request has not reached the server
	probed atomic.Bool           // it was asked what some servers cannot bear
}

// Unwrap returns the conversation itself, for what can be said to that alone.
func (c *kept) Unwrap() dragoman.Conn { return c.Conn }

func (k *keeper) begin() *kept {
	return &kept{keeper: k, born: time.Now(), since: k.age()}
}

// opened makes a conversation one of the keeper's.
func (k *keeper) opened(c *kept, conn dragoman.Conn) (dragoman.Conn, error) {
	c.Conn = conn
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		_ = conn.Close() // nobody wants it any more
		return nil, dragoman.ErrClosed
	}
	k.open[c] = struct{}{}
	if k.failures > 0 {
		k.restarts++
	}
	// Ends with the conversation.
	k.busy.Go(func() {
		<-conn.Done()
		k.ended(c)
	})
	k.mu.Unlock()
	k.signal.fire()
	return c, nil
}

// ended notes what became of a conversation that is over.
func (k *keeper) ended(c *kept) {
	k.mu.Lock()
	if _, ok := k.open[c]; !ok {
		k.mu.Unlock()
		return
	}
	delete(k.open, c)
	text := ""
	switch lost := c.lost.Load(); {
	case c.ours.Load() && lost == nil:
		if !c.proven.Load() {
			k.grant(time.Now())
		}
	default:
		reason := c.Err()
		if lost != nil {
			reason = *lost
		}
		if k.fail(c.since, c.born, reason) {
			text = k.outlook()
		}
		if c.probed.Load() && !c.proven.Load() && lost == nil && !k.set.process {
			k.grant(time.Now()) // it may be a legacy server that ends for that; to dial costs little
		}
	}
	k.mu.Unlock()
	if text != "" {
		k.note(text)
	}
	k.signal.fire()
}

// sweep notes the end of conversations whose goroutine has not come to it yet.
func (k *keeper) sweep() {
	var over []*kept
	k.mu.Lock()
	for c := range k.open {
		if c.Err() != nil {
			over = append(over, c)
		}
	}
	k.mu.Unlock()
	for _, c := range over {
		k.ended(c)
	}
}

// hangUp closes all conversations, or those on which the server has not answered.
// If lost is not nil, that is a failure of the server's. It waits until they are
// closed.
func (k *keeper) hangUp(lost error, all bool) {
	var closing sync.WaitGroup
	k.mu.Lock()
	for c := range k.open {
		if all || !c.proven.Load() {
			if lost != nil {
				c.lost.Store(&lost)
			}
			closing.Go(func() { _ = c.Close() }) // ends when it is closed, which is bounded
		}
	}
	k.mu.Unlock()
	closing.Wait()
}

// conversations returns how many are open.
func (k *keeper) conversations() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.open)
}

// Close ends the conversation.
func (c *kept) Close() error {
	if c.Err() != nil {
		c.keeper.ended(c) // it was over before
	} else {
		c.ours.Store(true)
	}
	return c.Conn.Close()
}

// Call passes a request on, and learns from what becomes of it.
func (c *kept) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if isHandshake(req.Method()) {
		return c.greet(ctx, req, from)
	}
	since, age := c.since, c.keeper.age()
	if c.proven.Load() {
		since = age
	}
	began := time.Now()
	resp, err := c.Conn.Call(ctx, req, from)
	switch {
	case err != nil:
		c.failed(ctx, since, began, err)
	default:
		c.answered(age)
	}
	return resp, err
}

// greet passes a request on with which a conversation may begin.
func (c *kept) greet(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	limit, cancel := context.WithTimeoutCause(ctx, c.keeper.set.connect, errHang)
	defer cancel()
	if req.Method() == protocol.MethodDiscover {
		c.probed.Store(true)
	}
	began, age := time.Now(), c.keeper.age()
	resp, err := c.Conn.Call(limit, req, from)
	switch {
	case err == nil && !resp.IsError():
		if req.Method() == protocol.MethodInitialize {
			rev := []byte(resp.Get("protocolVersion"))
			c.keeper.rev.Store(&rev)
		}
		c.answered(age)
	case err == nil, ctx.Err() != nil && !c.proven.Load() && c.since == c.keeper.age():
		// It lives, or somebody has lost patience: that proves nothing.
		c.keeper.mu.Lock()
		c.keeper.grant(time.Now())
		c.keeper.mu.Unlock()
		c.keeper.signal.fire()
	case limit.Err() != nil && ctx.Err() == nil && !c.proven.Load():
		c.lost.Store(&errHang)
		_ = c.Close() // calls on it fail with that
	default:
		c.failed(ctx, c.since, began, err)
	}
	return resp, err
}

// age returns how many incidents there have been.
func (k *keeper) age() int { return int(k.past.Load()) }

// answered notes that the server has answered a request that was sent after so many
// incidents. What was sent before the last one does not show that it is over.
func (c *kept) answered(age int) {
	c.keeper.heard.Store(time.Now().UnixNano())
	if !c.proven.Load() || c.faulty.Load() && age == c.keeper.age() {
		c.keeper.works(c)
	}
}

// failed looks at the error of a request on a conversation that goes on.
func (c *kept) failed(ctx context.Context, since int, began time.Time, err error) {
	if ctx.Err() != nil || !unreached(err) || errors.Is(err, dragoman.ErrClosed) {
		return
	}
	c.keeper.blame(c)
	c.keeper.failed(since, began, err)
}

// blame notes that a request has not reached the server. Then no other would, on
// whatever conversation: those that stay open without it all lead to one place.
func (k *keeper) blame(c *kept) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c.faulty.Store(true)
	for other := range k.open {
		other.faulty.Store(true)
	}
}

// unreached tells whether an error says that the server is not there, or asks to be
// left alone.
func unreached(err error) bool {
	if status, _, ok := statusOf(err); ok {
		return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests
	}
	_, fault := errors.AsType[protocol.Fault](err)
	return fault
}
