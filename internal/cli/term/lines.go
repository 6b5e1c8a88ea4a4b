package term

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/observe/logs"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
)

// StderrRecord is the message of the records with a line of a server's standard error.
const StderrRecord = "stderr"

// A lineHandler writes records as short lines for a terminal: the time, a word if something
// is wrong, the text and what belongs to it.
//
//	15:04:05 serving everything (built-in)
//	15:04:09 files        tools/call read_file         34ms   1.2 kB claude-code
//	15:04:12 warning: server is down, next attempt in 500ms …  server=files
type lineHandler struct {
	out     io.Writer // gets whole lines, of several goroutines at once
	level   slog.Leveler
	colours bool
	width   func() int // of the terminal, 0 if that is not known
	attrs   []slog.Attr
	group   string // prefix of the names of attributes
}

// The colours, as what switches them on.
const (
	dim    = "\x1b[2m"
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	cyan   = "\x1b[36m"
	reset  = "\x1b[0m"
)

// Enabled implements slog.Handler.
func (h *lineHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.level.Level()
}

// WithAttrs implements slog.Handler.
func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := h.with()
	for _, a := range attrs {
		a.Key = h.group + a.Key
		with.attrs = append(with.attrs, a)
	}
	return with
}

// WithGroup implements slog.Handler.
func (h *lineHandler) WithGroup(name string) slog.Handler {
	with := h.with()
	if name != "" {
		with.group += name + "."
	}
	return with
}

func (h *lineHandler) with() *lineHandler {
	return &lineHandler{out: h.out, level: h.level, colours: h.colours, width: h.width, attrs: slices.Clone(h.attrs), group: h.group}
}

// Handle implements slog.Handler.
func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	attrs := slices.Clone(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		a.Key = h.group + a.Key
		attrs = append(attrs, a)
		return true
	})
	l := &line{colours: h.colours}
	if !r.Time.IsZero() {
		l.add(dim, r.Time.Format("15:04:05"))
		l.add("", " ")
	}
	switch r.Message {
	case logs.CallRecord:
		l.call(r.Level, attrs)
		l.fit(h.width())
	case logs.ToServer, logs.FromServer, logs.ToClient, logs.FromClient:
		l.message(r.Message, attrs)
		l.fit(h.width())
	case StderrRecord:
		server, text := take(&attrs, "server"), take(&attrs, "line")
		l.add(cyan, "["+server+"] ")
		l.add("", text)
		l.wrap(h.width())
	default:
		l.level(r.Level)
		colour := ""
		if r.Level < slog.LevelInfo {
			colour = dim
		}
		l.add(colour, redact.Printable(r.Message, "\n"))
		l.attrs(attrs)
		l.wrap(h.width())
	}
	l.end()
	_, err := io.WriteString(h.out, l.text.String())
	return err
}

// A line is one that is being made.
type line struct {
	colours bool
	parts   []part
	text    strings.Builder
}

type part struct{ colour, text string }

func (l *line) add(colour, text string) { l.parts = append(l.parts, part{colour, text}) }

// level begins a line with how bad it is.
func (l *line) level(level slog.Level) {
	switch {
	case level >= slog.LevelError:
		l.add(red, "error: ")
	case level >= slog.LevelWarn:
		l.add(yellow, "warning: ")
	}
}

// call is the line of a call, in columns.
func (l *line) call(level slog.Level, attrs []slog.Attr) {
	get := func(name string) string { return take(&attrs, name) }
	colour := ""
	if level >= slog.LevelWarn {
		colour = yellow
	}
	outcome := get("outcome")
	l.add(cyan, column(get("server"), 12)+" ")
	what := strings.TrimSpace(get("method") + " " + get("name"))
	l.add(colour, column(what, 32)+" ")
	l.add(colour, fmt.Sprintf("%7s ", get("took")))
	get("in")
	out, _ := strconv.ParseInt(get("out"), 10, 64) // none of a call without an answer
	l.add("", fmt.Sprintf("%8s ", humanize.Bytes(out)))
	if outcome != "answered" {
		l.add(colour, outcome+" ")
	}
	l.add(dim, get("client"))
}

// message is the line of a message on its way.
func (l *line) message(way string, attrs []slog.Attr) {
	get := func(name string) string { return take(&attrs, name) }
	l.add(cyan, column(get("server"), 12)+" ")
	l.add(dim, column(way, 19)+" ")
	id := get("id")
	l.add("", column(strings.TrimSpace(get("method")+" "+get("name")+" "+get("kind")), 32)+" ")
	size, _ := strconv.ParseInt(get("bytes"), 10, 64) // it is one
	l.add("", fmt.Sprintf("%8s ", humanize.Bytes(size)))
	if id != "" {
		l.add("", "#"+id+" ")
	}
	l.add(dim, get("json"))
}

