package jsonrpc

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/dragoman-mcp/dragoman"
)

// A Stream carries frames of one message each. Read is called by one goroutine
// at a time and Write by another. A Stream may have a method Buffered, which
// returns how many bytes it has read beyond the last frame.
type Stream interface {
	// Read returns the next frame, whose memory is the caller's. After a
	// *BadFrame the stream continues; any other error ends it, io.EOF in good
	// order.
	Read() ([]byte, error)

	// Write writes frames, each whole. It may be given several at once and
	// should write them together.
	Write(frames []Frame) error

	// Close ends the stream. It makes Read and Write return.
	Close() error
}

// A Frame is what is written: a message, or a batch of them.
type Frame interface {
	AppendTo(dst []byte) []byte
	Len() int
}

// MessageOf returns the message that a frame is, or nil if it is several in one.
func MessageOf(f Frame) *dragoman.Message {
	switch f := f.(type) {
	case *dragoman.Message:
		return f
	case *Call:
		return f.Message()
	}
	return nil
}

// A BadFrame is an error after which the stream continues.
type BadFrame struct {
	Err error

	// Head and Tail are the beginning and the end of a frame that was too long
	// to be kept.
	Head, Tail []byte

	// Call is the id of a request of ours that will not be answered because of
	// Err, if the stream knows.
	Call dragoman.ID
}

// Error implements error.
func (e *BadFrame) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *BadFrame) Unwrap() error { return e.Err }

// Options configures a Conn. The zero value holds the defaults.
type Options struct {
	// Limits bounds the messages that are read.
	Limits dragoman.Limits

	// MaxCalls is how many calls may be in flight, and how many requests may
	// be served. Zero means DefaultMaxCalls.
	MaxCalls int

	// MaxQueue is how many bytes may wait to be written, not counting a single
	// message that is larger. Zero means DefaultMaxQueue.
	MaxQueue int

	// Stall is how long one write may take before the other side counts as not
	// reading and the conversation is ended. Zero means no limit.
	Stall time.Duration

	// Server says that the other side is a client. Its requests and log messages
	// are no part of what we ask it, and frames that are no message are answered
	// with an error. Without it they are skipped, bytes that are not UTF-8 are
	// replaced by U+FFFD, and a request or log message belongs to the only call
	// in progress.
	Server bool

	// Queued says that a write may take long, as when each message is an HTTP
	// request: callers leave it to the goroutine that writes, so that the end of
	// their context counts meanwhile.
	Queued bool

	// Linger is how long requests may still be served after the other side has
	// ended the stream in good order. Zero means not at all.
	Linger time.Duration

	// Abandon says that Close of the stream cannot make Read return, as is so
	// with standard input. Then the goroutine that reads outlives the
	// conversation until something comes, and Close does not wait for it.
	Abandon bool

	// NotMessage, if not nil, is called with each frame of a server that is no message and
	// no answer to a call, from the goroutine that reads.
	NotMessage func(frame []byte)

	// Mask, if not nil, takes secrets out of the frames that are logged because they are no
	// messages, besides what looks like some.
	Mask func(text string) string

	// Logger receives what is skipped and dropped. If nil, nothing is logged.
	Logger *slog.Logger
}

// Defaults of Options.
const (
	DefaultMaxCalls = 1024
	DefaultMaxQueue = 4 << 20
)

const (
	// closeWait is how long the end of a conversation waits for the last bytes
	// to be written.
	closeWait = 2 * time.Second

	// peerWait is how long Close waits for peers of ours that have been told
	// to stop. One of them may be the caller of Close.
	peerWait = 500 * time.Millisecond
)

func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	if c.MaxCalls <= 0 {
		c.MaxCalls = DefaultMaxCalls
	}
	if c.MaxQueue <= 0 {
		c.MaxQueue = DefaultMaxQueue
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}
