package stdio

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
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

// ServeIO is Serve on other streams. It closes those of them that can be
// closed, except our own standard streams.
func ServeIO(ctx context.Context, a dragoman.Acceptor, r io.Reader, w io.Writer, opts *Options) error {
	o := opts.orDefault()
	if o.Linger == 0 {
		o.Linger = DefaultLinger
	}
	in := newInput(r)
	s := newStream(in, w, o.Framing, o.limits(), o.Logger, func() error {
		in.Close()
		if c, ok := w.(io.Closer); ok && w != os.Stdout && w != os.Stderr {
			return c.Close()
		}
		return nil
	})
	conn := mux.New(s, o.server())
	return serve(ctx, a, conn)
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

// An input is a reader whose Close makes Read return. Standard input cannot do
// that by itself: a read from it blocks until something comes.
type input struct {
	r     io.Reader
	close func()
}

func newInput(r io.Reader) *input {
	if f, ok := r.(*os.File); ok && f.SetReadDeadline(time.Time{}) != nil {
		return newPump(f)
	}
	in := &input{r: r, close: func() {}}
	switch c := r.(type) {
	case interface{ SetReadDeadline(time.Time) error }:
		in.close = func() { _ = c.SetReadDeadline(time.Unix(1, 0)) }
	case io.Closer:
		in.close = func() { _ = c.Close() }
	}
	return in
}

func (in *input) Read(b []byte) (int, error) { return in.r.Read(b) }

func (in *input) Close() { in.close() }

// newPump reads r on a goroutine that nothing but r can end. It is the one
// goroutine that may outlive its conversation: until the next byte or the end
// of standard input, which at the latest is the end of the process.
func newPump(r io.Reader) *input {
	pr, pw := io.Pipe()
	var once sync.Once
	in := &input{close: func() { _ = pr.Close() }}
	in.r = readerFunc(func(b []byte) (int, error) {
		once.Do(func() {
			go func() {
				_, err := io.Copy(pw, struct{ io.Reader }{r})
				_ = pw.CloseWithError(err)
			}()
		})
		return pr.Read(b)
	})
	return in
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
