package gatewaytest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The first bytes of frames.
const (
	TextFrame   = 0x81
	BinaryFrame = 0x82
	CloseFrame  = 0x88
	PingFrame   = 0x89
	PongFrame   = 0x8A
)

// A Socket is a WebSocket of a client that sends what it likes, frame by frame.
type Socket struct {
	net.Conn
	in *bufio.Reader
}

// Upgrade asks for a WebSocket at a path of the gateway, with more header lines. If the
// answer is another one, the socket is nil. It is closed at the end of the test.
func (g *Gateway) Upgrade(path string, lines ...string) (*Socket, *http.Response) {
	g.t.Helper()
	address := strings.TrimPrefix(g.Base, "http://")
	c, err := net.DialTimeout("tcp", address, Patience)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(2 * Patience))
	host := "Host: " + address + "\r\n"
	for _, line := range lines {
		if strings.HasPrefix(line, "Host:") {
			host = ""
		}
	}
	head := "GET " + path + " HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n" + strings.Join(append(lines, ""), "\r\n") + "\r\n"
	if _, err := io.WriteString(c, head); err != nil {
		g.t.Fatal(err)
	}
	s := &Socket{c, bufio.NewReader(c)}
	resp, err := http.ReadResponse(s.in, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return nil, resp
	}
	return s, resp
}

// Send writes a frame.
func (s *Socket) Send(first byte, payload string) error {
	const masked = 0x80
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, masked|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, masked|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, masked|127), uint64(n))
	}
	b = append(b, 0, 0, 0, 0) // a mask that changes nothing
	_, err := s.Write(append(b, payload...))
	return err
}

// errLong is of a frame that no test expects.
var errLong = errors.New("gatewaytest: the frame is too long")

// Next reads a frame.
func (s *Socket) Next() (first byte, payload string, err error) {
	var head [10]byte
	if _, err = io.ReadFull(s.in, head[:2]); err != nil {
		return 0, "", err
	}
	n := uint64(head[1])
	switch n {
	case 126:
		_, err = io.ReadFull(s.in, head[2:4])
		n = uint64(binary.BigEndian.Uint16(head[2:4]))
	case 127:
		_, err = io.ReadFull(s.in, head[2:10])
		n = binary.BigEndian.Uint64(head[2:10])
	}
	if err == nil && n > 64<<20 {
		err = errLong
	}
	if err != nil {
		return 0, "", err
	}
	text := make([]byte, n)
	_, err = io.ReadFull(s.in, text)
	return head[0], string(text), err
}

// Message reads frames up to the next text, and returns it. A close frame is an error
// with its code.
func (s *Socket) Message() (string, error) {
	for {
		first, text, err := s.Next()
		switch {
		case err != nil:
			return "", err
		case first == TextFrame:
			return text, nil
		case first == CloseFrame && len(text) >= 2:
			return "", ClosedError(binary.BigEndian.Uint16([]byte(text)))
		}
	}
}

// A ClosedError is the code of a close frame.
type ClosedError uint16

// Error implements error.
func (e ClosedError) Error() string { return fmt.Sprintf("closed with %d", uint16(e)) }

// Ask sends a text and returns the next one, which must come.
func (s *Socket) Ask(t testing.TB, text string) string {
	t.Helper()
	if err := s.Send(TextFrame, text); err != nil {
		t.Fatal(err)
	}
	answer, err := s.Message()
	if err != nil {
		t.Fatalf("no answer to %.200q: %v", text, err)
	}
	return answer
}
