package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
)

// exitWait is how long a conversation that broke waits for the exit of the
// child, which says why.
const exitWait = 700 * time.Millisecond

// A Conn is a conversation with a child process.
type Conn struct {
	dragoman.Conn
	child *child
}

// Unwrap returns what the conversation is built on, for [dragoman.PeerAs].
func (c *Conn) Unwrap() dragoman.Conn { return c.Conn }

var _ dragoman.Dialer = (*Command)(nil)

// Dial starts the server and opens the conversation with it. Closing the
// conversation stops the server and whatever it has started: its standard
// input is closed, then it is asked to terminate, then it is killed.
//
// When the server dies, calls in flight fail with an error that is
// [dragoman.ErrClosed] and holds an [ExitError].
func (c *Command) Dial(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p, err := c.start()
	if err != nil {
		return nil, err
	}
	framing := c.Framing
	if framing == Auto {
		framing = Lines
	}
	limits := dragoman.Limits{MaxMessage: c.MaxMessage}
	s := newStream(childOut{p}, childIn{p}, framing, limits, c.Logger, func() error {
		p.stop()
		return nil
	})
	mask := maskOf(p.env)
	conn := jsonrpc.New(s, &jsonrpc.Options{Limits: limits, NotMessage: c.onText(mask), Mask: mask, Logger: c.Logger})
	conn.Start(local)
	return &Conn{Conn: conn, child: p}, nil
}

// maxText is how much is told of a line on stdout that is no message.
const maxText = 1024

// maskOf returns what takes the secrets of an environment out of a text. Most servers never write
// such a text, so they are looked for with the first one.
func maskOf(env []string) func(string) string {
	secrets := sync.OnceValue(func() (values []string) {
		for _, variable := range env {
			if name, value, ok := strings.Cut(variable, "="); ok && redact.IsSecret(name, value) {
				values = append(values, value)
			}
		}
		return values
	})
	return func(text string) string { return redact.Values(text, secrets()) }
}

// onText returns what is told of frames that are no messages.
func (c *Command) onText(mask func(string) string) func([]byte) {
	tell := c.OnText
	if tell == nil {
		var once sync.Once
		log := c.logger()
		tell = func(line string) {
			once.Do(func() {
				log.Warn("server wrote text to stdout, which is for messages only; skipped", "command", c.Path, "text", redact.Line(mask(line)))
			})
		}
	}
	return func(frame []byte) {
		tell(printable(strings.ToValidUTF8(string(frame[:min(len(frame), maxText)]), "")))
	}
}

// Stderr returns the last 64 KiB of what the server wrote to its standard
// error.
func (c *Conn) Stderr() []byte { return c.child.stderrTail() }

// Unread returns how many bytes of what was written to the server's standard input it has not
// read yet. Only Linux knows; elsewhere known is false.
func (c *Conn) Unread() (n int, known bool) { return unread(c.child.stdin) }

// PID returns the number of the server's process.
func (c *Conn) PID() int { return c.child.pid }

// childOut reads what the child writes. Its end is told by the exit of the
// child, which knows more than that the pipe is closed.
type childOut struct{ *child }

func (p childOut) Read(b []byte) (int, error) {
	n, err := p.out().Read(b)
	if n > 0 || err == nil {
		return n, nil
	}
	return 0, p.exitReason(err)
}

type childIn struct{ *child }

func (p childIn) Write(b []byte) (int, error) {
	n, err := p.in().Write(b)
	if err != nil {
		err = p.exitReason(err)
	}
	return n, err
}

// exitReason returns the exit of the child as the reason of err, if it comes soon.
func (p *child) exitReason(err error) error {
	t := time.NewTimer(exitWait)
	defer t.Stop()
	select {
	case <-p.done():
		return p.exit()
	case <-t.C:
	}
	if errors.Is(err, io.EOF) {
		return errors.New("stdio: the server closed its standard output but continues running")
	}
	return err
}

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
	conn := jsonrpc.New(s, &jsonrpc.Options{Limits: o.limits(), Stall: writeTimeout, Logger: o.Logger})
	conn.Start(local)
	return conn, nil
}

// A Process is a server that was started and is not spoken to: whoever started it
// reads and writes its standard streams.
type Process struct{ child *child }

// Start starts the server and leaves the conversation to the caller, who reads all
// that it writes and calls Stop.
func (c *Command) Start() (*Process, error) {
	p, err := c.start()
	if err != nil {
		return nil, err
	}
	return &Process{p}, nil
}

// Read reads what the server writes to its standard output. The end is the [ExitError] of a
// server that has ended.
func (p *Process) Read(b []byte) (int, error) { return childOut{p.child}.Read(b) }

// Write writes to the server's standard input.
func (p *Process) Write(b []byte) (int, error) { return childIn{p.child}.Write(b) }

// Stop ends the server as closing a conversation does, and says how it ended.
func (p *Process) Stop() *ExitError {
	p.child.stop()
	return p.child.exit()
}

// Stderr returns the last 64 KiB of what the server wrote to its standard error.
func (p *Process) Stderr() []byte { return p.child.stderrTail() }

// File returns the executable that was found.
func (p *Process) File() string { return p.child.file }

// Withheld returns the names of the variables of our environment that the server does not see.
func (p *Process) Withheld() (names []string) {
	for _, entry := range os.Environ() {
		name, _, ok := cutVariable(entry)
		if ok && !slices.ContainsFunc(p.child.env, func(theirs string) bool {
			n, _, _ := cutVariable(theirs)
			return sameName(n, name)
		}) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
