package dragoman

import "context"

// A Peer is the other side of an MCP session. It takes requests and notifications, and is safe for
// concurrent use.
type Peer interface {
	// Call delivers one request and returns its response, which may be a
	// JSON-RPC error response. A Go error means that there is no answer: the
	// conversation is over (it is [ErrClosed]), the request was not sent
	// ([ErrOverloaded]), the answer cannot be read ([ErrTooLarge], or a
	// [ParseError]), or ctx ended first, and then the peer has been notified that
	// the request is cancelled.
	//
	// from is the caller as seen from inside this request. Whatever the callee
	// tells or asks from before Call returns belongs to this request and
	// travels on its stream: progress, log messages and, in the legacy era,
	// sampling, elicitation and roots. from may be nil: then the caller wants
	// nothing on the way. It is valid until Call returns.
	//
	// The response carries the request's own id, byte for byte; a peer that changed
	// it on the way restores it.
	Call(ctx context.Context, req *Message, from Peer) (*Message, error)

	// Notify delivers one notification that belongs to no request. It does not
	// wait for the other side: what happens when a peer reads too slowly is
	// stated by each transport.
	Notify(ctx context.Context, note *Message) error
}

// A Conn is an open conversation with a Peer.
type Conn interface {
	Peer

	// Close ends the conversation in good order and waits for its goroutines.
	// Calls in flight return an error that is [ErrClosed].
	Close() error

	// Done is closed when the conversation is over, for whatever reason.
	Done() <-chan struct{}

	// Err says why the conversation is over. It is nil before Done is closed,
	// and [ErrClosed] or an error that wraps it afterwards.
	Err() error
}

// A Dialer opens conversations with one server. local receives the requests and
// notifications that the server sends outside of any request of the client; it may be nil. ctx bounds
// Dial alone, not the conversation.
type Dialer interface {
	Dial(ctx context.Context, local Peer) (Conn, error)
}

// An Acceptor is given every client that opens a conversation, and returns the
// Peer that answers it. It may start to use client once it has returned.
type Acceptor interface {
	Accept(ctx context.Context, client Conn) (Peer, error)
}

// DialFunc is a function as a Dialer.
type DialFunc func(ctx context.Context, local Peer) (Conn, error)

// Dial calls f.
func (f DialFunc) Dial(ctx context.Context, local Peer) (Conn, error) { return f(ctx, local) }

// AcceptFunc is a function as an Acceptor.
type AcceptFunc func(ctx context.Context, client Conn) (Peer, error)

// Accept calls f.
func (f AcceptFunc) Accept(ctx context.Context, client Conn) (Peer, error) { return f(ctx, client) }

// Funcs is a Peer made of functions.
type Funcs struct {
	// OnCall answers requests. If nil, every request gets "method not found".
	OnCall func(ctx context.Context, req *Message, from Peer) (*Message, error)

	// OnNotify takes notifications. If nil, they are ignored.
	OnNotify func(ctx context.Context, note *Message) error
}

// NoPeer is the Peer of those who take no questions: it refuses every request
// with "method not found" and ignores notifications.
var NoPeer Peer = Funcs{}

// Call calls OnCall.
func (f Funcs) Call(ctx context.Context, req *Message, from Peer) (*Message, error) {
	if f.OnCall == nil {
		return req.Fail(&Error{Code: codeMethodNotFound, Message: "method not found: " + req.Method()}), nil
	}
	return f.OnCall(ctx, req, from)
}

// Notify calls OnNotify.
func (f Funcs) Notify(ctx context.Context, note *Message) error {
	if f.OnNotify == nil {
		return nil
	}
	return f.OnNotify(ctx, note)
}

// Pipe returns the two ends of a conversation in memory: what is asked of or
// notified to toRight reaches right, and likewise for left. Either may be nil,
// which stands for [NoPeer]. Calls run on the caller's goroutine. Closing one
// end closes both.
func Pipe(left, right Peer) (toRight, toLeft Conn) {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &pipeEnd{ctx, cancel, orNobody(right)}, &pipeEnd{ctx, cancel, orNobody(left)}
}

// Local returns a Dialer whose conversations are with a, in memory.
func Local(a Acceptor) Dialer {
	return DialFunc(func(ctx context.Context, local Peer) (Conn, error) {
		pctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		peer, err := a.Accept(ctx, &pipeEnd{pctx, cancel, orNobody(local)})
		if err != nil {
			cancel(ErrClosed)
			return nil, err
		}
		return &pipeEnd{pctx, cancel, orNobody(peer)}, nil
	})
}

func orNobody(p Peer) Peer {
	if p == nil {
		return NoPeer
	}
	return p
}

// pipeEnd is one end of a conversation in memory. Both ends share the context
// that ends with it.
type pipeEnd struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	peer   Peer
}

func (e *pipeEnd) Call(ctx context.Context, req *Message, from Peer) (*Message, error) {
	if err := e.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(e.ctx, func() { cancel(ErrClosed) })()
	resp, err := e.peer.Call(ctx, req, from)
	if closed := e.Err(); closed != nil {
		return nil, closed
	}
	if ended := context.Cause(ctx); ended != nil {
		return nil, ended
	}
	return resp, err
}

func (e *pipeEnd) Notify(ctx context.Context, note *Message) error {
	if err := e.Err(); err != nil {
		return err
	}
	return e.peer.Notify(ctx, note)
}

// Close ends the conversation. It does not wait for calls in flight, which may
// be the ones that close it; their contexts are cancelled.
func (e *pipeEnd) Close() error {
	e.cancel(ErrClosed)
	return nil
}

func (e *pipeEnd) Done() <-chan struct{} { return e.ctx.Done() }

func (e *pipeEnd) Err() error { return context.Cause(e.ctx) }

// Correlates implements Correlator: the peer that is called is given from itself.
func (e *pipeEnd) Correlates() bool { return true }
