package tap

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/internal/util/pattern"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
)

// A Filter says what is shown. The zero value shows everything.
type Filter struct {
	Methods []string      // patterns; answers count by the methods of their requests
	Errors  bool          // what failed alone
	Slow    time.Duration // answers alone that took that long
}

// Shows reports whether an event is shown.
func (f *Filter) Shows(e *Event) bool {
	switch {
	case len(f.Methods) > 0 && !pattern.Any(f.Methods, e.Method),
		f.Errors && !e.Failed(),
		f.Slow > 0 && (!e.Answer || e.Took() < f.Slow):
		return false
	}
	return true
}

// A Printer shows events to people, a line each, without secrets.
type Printer struct {
	W      io.Writer
	Filter Filter
	Body   bool // the messages too
	Color  bool
	JSON   bool // for programs: each event as a JSON object in a line
}

// maxBody is how much of a message is shown.
const maxBody = 4 << 10

// Show shows an event, if the filter does not keep it back.
func (p *Printer) Show(e Event) error {
	if e.Dropped > 0 && !p.JSON {
		if _, err := fmt.Fprintf(p.W, "… %d messages are not shown: they came too fast\n", e.Dropped); err != nil {
			return err
		}
	}
	if !p.Filter.Shows(&e) {
		return nil
	}
	if !p.Body && !p.JSON {
		e.Message = nil // nobody sees it
	}
	e = e.Masked()
	if p.JSON {
		return writeLine(p.W, &e)
	}
	var b strings.Builder
	b.WriteString(p.line(&e) + "\n")
	if p.Body {
		for line := range strings.SplitSeq(body(&e), "\n") {
			b.WriteString("    " + line + "\n")
		}
	}
	_, err := io.WriteString(p.W, b.String())
	return err
}

// line returns an event in a line.
func (p *Printer) line(e *Event) string {
	arrow := "→"
	if e.From == Server {
		arrow = "←"
	}
	what := e.Method
	switch {
	case e.Text != "":
		what = "no message: " + e.Text
	case what == "" && e.Answer:
		what = "an answer"
	}
	parts := []string{e.Time.Local().Format("15:04:05.000"), arrow}
	if e.Server != "" {
		parts = append(parts, e.Server)
	}
	if e.ID != nil && string(e.ID) != "null" {
		parts = append(parts, "#"+strings.Trim(string(e.ID), `"`))
	}
	parts = append(parts, what)
	if e.Name != "" {
		parts = append(parts, e.Name)
	}
	if e.Answer && e.Method != "" { // or it answers nothing that we have seen
		parts = append(parts, humanize.Duration(e.Took()))
	}
	switch {
	case e.Code != 0:
		parts = append(parts, fmt.Sprintf("error %d: %s", e.Code, e.Error))
	case e.Error != "":
		parts = append(parts, "error: "+e.Error)
	}
	parts = append(parts, humanize.Bytes(int64(e.Size)))
	if e.Client != "" {
		parts = append(parts, "["+e.Client+"]")
	}
	text := redact.Printable(strings.Join(parts, "  "), "")
	if !p.Color {
		return text
	}
	color := "36" // what the client says
	switch {
	case e.Failed():
		color = "31"
	case e.From == Server:
		color = "32"
	}
	return strings.Replace(text, arrow, "\x1b["+color+"m"+arrow+"\x1b[0m", 1)
}

// body returns the message of an event over several lines, cut.
func body(e *Event) string {
	var b bytes.Buffer
	if e.Message == nil || json.Indent(&b, e.Message, "", "  ") != nil {
		return redact.Printable(e.Text, "\n")
	}
	text := b.String()
	if len(text) > maxBody {
		text = strings.ToValidUTF8(text[:maxBody], "") + "\n…"
	}
	return redact.Printable(text, "\n")
}

// A Recorder writes events down, a JSON object in each line.
type Recorder struct {
	W        io.Writer
	Unmasked bool // with their secrets
}

// Record writes an event down.
func (r *Recorder) Record(e Event) error {
	if !r.Unmasked {
		e = e.Masked()
	}
	return writeLine(r.W, &e)
}

// writeLine writes an event at once, so that a line is never cut by another.
func writeLine(w io.Writer, e *Event) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}
