package ws

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/coder/websocket"
	"github.com/dragoman-mcp/dragoman"
)

// A CloseError says that the other side closed the socket, and how. It is
// [dragoman.ErrTooLarge] if a message of ours was too large for it.
type CloseError struct {
	Code   int    // 1000, say; 1005 if the other side gave none
	Reason string // what the other side said, perhaps nothing
}

// Error implements error.
func (e *CloseError) Error() string {
	s := fmt.Sprintf("ws: the other side closed the socket with code %d", e.Code)
	if e.Reason != "" {
		s += ": " + strings.ToValidUTF8(e.Reason, "\uFFFD")
	}
	return s
}

// Unwrap returns what the code means to a caller, or nil.
func (e *CloseError) Unwrap() error {
	if e.Code == int(websocket.StatusMessageTooBig) {
		return dragoman.ErrTooLarge
	}
	return nil
}

// noCode means that no close frame is sent.
const noCode websocket.StatusCode = -1

// A closeReason is why a socket ends: code and text for the other side, the error for
// ours.
type closeReason struct {
	code websocket.StatusCode
	text string
	err  error
}

var (
	errConnectionLost = errors.New("ws: the connection was lost without a close")
	errNoPong         = errors.New("ws: the other side answers no ping")
	errBinary         = errors.New("ws: the other side sent a binary message")
	errNotUTF8        = errors.New("ws: the other side sent text that is not UTF-8")
	errStopping       = errors.New("ws: the server is stopping")
)

// reasonOf returns the reason that an error of the library stands for.
func (s *socket) reasonOf(err error) closeReason {
	var closed websocket.CloseError
	var network net.Error
	switch {
	case errors.As(err, &closed):
		return closeReason{closed.Code, "", &CloseError{int(closed.Code), closed.Reason}}
	case errors.Is(err, websocket.ErrMessageTooBig), errors.Is(err, errFrame):
		return closeReason{websocket.StatusMessageTooBig, "",
			fmt.Errorf("ws: a message of more than %d bytes came: %w", s.limit, dragoman.ErrTooLarge)}
	case errors.Is(err, context.DeadlineExceeded):
		return closeReason{noCode, "", dragoman.ErrSlow} // the library could not write a pong
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe),
		errors.Is(err, net.ErrClosed), errors.As(err, &network):
		return closeReason{noCode, "", errConnectionLost}
	}
	return closeReason{websocket.StatusProtocolError, "this is not WebSocket",
		fmt.Errorf("ws: the other side does not speak WebSocket: %w", err)}
}
