package stdio

import (
	"log/slog"
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
	// its end is gone. Negative means not at all, nor after the end of the context
	// of Serve and ServeIO.
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
	return &mux.Options{Limits: o.limits(), Server: true, Linger: o.Linger, Logger: o.Logger}
}
