//go:build sdk

package gosdk

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"github.com/dragoman-mcp/dragoman/transport/ws"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// SideKey is the key of a value in the context of Connect: the *mcp.Server or *mcp.Client that
// connects. It is no type of ours, so that the sources of the SDK can use it.
const SideKey = "side of the connection"

// carriers are the transports by which a Pair is joined. Each returns what dials the given server, and
// what ends it. The network is in memory, because many tests of the SDK have a clock of their own.
var carriers = map[string]func(*served) (dragoman.Dialer, func()){
	"lines": func(s *served) (dragoman.Dialer, func()) { return overPipes(s, stdio.Lines) },
	"content-length": func(s *served) (dragoman.Dialer, func()) {
		return overPipes(s, stdio.ContentLength)
	},
	"streamable": func(s *served) (dragoman.Dialer, func()) {
		return overStreamable(&streamable.Server{Sessions: s, Requests: s})
	},
	"streamable-sessions": func(s *served) (dragoman.Dialer, func()) {
		return overStreamable(&streamable.Server{Sessions: s}) // the legacy era alone
	},
	"sse": func(s *served) (dragoman.Dialer, func()) {
		endpoint, mux := &sse.Server{Acceptor: s}, http.NewServeMux()
		mux.Handle("/sse", endpoint.Stream())
		mux.Handle("/messages", endpoint.Messages())
		client, end := overHTTP(mux)
		return &sse.Client{URL: "http://127.0.0.1/sse", HTTP: client}, func() { _ = endpoint.Close(); end() }
	},
	"websocket": func(s *served) (dragoman.Dialer, func()) {
		endpoint := &ws.Server{Acceptor: s}
		client, end := overHTTP(endpoint)
		return &ws.Client{URL: "ws://127.0.0.1/", HTTP: client}, func() { _ = endpoint.Close(); end() }
	},
}

// Pair returns two transports of the SDK that are joined by one of ours, for the SDK's own tests: a
// server connects to one of them, and then a client to the other.
func Pair(carrier string) (mcp.Transport, mcp.Transport) {
	open := carriers[carrier]
	if open == nil {
		panic(fmt.Sprintf("gosdk: there is no transport %q", carrier))
	}
	p := &pair{open: open, served: make(chan struct{})}
	return p, p
}

type pair struct {
	open   func(*served) (dragoman.Dialer, func())
	served chan struct{}   // closed when the server has connected
	server *link           // after served
	dialer dragoman.Dialer // likewise
}

// Connect implements mcp.Transport, for whichever side it is.
func (p *pair) Connect(ctx context.Context) (mcp.Connection, error) {
	if s, ok := ctx.Value(SideKey).(*mcp.Server); ok {
		return p.serve(s), nil
	}
	select {
	case <-p.served:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	c, err := Transport(p.dialer).Connect(ctx)
	if err != nil {
		return nil, err
	}
	return over{c, func() { p.server.end(dragoman.ErrClosed) }}, nil
}

func (p *pair) serve(server *mcp.Server) mcp.Connection {
	p.server = newLink(newMarks(server))
	s := &served{link: p.server, came: make(chan struct{}), client: dragoman.NoPeer}
	p.server.join(s.toClient())
	var end func()
	p.dialer, end = p.open(s)
	close(p.served)
	return over{connection{p.server}, end}
}

// over is a connection after whose Close something else ends. A server whose client has gone ends, too:
// over HTTP without sessions it would not learn of that.
type over struct {
	mcp.Connection
	then func()
}

// Close implements mcp.Connection.
func (o over) Close() error {
	err := o.Connection.Close()
	o.then()
	return err
}

// A served is a link as an endpoint needs it: an Acceptor for its one client, and a Peer for requests
// without a session.
type served struct {
	*link
	came chan struct{} // closed by once when the client has come
	once sync.Once

	mu     sync.Mutex
	client dragoman.Peer // NoPeer before it has a session, if ever; guarded by mu
}

// Accept implements dragoman.Acceptor.
func (s *served) Accept(_ context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	s.come(client)
	go func() { // ends with the client
		<-client.Done()
		s.end(dragoman.ErrClosed)
	}()
	return s.link, nil
}

// Call implements dragoman.Peer.
func (s *served) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	s.come(nil)
	return s.link.Call(ctx, req, from)
}

// come notes that the client has come. One that began without a session may open one.
func (s *served) come(client dragoman.Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if client != nil {
		s.client = client
	}
	s.once.Do(func() { close(s.came) })
}

// get waits for the client.
func (s *served) get(ctx context.Context) (dragoman.Peer, error) {
	select {
	case <-s.came:
	case <-s.life.Done():
		return nil, context.Cause(s.life)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client, nil
}

// toClient returns whom the server asks and tells outside of requests.
func (s *served) toClient() dragoman.Peer {
	return dragoman.Funcs{
		OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			client, err := s.get(ctx)
			if err != nil {
				return nil, err
			}
			return client.Call(ctx, req, from)
		},
		OnNotify: func(ctx context.Context, note *dragoman.Message) error {
			client, err := s.get(ctx)
			if err != nil {
				return err
			}
			return client.Notify(ctx, note)
		},
	}
}

// overPipes joins two streams.
func overPipes(s *served, framing stdio.Framing) (d dragoman.Dialer, end func()) {
	here, there := net.Pipe()
	opts := &stdio.Options{Framing: framing, Linger: -1}
	server := &stdio.Server{Acceptor: s, Options: opts}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.ServeIO(there, there) })
	dial := func(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
		dialed := make(chan dragoman.Conn, 1)
		client := &stdio.Server{Options: opts, Acceptor: dragoman.AcceptFunc(func(_ context.Context, conn dragoman.Conn) (dragoman.Peer, error) {
			dialed <- conn
			return local, nil
		})}
		serving.Go(func() { _ = client.ServeIO(here, here) })
		return <-dialed, nil
	}
	return dragoman.DialFunc(dial), func() {
		_ = server.Close()
		_ = here.Close()
		serving.Wait()
	}
}

// overStreamable returns what dials an endpoint of Streamable HTTP.
func overStreamable(endpoint *streamable.Server) (dragoman.Dialer, func()) {
	client, end := overHTTP(endpoint)
	return &streamable.Client{URL: "http://127.0.0.1/", HTTP: client}, func() { _ = endpoint.Close(); end() }
}

// overHTTP serves an endpoint, and returns a client that reaches it.
func overHTTP(endpoint http.Handler) (client *http.Client, end func()) {
	l := memnet.Listen()
	server := &http.Server{Handler: endpoint} //nolint:gosec // for one client, which is the test
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	connections := &http.Transport{DialContext: l.DialContext}
	return &http.Client{Transport: connections}, func() {
		_ = server.Close()
		connections.CloseIdleConnections()
		serving.Wait()
	}
}
