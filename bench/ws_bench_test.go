package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// idleSockets is how many sockets are open at once.
const idleSockets = 1000

// helloText begins a conversation in a revision.
const helloText = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"%s","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`

// BenchmarkSocket compares tool calls by WebSocket with a server that sends the
// same request back, with the same library, in turns: calls of the built-in echo,
// and calls that a peer answers without looking, which is what the transport
// alone costs.
func BenchmarkSocket(b *testing.B) {
	bare := httptest.NewServer(http.HandlerFunc(bareSocket))
	defer bare.Close()
	for _, size := range []int{128, 4 << 10} {
		for _, flying := range []int{1, 16} {
			for name, peer := range map[string]dragoman.Acceptor{"echo": builtin.New(nil), "transport": answering(size)} {
				b.Run(fmt.Sprintf("%s/bytes=%d/flying=%d", name, size, flying), func(b *testing.B) {
					ours := httptest.NewServer(&ws.Server{Acceptor: peer, PingInterval: -1})
					defer ours.Close()
					besideBare(b, newEchoes(b, ours.URL, size, flying).rounds, newEchoes(b, bare.URL, size, flying).rounds)
				})
			}
		}
	}
}

// answering accepts clients for a peer that gives every call an answer of about
// so many bytes.
func answering(size int) dragoman.Acceptor {
	peer := answers(size)
	return dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) { return peer, nil })
}

var pieces = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// bareSocket sends messages back.
func bareSocket(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"mcp"}})
	if err != nil {
		return
	}
	defer func() { _ = c.CloseNow() }()
	for {
		kind, in, err := c.Reader(r.Context())
		if err != nil {
			return
		}
		piece, _ := pieces.Get().(*[64 << 10]byte)
		n, err := io.ReadFull(in, piece[:])
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = c.Write(r.Context(), kind, piece[:n])
		}
		pieces.Put(piece)
		if err != nil {
			return
		}
	}
}

// echoes is a client that has a number of calls of echo in flight on one socket.
type echoes struct {
	b      *testing.B
	conn   *websocket.Conn
	flying int
	text   []byte // a call; its id has always as many digits
	digits []byte // those of the id, in text
	last   uint64 // id
	in     []byte
}

const idBegin = `{"jsonrpc":"2.0","id":`

// newEchoes opens a socket for calls of so many bytes.
func newEchoes(b *testing.B, url string, size, flying int) *echoes {
	b.Helper()
	conn, _, err := websocket.Dial(b.Context(), url, &websocket.DialOptions{Subprotocols: []string{"mcp"}}) //nolint:bodyclose // the library does
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.CloseNow() })
	e := &echoes{b: b, conn: conn, flying: flying, last: 10_000_000, in: make([]byte, 64<<10)}
	e.write(fmt.Appendf(nil, helloText, protocol.LatestLegacy))
	e.read()
	const note = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	e.write([]byte(note))
	begin := idBegin + strconv.FormatUint(e.last, 10)
	const middle, end = `,"method":"tools/call","params":{"name":"echo","arguments":{"text":"`, `"}}}`
	e.text = []byte(begin + middle + strings.Repeat("x", max(0, size-len(begin+middle+end))) + end)
	e.digits = e.text[len(idBegin):len(begin)]
	e.ask()
	for { // the bare one has sent the note back
		if n := e.read(); n != len(note) {
			return e
		}
	}
}

func (e *echoes) write(text []byte) {
	if err := e.conn.Write(e.b.Context(), websocket.MessageText, text); err != nil {
		e.b.Fatal(err)
	}
}

// ask makes the next call.
func (e *echoes) ask() {
	e.last++
	strconv.AppendUint(e.digits[:0], e.last, 10)
	e.write(e.text)
}

// read reads a message and returns how long it is.
func (e *echoes) read() int {
	_, r, err := e.conn.Reader(e.b.Context())
	if err != nil {
		e.b.Fatal(err)
	}
	n, err := io.ReadFull(r, e.in)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		e.b.Fatal(err)
	}
	return n
}

// rounds makes n calls and returns how long it took.
func (e *echoes) rounds(n int) time.Duration {
	begin := time.Now()
	for range e.flying {
		e.ask()
	}
	for range n - e.flying {
		e.read()
		e.ask()
	}
	for range e.flying {
		e.read()
	}
	return time.Since(begin)
}

// BenchmarkIdleSockets compares the memory of idle conversations by WebSocket
// with that of as many sockets of a server that sends messages back. The network
// is in memory, as for sessions.
func BenchmarkIdleSockets(b *testing.B) {
	bareServer := func() (http.Handler, func()) { return http.HandlerFunc(bareSocket), func() {} }
	ourServer := func() (http.Handler, func()) {
		s := &ws.Server{Acceptor: builtin.New(nil), PingInterval: -1}
		return s, func() { _ = s.Shutdown(b.Context()) }
	}
	idleCost(b, idleSockets, openSocket, bareServer) // what the runtime keeps is paid for by nobody
	idleCost(b, idleSockets, openSocket, ourServer)
	var bare, ours int64
	rounds := int64(0)
	for b.Loop() {
		bare += idleCost(b, idleSockets, openSocket, bareServer)
		ours += idleCost(b, idleSockets, openSocket, ourServer)
		rounds++
	}
	n := rounds * idleSockets
	b.ReportMetric(0, "ns/op") // says nothing here
	b.ReportMetric(float64(idleSockets), "sockets")
	b.ReportMetric(float64(bare/n), "B/bare")
	b.ReportMetric(float64(ours/n), "B/ours")
	b.ReportMetric(float64((ours-bare)/n), "B/beyond")
}

// openSocket opens a socket and exchanges one message.
func openSocket(conn net.Conn, br *bufio.Reader) error {
	const upgrade = "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mcp\r\n\r\n"
	if _, err := io.WriteString(conn, upgrade); err != nil {
		return err
	}
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("status %s", resp.Status)
	}
	hello := fmt.Appendf(nil, helloText, protocol.LatestLegacy)
	frame := append([]byte{0x81, 0x80 | 126}, binary.BigEndian.AppendUint16(nil, uint16(len(hello)))...)
	frame = append(frame, 0, 0, 0, 0) // a mask that changes nothing
	if _, err := conn.Write(append(frame, hello...)); err != nil {
		return err
	}
	var head [4]byte // of a text with 126 to 65,535 bytes
	if _, err := io.ReadFull(br, head[:]); err != nil {
		return err
	}
	if head[0] != 0x81 || head[1] != 126 {
		return fmt.Errorf("a frame begins with %x", head)
	}
	_, err = io.CopyN(io.Discard, br, int64(binary.BigEndian.Uint16(head[2:])))
	return err
}
