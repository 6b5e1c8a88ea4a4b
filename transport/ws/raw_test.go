package ws

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
)

// Frames by their first byte.
const (
	fin      = 0x80
	opText   = 0x1
	opBinary = 0x2
	opClose  = 0x8
	opPing   = 0x9
	opPong   = 0xA

	text   = fin | opText
	binmsg = fin | opBinary
	bye    = fin | opClose
	ping   = fin | opPing
	pong   = fin | opPong
)

// A raw is one end of a WebSocket whose frames the test makes itself.
type raw struct {
	testing.TB
	net.Conn
	in     *bufio.Reader
	masks  bool // it is the client's end
	header http.Header
	ids    []string // of the requests that were read
}

// rawDial opens a socket to our server. Header lines are sent besides the usual
// ones.
func rawDial(t testing.TB, at string, lines ...string) *raw {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(at, "ws://"))
	if err != nil {
		t.Fatal(err)
	}
	return rawOver(t, conn, lines...)
}

// rawOver makes the handshake of a client over a connection.
func rawOver(t testing.TB, conn net.Conn, lines ...string) *raw {
	t.Helper()
	r := &raw{TB: t, Conn: conn, in: bufio.NewReaderSize(conn, 64<<10), masks: true}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	r.write([]byte("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n" + strings.Join(append(lines, ""), "\r\n") + "\r\n"))
	resp, err := http.ReadResponse(r.in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("no upgrade: %v %v", resp, err)
	}
	r.header = resp.Header
	return r
}

// rawServe has our client dial a server that the test plays.
func rawServe(t testing.TB, c *Client, local dragoman.Peer) (*raw, dragoman.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.URL = "ws://" + l.Addr().String()
	return rawServeOn(t, l, c, local)
}

