package stdio

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/mux"
)

// signalGrace is how long requests under way may still be served after the context
// of Serve has ended. Hosts that end us by a signal give us two seconds.
const signalGrace = time.Second

// Serve serves one client on our own standard input and output, until the
// client closes its end or ctx ends. Requests under way are answered first: for
// as long as the options say, or a second if ctx ends. Nothing else may write to
// standard output meanwhile.
func Serve(ctx context.Context, a dragoman.Acceptor, opts *Options) error {
	return ServeIO(ctx, a, os.Stdin, os.Stdout, opts)
}

// ServeIO is Serve on other streams. It closes w if that can be closed, except
// our own standard streams, and makes reads from r return.
func ServeIO(ctx context.Context, a dragoman.Acceptor, r io.Reader, w io.Writer, opts *Options) error {
	s := &Server{Acceptor: a, Options: opts}
	wait := signalGrace
	if opts != nil && opts.Linger < 0 {
		wait = 0
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
		defer cancel()
		_ = s.Shutdown(limit) // who was cut has been told
	})
	err := s.serveIO(context.WithoutCancel(ctx), r, w)
	if !stop() {
		<-stopped
		return context.Cause(ctx)
	}
	return err
}

// ServeIO serves one client on streams that are no socket, such as our own standard
// input and output, until it closes its end. After Shutdown or Close it returns
// ErrServerClosed. It closes w if that can be closed, except our own standard
// streams, and makes reads from r return.
func (s *Server) ServeIO(r io.Reader, w io.Writer) error {
	return s.serveIO(context.Background(), r, w)
}

func (s *Server) serveIO(ctx context.Context, r io.Reader, w io.Writer) error {
	o := s.Options.orDefault()
	if o.Linger == 0 {
		o.Linger = DefaultLinger
	}
	stop := interrupt(r)
	line := newStream(r, w, o.Framing, o.limits(), o.Logger, func() error {
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
	t := newTalk(ctx, mux.New(line, m))
	if err := s.admit(t, 0); err != nil {
		t.close()
		return err
	}
	err := s.serve(t)
	if err != nil && s.isClosed() {
		return ErrServerClosed
	}
	return err
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
