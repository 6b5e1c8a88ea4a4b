package client

import (
	"context"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// legacy is the side of the legacy era: one session.
type legacy struct {
	client *Client
	conn   dragoman.Conn // in this process, to the era.Server
}

// newestLegacy is what we ask for if nothing else is wanted.
func newestLegacy() protocol.Revision {
	for _, r := range protocol.Revisions() { // newest first
		if r.Era() == protocol.Legacy {
			return r
		}
	}
	return protocol.Unknown
}

func (l *legacy) open(ctx context.Context) (*facts, error) {
	c := l.client
	rev := c.opts.Revision
	if rev == protocol.Unknown {
		rev = newestLegacy()
	}
	var err error
	if l.conn, err = dragoman.Local(c.server).Dial(ctx, (*local)(c)); err != nil {
		return nil, err
	}
	hello, err := dragoman.NewRequest(c.newID(), protocol.MethodInitialize, map[string]any{
		"protocolVersion": rev.String(), "capabilities": c.opts.capabilities(), "clientInfo": c.opts.clientInfo(),
	})
	if err != nil {
		return nil, err
	}
	f := new(facts)
	if err := answered(l.conn.Call(ctx, hello, nil))(f); err != nil {
		return nil, err
	}
	f.Revision = c.dialer.negotiated()
	if c.opts.Revision != protocol.Unknown && f.Revision != rev {
		return nil, &revisionError{rev, f.Revision.String()}
	}
	ready, err := dragoman.NewNotification(protocol.NoteInitialized, nil)
	if err != nil {
		return nil, err
	}
	return f, l.conn.Notify(ctx, ready)
}

// answered returns what decodes the result of a request, or says why there is
// none.
func answered(resp *dragoman.Message, err error) func(v any) error {
	return func(v any) error {
		switch {
		case err != nil:
			return err
		case resp.IsError():
			return resp.RPCError()
		}
		return resp.Decode(v)
	}
}

func (l *legacy) ask(ctx context.Context, req *dragoman.Message, k *call) (*dragoman.Message, error) {
	return l.conn.Call(ctx, req, k)
}

func (l *legacy) request(ctx context.Context, method string, params any) error {
	_, err := l.client.do(ctx, method, params, nil)
	return err
}

func (l *legacy) ping(ctx context.Context) error { return l.request(ctx, protocol.MethodPing, nil) }

func (l *legacy) setLevel(ctx context.Context, level string) error {
	return l.request(ctx, protocol.MethodSetLevel, map[string]string{"level": level})
}

func (l *legacy) subscribe(ctx context.Context, uri string) error {
	return l.request(ctx, protocol.MethodSubscribe, map[string]string{"uri": uri})
}

func (l *legacy) unsubscribe(ctx context.Context, uri string) error {
	return l.request(ctx, protocol.MethodUnsubscribe, map[string]string{"uri": uri})
}

func (l *legacy) close() {
	if l.conn != nil {
		_ = l.conn.Close() // in this process
	}
}

// local is the Client as the server sees it outside of any request.
type local Client

// Call implements dragoman.Peer.
func (p *local) Call(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	return (*Client)(p).answer(ctx, req)
}

// Notify implements dragoman.Peer.
func (p *local) Notify(_ context.Context, note *dragoman.Message) error {
	(*Client)(p).notify(note)
	return nil
}