// rawServeOn is rawServe where the client reaches l.
func rawServeOn(t testing.TB, l net.Listener, c *Client, local dragoman.Peer) (*raw, dragoman.Conn) {
	t.Helper()
	defer l.Close()
	got := make(chan *raw, 1)
	go func() { // ends after the handshake
		conn, err := l.Accept()
		if err != nil {
			close(got)
			return
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		r := &raw{TB: t, Conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}
		req, err := http.ReadRequest(r.in)
		if err != nil {
			close(got)
			return
		}
		r.header = req.Header
		sum := sha1.Sum([]byte(req.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
		answer := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: " +
			base64.StdEncoding.EncodeToString(sum[:]) + "\r\n"
		if p := req.Header.Get("Sec-WebSocket-Protocol"); p != "" {
			answer += "Sec-WebSocket-Protocol: " + p + "\r\n"
		}
		_, _ = conn.Write([]byte(answer + "\r\n"))
		got <- r
	}()
	conn := dial(t, c, local)
	r := <-got
	if r == nil {
		t.Fatal("the client made no handshake")
	}
	t.Cleanup(func() { _ = r.Close() })
	return r, conn
}

func (r *raw) write(b []byte) {
	r.Helper()
	if _, err := r.Write(b); err != nil {
		r.Fatalf("write: %v", err)
	}
}

// frame returns a frame with that first byte.
func (r *raw) frame(first byte, payload []byte) []byte {
	b := []byte{first}
	mask := byte(0)
	if r.masks {
		mask = 0x80
	}
	switch n := len(payload); {
	case n <= 125:
		b = append(b, mask|byte(n))
	case n <= 65535:
		b = binary.BigEndian.AppendUint16(append(b, mask|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, mask|127), uint64(n))
	}
	if !r.masks {
		return append(b, payload...)
	}
	key := [4]byte{0x11, 0x82, 0x43, 0xF4}
	b = append(b, key[:]...)
	at := len(b)
	b = append(b, payload...)
	for i := range payload {
		b[at+i] ^= key[i&3]
	}
	return b
}

// send writes a frame, and may fail: the other side may be gone already.
func (r *raw) send(first byte, payload []byte) { _, _ = r.Write(r.frame(first, payload)) }

// sendText writes a text message.
func (r *raw) sendText(message string) { r.send(text, []byte(r.real(message))) }

// requestID is where the id of our client's requests and tool frames is. It differs
// in every run, so in what is said and wanted #1 stands for that of the first.
var requestID = regexp.MustCompile(`"id":(\d{10}),"(?:name|method)"`)

// real returns a message with ids in the place of what stands for them.
func (r *raw) real(message string) string {
	for i, id := range r.ids {
		message = strings.ReplaceAll(message, fmt.Sprintf("#%d", i+1), id)
	}
	return message
}

// next reads a frame.
func (r *raw) next() (first byte, payload []byte, err error) {
	var h [2]byte
	if _, err = io.ReadFull(r.in, h[:]); err != nil {
		return 0, nil, err
	}
	n := uint64(h[1] & 0x7F)
	var more [8]byte
	switch n {
	case 126:
		_, err = io.ReadFull(r.in, more[:2])
		n = uint64(binary.BigEndian.Uint16(more[:]))
	case 127:
		_, err = io.ReadFull(r.in, more[:])
		n = binary.BigEndian.Uint64(more[:])
	}
	var key [4]byte
	if err == nil && h[1]&0x80 != 0 {
		_, err = io.ReadFull(r.in, key[:])
	}
	if err != nil {
		return 0, nil, err
	}
	if (h[1]&0x80 != 0) == r.masks {
		return 0, nil, fmt.Errorf("a frame that is masked: %v", !r.masks)
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(r.in, payload)
	if key != [4]byte{} {
		for i := range payload {
			payload[i] ^= key[i&3]
		}
	}
	return h[0], payload, err
}

// message returns the next text message. Pings in between are not answered.
func (r *raw) message() string {
	r.Helper()
	var all []byte
	for {
		first, payload, err := r.next()
		if err != nil {
			r.Fatalf("no message: %v", err)
		}
		switch first &^ fin {
		case opText, 0:
			all = append(all, payload...)
			if first&fin != 0 {
				if m := requestID.FindSubmatch(all); m != nil {
					r.ids = append(r.ids, string(m[1]))
				}
				return string(all)
			}
		case opPing:
		default:
			r.Fatalf("frame %#x %q, want a text message", first, payload)
		}
	}
}

func (r *raw) want(message string) {
	r.Helper()
	if got := r.message(); got != r.real(message) {
		r.Fatalf("got %s\nwant %s", short(got), short(r.real(message)))
	}
}

func (r *raw) wantPong(payload string) {
	r.Helper()
	first, got, err := r.next()
	if err != nil || first != pong || string(got) != payload {
		r.Fatalf("got frame %#x %q, error %v; want a pong %q", first, got, err, payload)
	}
}

// wantClose reads up to the end of the socket, and returns the reason in the
// close frame. Messages before it do not matter; after it nothing may come.
func (r *raw) wantClose(codes ...int) string {
	r.Helper()
	for {
		first, payload, err := r.next()
		if err != nil {
			r.Fatalf("the socket ended without a close frame: %v; want one of %v", err, codes)
		}
		if first != bye {
			continue
		}
		code := 1005
		if len(payload) >= 2 {
			code = int(binary.BigEndian.Uint16(payload))
			payload = payload[2:]
		}
		if !slices.Contains(codes, code) {
			r.Fatalf("closed with %d %q, want %v", code, payload, codes)
		}
		r.send(bye, closing(code, ""))
		r.wantEnd()
		return string(payload)
	}
}

// wantEnd fails the test if another frame comes before the end of the
// connection.
func (r *raw) wantEnd() {
	r.Helper()
	if first, payload, err := r.next(); err == nil {
		r.Fatalf("frame %#x %q after the close", first, payload)
	} else if t, ok := err.(net.Error); ok && t.Timeout() { //nolint:errorlint // as net.Conn returns it
		r.Fatal("the connection stays open")
	}
}

// closing returns the payload of a close frame; that of 1005 is empty.
func closing(code int, reason string) []byte {
	if code == 1005 {
		return nil
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(code)), reason...)
}

// echoes answers each request with its params.
var echoes = dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	return req.Reply(bytes.Clone(req.Params()))
}}

// asking returns a request that echoes answers.
func asking(x string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"echo","params":{"x":"` + x + `"}}`
}

// asked returns the answer to asking(x).
func asked(x string) string { return `{"jsonrpc":"2.0","id":7,"result":{"x":"` + x + `"}}` }

// sized returns x for a request of so many bytes in all.
func sized(n int) string { return strings.Repeat("x", n-len(asking(""))) }

func short(s string) string {
	if len(s) > 200 {
		return s[:100] + fmt.Sprintf(" … %d bytes … ", len(s)-200) + s[len(s)-100:]
	}
	return s
}
