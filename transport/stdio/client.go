package stdio

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/mux"
	"github.com/dragoman-mcp/dragoman/internal/redact"
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
// When the server dies, calls under way fail with an error that is
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
	conn := mux.New(s, &mux.Options{Limits: limits, NotMessage: c.onText(), Logger: c.Logger})
	conn.Start(local)
	return &Conn{Conn: conn, child: p}, nil
}

// maxText is how much is told of a line on stdout that is no message.
const maxText = 1024

// onText returns what is told of frames that are no messages.
func (c *Command) onText() func([]byte) {
	tell := c.OnText
	if tell == nil {
		var once sync.Once
		log := c.logger()
		tell = func(line string) {
			once.Do(func() {
				log.Warn("server wrote text to stdout, which is for messages only; skipped", "command", c.Path, "text", redact.Text(line))
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

// PID returns the number of the server's process.
func (c *Conn) PID() int { return c.child.cmd.Process.Pid }

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
		return errors.New("stdio: the server closed its standard output but goes on running")
	}
	return err
}