// attrs adds what belongs to a text.
func (l *line) attrs(list []slog.Attr) {
	for _, a := range list {
		value := valueText(a.Value)
		if value == "" || a.Value.Kind() == slog.KindAny && a.Value.Any() == nil {
			continue
		}
		if strings.ContainsFunc(value, unicode.IsSpace) {
			value = strconv.Quote(value)
		}
		l.add(dim, " "+redact.Printable(a.Key, "")+"=")
		l.add("", value)
	}
}

// take removes an attribute, and returns its text.
func take(attrs *[]slog.Attr, name string) string {
	for i, a := range *attrs {
		if a.Key == name {
			*attrs = slices.Delete(*attrs, i, i+1)
			return valueText(a.Value)
		}
	}
	return ""
}

// valueText returns a value for people.
func valueText(v slog.Value) string {
	if v = v.Resolve(); v.Kind() == slog.KindDuration {
		return humanize.Duration(v.Duration())
	}
	return redact.Printable(v.String(), "")
}

// column returns a text that fills a column: a longer one is cut, unless it is only a
// little longer.
func column(s string, width int) string {
	n := utf8.RuneCountInString(s)
	if most := width + 8; n > most {
		return string([]rune(s)[:most-1]) + "…"
	}
	return s + strings.Repeat(" ", max(0, width-n))
}

// fit makes a line of columns fit into the terminal: if it is too long the columns lose their padding, and
// what is still too long is wrapped. Nothing is left out.
func (l *line) fit(width int) {
	size := 0
	for _, p := range l.parts {
		size += utf8.RuneCountInString(p.text)
	}
	if width <= 0 || size <= width {
		return
	}
	for i, p := range l.parts {
		if text := strings.TrimSpace(p.text); text != "" && strings.HasSuffix(p.text, " ") {
			l.parts[i].text = text + " "
		}
	}
	l.wrap(width)
}

// hang is what the further lines of a text begin with: they stand below it, behind the time.
const hang = "         "

// wrap breaks a text between words where a line of the terminal ends, if its width is known.
func (l *line) wrap(width int) {
	at := 0
	for i := range l.parts {
		more := 0 // of the last word, in the next part
		if i+1 < len(l.parts) {
			word, _, _ := strings.Cut(l.parts[i+1].text, " ")
			more = utf8.RuneCountInString(word)
		}
		l.parts[i].text, at = wrapText(l.parts[i].text, at, more, width, hang)
	}
}

// wrapText returns a text with line breaks in place of spaces, so that no line is longer than width
// if that is known, and its words are not. It begins at a place in a line, and returns where it ends;
// its last word continues for more characters.
func wrapText(text string, at, more, width int, hang string) (string, int) {
	if width <= len(hang)+minWrapped {
		return text, 0
	}
	var b strings.Builder
	words := strings.Split(text, " ")
	for i, word := range words {
		first, _, _ := strings.Cut(word, "\n")
		size := utf8.RuneCountInString(first)
		if i == len(words)-1 {
			size += more
		}
		if i > 0 && at+1+size > width && at > len(hang) {
			b.WriteString("\n" + hang)
			at = len(hang)
		} else if i > 0 {
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		if end := strings.LastIndexByte(word, '\n'); end >= 0 {
			at, word = 0, word[end+1:]
		}
		at += utf8.RuneCountInString(word)
	}
	return b.String(), at
}

// minWrapped is how much of a line is left for words at least: on less, the terminal breaks lines.
const minWrapped = 20

// Wrap returns a text for a terminal of that width, 0 if that is not known, each line behind an indent.
func Wrap(text, indent string, width int) string {
	text, _ = wrapText(text, len(indent), 0, width, indent)
	return indent + text
}

// Fit returns what breaks a text that begins at a column of w, if that is a terminal. It continues below
// itself, or further left where too little of the line would remain.
func Fit(w io.Writer) func(text string, column int) string { return fitInto(Width(w)) }

func fitInto(width int) func(text string, column int) string {
	return func(text string, column int) string {
		hang := column
		if width <= hang+minWrapped {
			hang = 4
		}
		text, _ = wrapText(text, column, 0, width, strings.Repeat(" ", hang))
		return text
	}
}

// end makes the text.
func (l *line) end() {
	for i, p := range l.parts {
		if i == len(l.parts)-1 {
			p.text = strings.TrimRight(p.text, " ")
		}
		if l.colours && p.colour != "" && p.text != "" {
			l.text.WriteString(p.colour + p.text + reset)
		} else {
			l.text.WriteString(p.text)
		}
	}
	l.text.WriteByte('\n')
}
