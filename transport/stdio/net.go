package stdio

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/mux"
)

// writeTimeout is how long the other side of a socket may take to read.
const writeTimeout = 30 * time.Second

// An Address is a server that listens on a socket. It is a Dialer.
type Address struct {
	Network string // "tcp" or "unix"
	Address string
	Options *Options
}

var _ dragoman.Dialer = (*Address)(nil)

// Dial connects and opens the conversation.
func (a *Address) Dial(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, a.Network, a.Address)
	if err != nil {
		return nil, fmt.Errorf("stdio: cannot reach the server: %w", err)
	}
	o := a.Options.orDefault()
	framing := o.Framing
	if framing == Auto {
		framing = Lines
	}
	s := newStream(nc, nc, framing, o.limits(), o.Logger, nc.Close)
	conn := mux.New(s, &mux.Options{Limits: o.limits(), Stall: writeTimeout, Logger: o.Logger})
	conn.Start(local)
	return conn, nil
}

// Listen listens on a socket. A Unix socket is open to its owner alone, and
// takes the place of one that nobody listens on any more.
func Listen(ctx context.Context, network, address string) (net.Listener, error) {
	var lc net.ListenConfig
	if network == "unix" {
		if err := removeStale(ctx, address); err != nil {
			return nil, err
		}
	}
	l, err := lc.Listen(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("stdio: cannot listen: %w", err)
	}
	if network == "unix" {
		if err := os.Chmod(address, 0o600); err != nil {
			_ = l.Close()
			return nil, fmt.Errorf("stdio: cannot protect the socket: %w", err)
		}
	}
	return l, nil
}

// removeStale removes a socket that a dead process left behind.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSocket == 0 {
		return nil // nothing there, or nothing of ours: Listen says so
	}
	var d net.Dialer
	if nc, err := d.DialContext(ctx, "unix", path); err == nil {
		_ = nc.Close()
		return fmt.Errorf("stdio: somebody listens on %s already", path)
	}
	return os.Remove(path)
}

// errHTTP ends the conversation with a client that speaks HTTP.
var errHTTP = errors.New("stdio: the client speaks HTTP; this socket takes lines of JSON")

// A noHTTP is a client's end of a socket that hangs up on HTTP. A web page can
// post lines of JSON to a port of this machine, and a server that skips lines it
// cannot read would come to them. No message begins like a request line.
type noHTTP struct {
	net.Conn
	settled bool // it is no HTTP
	letters bool // so far there are capital letters alone
}

// Read implements io.Reader. What it returns before it is settled is less than a
// line, so nobody takes that for a message.
func (c *noHTTP) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for i := 0; i < n && !c.settled; i++ {
		switch b := p[i]; {
		case b >= 'A' && b <= 'Z':
			c.letters = true
		case b == ' ' && c.letters:
			_ = c.Conn.Close() // before anything is answered
			return 0, errHTTP
		default:
			c.settled = true
		}
	}
	return n, err
}
