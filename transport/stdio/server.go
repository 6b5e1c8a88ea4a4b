package stdio

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/mux"
)

// DefaultLinger is how long requests may still be served after the client has
// closed our standard input.
const DefaultLinger = 30 * time.Second

// Options configures the server side and the sockets. The zero value is ready
// to use.
type Options struct {
	// Framing is how messages are written. Auto answers in kind.
	Framing Framing

	// MaxMessage is the largest message accepted, in bytes. Zero means
	// dragoman.DefaultMaxMessage; negative means no limit.
	MaxMessage int

	// Linger is how long requests under way may still be served after the
	// client has closed its end of the stream. Zero means DefaultLinger for
	// Serve and ServeIO, and not at all for sockets, where a client that closes
	// its end is gone. Negative means not at all.
	Linger time.Duration

	// Logger receives what is skipped, and at debug level every step. If nil,
	// nothing is logged.
	Logger *slog.Logger
}

func (o *Options) orDefault() Options {
	if o == nil {
		return Options{}
	}
	return *o
}

func (o *Options) limits() dragoman.Limits { return dragoman.Limits{MaxMessage: o.MaxMessage} }

// server returns how the server side of a conversation is to behave.
func (o *Options) server() *mux.Options {
	return &mux.Options{Limits: o.limits(), AnswerBad: true, Linger: o.Linger, Logger: o.Logger}
}

// Serve serves one client on our own standard input and output, until the
// client closes its end or ctx ends. Requests under way are answered first.
// Nothing else may write to standard output meanwhile.
func Serve(ctx context.Context, a dragoman.Acceptor, opts *Options) error {
	return ServeIO(ctx, a, os.Stdin, os.Stdout, opts)
}

// ServeIO is Serve on other streams. It closes w if that can be closed, except
// our own standard streams, and makes reads from r return.
func ServeIO(ctx context.Context, a dragoman.Acceptor, r io.Reader, w io.Writer, opts *Options) error {
	o := opts.orDefault()
	if o.Linger == 0 {
		o.Linger = DefaultLinger
	}
	stop := interrupt(r)
	s := newStream(r, w, o.Framing, o.limits(), o.Logger, func() error {
		if stop != nil {
			stop()
		}
		if c, ok := w.(io.Closer); ok && w != os.Stdout && w != os.Stderr {
			return c.Close()
		}
		return nil
	})
	m := o.server()
	m.Abandon = stop == nil
	return serve(ctx, a, mux.New(s, m))
}

// serve answers one client until it is gone or ctx ends.
func serve(ctx context.Context, a dragoman.Acceptor, conn *mux.Conn) error {
	defer conn.Close()
	peer, err := a.Accept(ctx, conn)
	if err != nil {
		return err
	}
	conn.Start(peer)
	select {
	case <-conn.Done():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := conn.Err(); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// interrupt returns what makes a read from r return, or nil if nothing does: a
// read from standard input blocks until something comes.
func interrupt(r io.Reader) func() {
	if d, ok := r.(interface{ SetReadDeadline(time.Time) error }); ok && d.SetReadDeadline(time.Time{}) == nil {
		return func() { _ = d.SetReadDeadline(time.Unix(1, 0)) }
	}
	if c, ok := r.(io.Closer); ok {
		if _, file := r.(*os.File); !file {
			return func() { _ = c.Close() }
		}
	}
	return nil
}
