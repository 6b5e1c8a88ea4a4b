package rawclient

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// A Lines is a link over a stream of bytes: the standard streams of a process, or a socket.
type Lines struct {
	stream io.ReadWriter
	r      *bufio.Reader
	framed bool // we write Content-Length frames
	end    func()
	turn   chan struct{} // has room for who writes

	theirs atomic.Uint32 // the stdio.Framing of the server's last message
}

// NewLines returns a link that writes in a framing, and reads both. end ends the stream.
func NewLines(stream io.ReadWriter, framing stdio.Framing, end func()) *Lines {
	return &Lines{stream: stream, r: bufio.NewReaderSize(stream, 64<<10), framed: framing == stdio.ContentLength, end: sync.OnceFunc(end), turn: make(chan struct{}, 1)}
}

// Send implements Link.
func (l *Lines) Send(ctx context.Context, text []byte) error {
	var out []byte
	if l.framed {
		out = fmt.Appendf(nil, "Content-Length: %d\r\n\r\n%s", len(text), text)
	} else {
		out = append(bytes.Clone(text), '\n')
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	written := make(chan error, 1)
	go func() { // until the server has read it, or the stream ends
		_, err := l.stream.Write(out)
		<-l.turn
		written <- err
	}()
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Receive implements Link.
func (l *Lines) Receive() ([]byte, error) {
	line, err := l.line()
	if err != nil {
		return nil, err
	}
	name, value, ok := strings.Cut(string(line), ":")
	if !ok || !strings.EqualFold(strings.TrimSpace(name), "Content-Length") {
		if json := bytes.TrimSpace(line); len(json) > 0 && json[0] == '{' {
			l.theirs.Store(uint32(stdio.Lines))
		}
		return line, nil
	}
	l.theirs.Store(uint32(stdio.ContentLength))
	n, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil || n < 0 || n > dragoman.DefaultMaxMessage {
		return line, nil //nolint:nilerr // it is noise, which is told
	}
	for { // the other headers, up to an empty line
		header, err := l.line()
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(header)) == 0 {
			break
		}
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(l.r, body); err != nil {
		return nil, err
	}
	return body, nil
}

// line returns a line without its end.
func (l *Lines) line() ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > dragoman.DefaultMaxMessage:
			return nil, dragoman.ErrTooLarge
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && len(line) == 0:
			return nil, err
		}
		return bytes.TrimRight(line, "\r\n"), nil // the end is told by the next one
	}
}

// Framing returns how the server frames its messages; Auto if it has written none.
func (l *Lines) Framing() stdio.Framing { return stdio.Framing(l.theirs.Load()) }

// Close implements Link.
func (l *Lines) Close() { l.end() }

// A Process is a server's process and the conversation with it.
type Process struct {
	*LinkWire
	*stdio.Process
	Lines *Lines
	Began time.Time

	grace time.Duration
	ended bool
	exit  *stdio.ExitError
	took  time.Duration
}

// Start starts a server's command.
func Start(c *stdio.Command) (*Process, error) {
	began := time.Now()
	started, err := c.Start()
	if err != nil {
		return nil, err
	}
	p := &Process{Process: started, Began: began, grace: c.Grace}
	p.Lines = NewLines(started, c.Framing, func() {
		at := time.Now()
		p.exit = started.Stop()
		p.took = time.Since(at)
	})
	p.LinkWire = NewLinkWire(p.Lines)
	return p, nil
}

// Died reports whether the process has closed its standard output, as at its end, before it was to end.
func (p *Process) Died() bool { return !p.ended && p.over.Load() }

// Close implements Wire. Stop says how the process ended.
func (p *Process) Close() { _, _, _ = p.Stop() }

// Stop ends the process by closing its standard input, and by force if that is not enough. It
// says how it ended and after how long; byItself is whether no force was needed.
func (p *Process) Stop() (exit *stdio.ExitError, took time.Duration, byItself bool) {
	if !p.ended {
		p.ended = true
		p.LinkWire.Close()
	}
	return p.exit, p.took, p.took < p.grace
}

// DialSocket opens a socket that carries lines.
func DialSocket(ctx context.Context, a *stdio.Address, framing stdio.Framing) (Wire, error) {
	nc, err := (&net.Dialer{}).DialContext(ctx, a.Network, a.Address)
	if err != nil {
		return nil, err
	}
	return NewLinkWire(NewLines(nc, framing, func() { _ = nc.Close() })), nil // it is not used after that
}

// A Socket is a WebSocket as a Link.
type Socket struct {
	conn   *websocket.Conn
	binary atomic.Bool
}

// DialWebSocket opens a WebSocket, as change says, which may be nil. The Reply is what the server
// answered to the handshake; it is nil if there was no answer.
func DialWebSocket(ctx context.Context, s *target.Spec, change func(*Call)) (*Socket, *Reply, error) {
	h, err := httpclient.NewClient("raw", &httpclient.ClientOptions{URL: s.URL, Schemes: []string{"ws", "wss", "http", "https"}, TLS: s.TLS, Proxy: s.Proxy, Wrap: s.Wrap})
	if err != nil {
		return nil, nil, err
	}
	h.Acquire()
	defer h.Release()
	call := &Call{Method: http.MethodGet, Header: Object{}}
	if change != nil {
		change(call)
	}
	header, host := call.headers(s.Header)
	conn, resp, err := websocket.Dial(ctx, h.URL.String(), &websocket.DialOptions{HTTPClient: h.HTTP, HTTPHeader: header, Host: host, Subprotocols: []string{"mcp"}}) //nolint:bodyclose // the library does
	var reply *Reply
	if resp != nil {
		reply = &Reply{Request: call.describe(h.URL) + ", Upgrade: websocket", Status: resp.StatusCode, Header: resp.Header}
	}
	if err != nil {
		return nil, reply, httpclient.WithoutURL(err)
	}
	conn.SetReadLimit(dragoman.DefaultMaxMessage)
	return &Socket{conn: conn}, reply, nil
}

// Upgrade opens a WebSocket, as change says, and closes it. The exchange is that of HTTP.
func Upgrade(ctx context.Context, s *target.Spec, limit time.Duration, change func(*Call)) *Exchange {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, ErrSilent)
	defer cancel()
	socket, reply, err := DialWebSocket(ctx, s, change)
	if socket != nil {
		socket.Close()
	}
	if reply == nil {
		reply = &Reply{Err: err}
	}
	return &Exchange{HTTP: reply, Err: err}
}

// Send implements Link.
func (s *Socket) Send(ctx context.Context, text []byte) error {
	return s.conn.Write(ctx, websocket.MessageText, text)
}

// Receive implements Link.
func (s *Socket) Receive() ([]byte, error) {
	kind, text, err := s.conn.Read(context.Background()) // Close ends it
	if err == nil && kind == websocket.MessageBinary {
		s.binary.Store(true)
	}
	return text, err
}

// Binary reports whether the server has sent a binary frame.
func (s *Socket) Binary() bool { return s.binary.Load() }

// Ping sends a ping, and waits for its pong. Somebody must be receiving.
func (s *Socket) Ping(ctx context.Context) error { return s.conn.Ping(ctx) }

// Finish closes the WebSocket in good order. The error says that the server has not answered
// the close within five seconds.
func (s *Socket) Finish() error { return s.conn.Close(websocket.StatusNormalClosure, "") }

// Close implements Link.
func (s *Socket) Close() { _ = s.Finish() } // the end is the end
