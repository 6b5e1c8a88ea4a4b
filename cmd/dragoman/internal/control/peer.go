package control

import (
	"encoding/json"
	"fmt"
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
	log *slog.Logger
}

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
		refuse(c)
	}
}

// refuse answers a connection before its request is read, and closes it.
func refuse(c net.Conn) {
	const status = http.StatusForbidden
	body, err := json.Marshal(gateway.Failed{Error: "the control socket refuses processes that the gateway has started; run the command outside of the server"})
	if err != nil {
		body = nil
	}
	_ = c.SetDeadline(time.Now().Add(time.Second))
	_, _ = fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, http.StatusText(status), len(body), body)
	_ = c.Close()
}
