package gosdk

import (
	"context"

	"github.com/dragoman-mcp/dragoman"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Transport returns the transport of the SDK by which a client of it uses what d dials. Each
// Connect opens a conversation of its own.
func Transport(d dragoman.Dialer) mcp.Transport { return transport{d} }

type transport struct{ dialer dragoman.Dialer }

// Connect implements mcp.Transport.
func (t transport) Connect(ctx context.Context) (mcp.Connection, error) {
	l := newLink(nil)
	conn, err := t.dialer.Dial(ctx, l)
	if err != nil {
		l.end(err)
		return nil, err
	}
	l.join(conn)
	l.calls.Go(func() {
		<-conn.Done() // at the latest when the SDK closes what it has
		l.end(conn.Err())
	})
	return dialed{connection{l}, conn}, nil
}

// dialed is what a client of the SDK has: a link, and the conversation that it owns.
type dialed struct {
	connection
	conn dragoman.Conn
}

// Close implements mcp.Connection. The SDK calls it at the end of every session, also of one that the
// other side has ended.
func (d dialed) Close() error {
	d.end(dragoman.ErrClosed)
	err := d.conn.Close()
	d.wait()
	return err
}

// Dialer returns what opens conversations with a server of the SDK in this process, so that
// everything that takes a Dialer can serve it: an era.Server brings it to clients of either era.
func Dialer(s *mcp.Server) dragoman.Dialer {
	return &dialer{s, newMarks(s)}
}

type dialer struct {
	server *mcp.Server
	marks  *marks
}

// Dial implements dragoman.Dialer.
func (d *dialer) Dial(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
	l := newLink(d.marks)
	l.join(local)
	session, err := d.server.Connect(context.WithoutCancel(ctx), joined{l}, nil)
	if err != nil {
		l.end(err)
		return nil, err
	}
	return &conn{link: l, session: session}, nil
}

// joined is the transport of a server: a link that is there already.
type joined struct{ link *link }

// Connect implements mcp.Transport.
func (j joined) Connect(context.Context) (mcp.Connection, error) { return connection{j.link}, nil }

// A conn is a conversation with a server of the SDK.
type conn struct {
	*link
	session *mcp.ServerSession
}

// Close implements dragoman.Conn.
func (c *conn) Close() error {
	c.end(dragoman.ErrClosed)
	_ = c.session.Close() // it says that its connection is closed
	c.wait()
	return nil
}
