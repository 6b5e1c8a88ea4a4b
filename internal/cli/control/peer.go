package control

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway"
)

// A guardedListener refuses connections from the processes that this one has started: a
// server must not control its gateway, nor use other servers as its owner.
type guardedListener struct {
	net.Listener
	log      *slog.Logger
	refusing chan struct{} // holds a token for each connection that gets an answer now
}

// maxRefusing is how many refused connections get an answer at a time. Others are closed.
const maxRefusing = 16

// Accept implements net.Listener.
func (l *guardedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		socket, ok := c.(*net.UnixConn)
		if !ok || !startedHere(socket) {
			return c, nil
		}
		l.log.Warn("control connection of a server's process refused")
		select {
		case l.refusing <- struct{}{}:
			go func() { // ends within a second
				defer func() { <-l.refusing }()
				refuse(c)
			}()
		default: // it opens many at a time
			_ = c.Close()
		}
	}
}

// maxRefused is how much of a request is read that is refused.
const maxRefused = 64 << 10

// refuse answers the first request of a connection, and closes it. The request is read before, or the
// client may see a broken pipe in place of the answer.
func refuse(c net.Conn) {
	const status = http.StatusForbidden
	body, err := json.Marshal(gateway.Failed{Error: "the control socket refuses processes that the gateway has started; run the command outside of the server"})
	if err != nil {
		body = nil
	}
	_ = c.SetDeadline(time.Now().Add(time.Second))
	_, _ = http.ReadRequest(bufio.NewReader(io.LimitReader(c, maxRefused))) // whatever it is
	_, _ = fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, http.StatusText(status), len(body), body)
	_ = c.Close()
}
