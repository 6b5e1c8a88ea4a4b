package stdio

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"strconv"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/mux"
	"github.com/dragoman-mcp/dragoman/internal/redact"
	"github.com/dragoman-mcp/dragoman/internal/trace"
)

// Framing is how messages are delimited on a byte stream.
type Framing uint8

// The framings. All are understood when reading.
const (
	// Auto writes as the other side does, and lines as long as it has said
	// nothing.
	Auto Framing = iota

	// Lines ends each message with a newline.
	Lines

	// ContentLength precedes each message by a header with its length.
	ContentLength
)

var framings = [...]string{Auto: "auto", Lines: "lines", ContentLength: "content-length"}

// String returns the framing's name, as it is spelt in configurations.
func (f Framing) String() string { return framings[f] }

// ParseFraming returns the framing of that name.
func ParseFraming(name string) (Framing, bool) {
	for f, n := range framings {
		if n == name {
			return Framing(f), true
		}
	}
	return Auto, false
}

// A stream is a mux.Stream over bytes.
type stream struct {
	frameReader
	w       io.Writer
	framing Framing
	out     []byte       // owned by Write
	end     func() error // makes reads and writes return
}

var _ mux.Stream = (*stream)(nil)

func newStream(r io.Reader, w io.Writer, framing Framing, limits dragoman.Limits, log *slog.Logger, end func() error) *stream {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	s := &stream{w: w, framing: framing, end: end}
	s.r, s.max, s.log = r, limits.Message(), log
	return s
}

// Close implements mux.Stream.
func (s *stream) Close() error { return s.end() }

// Write implements mux.Stream: frames that came together go out together, in
// one write.
func (s *stream) Write(frames []mux.Frame) error {
	framed := s.framing == ContentLength || s.framing == Auto && s.framed.Load()
	for i, f := range frames {
		if framed {
			s.out = append(s.out, "Content-Length: "...)
			s.out = strconv.AppendInt(s.out, int64(f.Len()), 10)
			s.out = append(s.out, "\r\n\r\n"...)
		}
		start := len(s.out)
		s.out = f.AppendTo(s.out)
		s.debug(framed, s.out[start:])
		if !framed {
			dragoman.OneLine(s.out[start:])
			s.out = append(s.out, '\n')
		}
		if len(s.out) < keepBuffer && i < len(frames)-1 {
			continue
		}
		_, err := s.w.Write(s.out)
		if s.out = s.out[:0]; cap(s.out) > keepBuffer {
			s.out = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// debug reports what is sent, without its secrets.
func (s *stream) debug(framed bool, text []byte) {
	if !s.verbose() {
		return
	}
	mode := "line"
	if framed {
		mode = "framed"
	}
	s.log.Log(context.Background(), trace.LevelSteps, "send", "mode", mode, "bytes", len(text), "json", redact.JSON(text))
}
