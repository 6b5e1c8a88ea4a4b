package dragoman

import "context"

// Pipe returns the two ends of a conversation in memory: what is asked of or
// told to toRight reaches right, and likewise for left. Either may be nil,
// which stands for [Nobody]. Calls run on the caller's goroutine. Closing one
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
		return Nobody
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

// Close ends the conversation. It does not wait for calls under way, which may
// be the ones that close it; their contexts are cancelled.
func (e *pipeEnd) Close() error {
	e.cancel(ErrClosed)
	return nil
}

func (e *pipeEnd) Done() <-chan struct{} { return e.ctx.Done() }

func (e *pipeEnd) Err() error { return context.Cause(e.ctx) }

// Correlates implements Correlator: whoever is called is given from itself.
func (e *pipeEnd) Correlates() bool { return true }
