package logs

import (
	"context"
	"encoding"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"
)

// A Handler writes each record as one line, in one Write:
//
//	time=2026-07-28T09:30:00.000Z level=INFO msg="process started" server=files pid=4711
//
// It writes what [slog.TextHandler] does, except for durations and for DEL, which is quoted, in a
// fraction of the time: there is a record for each call.
type Handler struct {
	Out   io.Writer
	Level slog.Leveler // least level that is written; nil means info

	// Duration says how durations are written. If it is nil, they are as time.Duration has them.
	Duration func(time.Duration) string

	attrs string // of WithAttrs, as they are written
	group string // before keys, with a dot at its end
}

var lines = sync.Pool{New: func() any { return new([]byte) }}

// maxPooled is how long a line may have been for its array to be used again.
const maxPooled = 16 << 10

// Enabled implements slog.Handler.
func (h *Handler) Enabled(_ context.Context, level slog.Level) bool {
	least := slog.LevelInfo
	if h.Level != nil {
		least = h.Level.Level()
	}
	return level >= least
}

// Handle implements slog.Handler.
func (h *Handler) Handle(_ context.Context, r slog.Record) error {
	p := lines.Get().(*[]byte)
	b := (*p)[:0]
	if !r.Time.IsZero() {
		b = append(b, "time="...)
		b = append(appendTime(b, r.Time), ' ')
	}
	b = append(append(b, "level="...), r.Level.String()...)
	b = append(b, " msg="...)
	b = appendText(b, r.Message)
	b = append(b, h.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		b = h.appendAttr(b, h.group, a)
		return true
	})
	b = append(b, '\n')
	_, err := h.Out.Write(b)
	if cap(b) <= maxPooled {
		*p = b
		lines.Put(p)
	}
	return err
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	b := []byte(h.attrs)
	for _, a := range attrs {
		b = h.appendAttr(b, h.group, a)
	}
	with.attrs = string(b)
	return &with
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	in := *h
	in.group += name + "."
	return &in
}

func (h *Handler) appendAttr(b []byte, group string, a slog.Attr) []byte {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindGroup:
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, in := range v.Group() {
			b = h.appendAttr(b, group, in)
		}
		return b
	case slog.KindAny:
		if a.Key == "" && v.Any() == nil {
			return b // an empty attribute is left out
		}
	}
	b = append(b, ' ')
	if group == "" {
		b = appendText(b, a.Key)
	} else {
		b = appendText(b, group+a.Key)
	}
	b = append(b, '=')
	switch v.Kind() {
	case slog.KindString:
		return appendText(b, v.String())
	case slog.KindInt64:
		return strconv.AppendInt(b, v.Int64(), 10)
	case slog.KindUint64:
		return strconv.AppendUint(b, v.Uint64(), 10)
	case slog.KindBool:
		return strconv.AppendBool(b, v.Bool())
	case slog.KindDuration:
		if h.Duration != nil {
			return appendText(b, h.Duration(v.Duration()))
		}
		return append(b, v.Duration().String()...)
	case slog.KindTime:
		return appendTime(b, v.Time())
	}
	return appendAny(b, v)
}

// appendAny appends a value as it writes itself, or as fmt does.
func appendAny(b []byte, v slog.Value) []byte {
	switch x := v.Any().(type) {
	case encoding.TextMarshaler:
		text, err := x.MarshalText()
		if err != nil {
			return appendText(b, "!ERROR:"+err.Error())
		}
		return appendText(b, string(text))
	case []byte:
		return appendText(b, string(x))
	}
	return appendText(b, fmt.Sprintf("%+v", v.Any()))
}

// appendText appends a text, in quotes if it could not be told apart from what is around it.
func appendText(b []byte, text string) []byte {
	if needsQuotes(text) {
		return strconv.AppendQuote(b, text)
	}
	return append(b, text...)
}

func needsQuotes(text string) bool {
	if text == "" {
		return true
	}
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			if c <= ' ' || c == '"' || c == '=' || c == 0x7f {
				return true
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return true
		}
		i += size
	}
	return false
}

// second is how the last second that was written is.
var second atomic.Pointer[writtenSecond]

type writtenSecond struct {
	unix       int64
	zone       *time.Location
	date, rest string // what stands before the fraction, and after it
}

// appendTime appends a time as RFC 3339 has it, with milliseconds. Most times are of the same
// second as the last.
func appendTime(b []byte, t time.Time) []byte {
	s := second.Load()
	if unix := t.Unix(); s == nil || s.unix != unix || s.zone != t.Location() {
		s = &writtenSecond{unix, t.Location(), t.Format("2006-01-02T15:04:05."), t.Format("Z07:00")}
		second.Store(s)
	}
	milli := t.Nanosecond() / 1e6
	b = append(append(b, s.date...), byte('0'+milli/100), byte('0'+milli/10%10), byte('0'+milli%10))
	return append(b, s.rest...)
}
