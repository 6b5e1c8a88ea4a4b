package checklist

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// Frames of WebSocket that are whole, by their first byte.
const (
	textFrame   = 0x81
	binaryFrame = 0x82
	closeFrame  = 0x88
	pingFrame   = 0x89
	pongFrame   = 0x8A
)

// A rawSocket is one end of a WebSocket whose frames the test makes itself.
type rawSocket struct {
	t      *testing.T
	conn   net.Conn
	in     *bufio.Reader
	client bool // which has to mask what it sends
}

func newRawSocket(t *testing.T, conn net.Conn, client bool) *rawSocket {
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &rawSocket{t, conn, bufio.NewReader(conn), client}
}

// openSocket opens a socket to our server, with more header lines.
func openSocket(t *testing.T, url string, lines ...string) *rawSocket {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	s := newRawSocket(t, conn, true)
	s.write([]byte("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n" + strings.Join(append(lines, ""), "\r\n") + "\r\n"))
	resp, err := http.ReadResponse(s.in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("no upgrade: %v %v", resp, err)
	}
	return s
}

// A dialed is what Dial returned.
type dialed struct {
	conn dragoman.Conn
	err  error
}

// knock has our client dial a server that the test plays, up to where the client
// waits for the answer to its handshake.
func knock(t *testing.T, c *ws.Client) (s *rawSocket, handshake *http.Request, opened <-chan dialed) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c.URL = "ws://" + l.Addr().String()
	result := make(chan dialed, 1)
	go func() { // ends with Dial, at the end of the test at the latest
		conn, err := c.Dial(t.Context(), nil)
		result <- dialed{conn, err}
	}()
	_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(patience))
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	s = newRawSocket(t, conn, false)
	if handshake, err = http.ReadRequest(s.in); err != nil {
		t.Fatal(err)
	}
	return s, handshake, result
}

// scriptSocket is a conversation of our client with a server that the test plays.
func scriptSocket(t *testing.T, c *ws.Client) (*rawSocket, dragoman.Conn) {
	t.Helper()
	s, handshake, opened := knock(t, c)
	sum := sha1.Sum([]byte(handshake.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	answer := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: " +
		base64.StdEncoding.EncodeToString(sum[:]) + "\r\n"
	if p := handshake.Header.Get("Sec-WebSocket-Protocol"); p != "" {
		answer += "Sec-WebSocket-Protocol: " + p + "\r\n"
	}
	s.write([]byte(answer + "\r\n"))
	d := wait(t, opened, "the end of Dial")
	if d.err != nil {
		t.Fatal(d.err)
	}
	t.Cleanup(func() { _ = d.conn.Close() })
	t.Cleanup(func() { _ = s.conn.Close() }) // before that, which would wait for the closing handshake
	return s, d.conn
}

// wantFarewell has the client close the conversation, which must be the next that
// is heard of it.
func (s *rawSocket) wantFarewell(conn dragoman.Conn) {
	s.t.Helper()
	closed := make(chan error, 1)
	go func() { closed <- conn.Close() }() // ends when the close is answered, or soon after
	s.wantClose(1000)
	if err := wait(s.t, closed, "the end of Close"); err != nil {
		s.t.Fatal(err)
	}
}

func (s *rawSocket) write(b []byte) {
	s.t.Helper()
	if _, err := s.conn.Write(b); err != nil {
		s.t.Fatal(err)
	}
}

// send writes a frame of less than 64 KiB.
func (s *rawSocket) send(first byte, payload string) {
	s.t.Helper()
	b, mask := []byte{first}, byte(0)
	if s.client {
		mask = 0x80
	}
	if n := len(payload); n < 126 {
		b = append(b, mask|byte(n))
	} else {
		b = binary.BigEndian.AppendUint16(append(b, mask|126), uint16(n))
	}
	if s.client {
		b = append(b, 0, 0, 0, 0) // a mask that changes nothing
	}
	s.write(append(b, payload...))
}

// say sends a text message.
func (s *rawSocket) say(text string) {
	s.t.Helper()
	s.send(textFrame, text)
}

// next reads a frame of less than 64 KiB.
func (s *rawSocket) next() (first byte, payload []byte, err error) {
	head := make([]byte, 2)
	if _, err = io.ReadFull(s.in, head); err != nil {
		return 0, nil, err
	}
	n := int(head[1] & 0x7F)
	if n == 126 {
		long := make([]byte, 2)
		_, err = io.ReadFull(s.in, long)
		n = int(binary.BigEndian.Uint16(long))
	}
	key := make([]byte, 4)
	if err == nil && head[1]&0x80 != 0 {
		_, err = io.ReadFull(s.in, key)
	}
	payload = make([]byte, n)
	if err == nil {
		_, err = io.ReadFull(s.in, payload)
	}
	for i := range payload {
		payload[i] ^= key[i&3]
	}
	return head[0], payload, err
}

// expect reads a text message, which must be the next frame.
func (s *rawSocket) expect() string {
	s.t.Helper()
	first, payload, err := s.next()
	if err != nil || first != textFrame {
		s.t.Fatalf("got frame %#x %q (%v), want a text message", first, payload, err)
	}
	return string(payload)
}

// closing is the payload of a close frame.
func closing(code uint16, reason string) string {
	return string(binary.BigEndian.AppendUint16(nil, code)) + reason
}

// wantClose reads a close frame, which must be the next one, answers it, and
// returns the reason in it.
func (s *rawSocket) wantClose(code uint16) string {
	s.t.Helper()
	first, payload, err := s.next()
	if err != nil || first != closeFrame || len(payload) < 2 || binary.BigEndian.Uint16(payload) != code {
		s.t.Fatalf("got frame %#x %q (%v), want a close with code %d", first, payload, err, code)
	}
	s.send(closeFrame, closing(code, ""))
	return string(payload[2:])
}
