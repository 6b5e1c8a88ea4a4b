package term

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// A Writing is how results are written to standard output, where nothing else is.
type Writing struct {
	Format string
	Known  []string // what that may be; formats if nil
}

// Formats are what -o may be.
var Formats = []string{"text", "json", "ndjson"}

// Add adds the flag to those of a command.
func (o *Writing) Add(f *pflag.FlagSet) {
	f.StringVarP(&o.Format, "output", "o", "text", "how results are written: "+strings.Join(Formats, ", "))
}

// CheckFormat refuses a format that there is not.
func (o *Writing) CheckFormat() error {
	known := o.Known
	if known == nil {
		known = Formats
	}
	if !slices.Contains(known, o.Format) {
		return Usage("unknown output %q: use %s", o.Format, strings.Join(known, ", "))
	}
	return nil
}

// IsText reports whether people read the results.
func (o *Writing) IsText() bool { return o.Format == "text" }

// Value writes one value as JSON: over several lines for people, on one for programs that
// read line by line.
func (o *Writing) Value(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if o.Format == "json" {
		e.SetIndent("", "  ")
	}
	return e.Encode(v)
}

// List writes a list: as the member of an object, or each entry on a line of its own.
func (o *Writing) List(w io.Writer, name string, entries []json.RawMessage) error {
	if o.Format == "json" {
		if entries == nil {
			entries = []json.RawMessage{}
		}
		return o.Value(w, map[string]any{name: entries})
	}
	for _, entry := range entries {
		if err := o.Value(w, entry); err != nil {
			return err
		}
	}
	return nil
}

// Columns writes rows of two columns: what is long in the first takes a line of its own. On a
// terminal they fit into its lines.
func Columns(w io.Writer, rows [][2]string) error { return columns(w, rows, Width(w)) }

func columns(w io.Writer, rows [][2]string, screen int) error {
	width, most := 0, maxColumn
	if screen > 0 {
		most = min(most, screen/2)
	}
	for _, row := range rows {
		if n := len([]rune(row[0])); n <= most {
			width = max(width, n)
		}
	}
	for _, row := range rows {
		line, about := row[0], row[1]
		below := strings.Repeat(" ", width+2)
		if screen > 0 {
			line, _ = wrapText(line, 0, 0, screen, "    ")
			about, _ = wrapText(about, width+2, 0, screen, below)
		}
		if about != "" && len([]rune(row[0])) > most {
			line += "\n" + below + about
		} else if about != "" {
			line = fmt.Sprintf("%-*s  %s", width, row[0], about)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// maxColumn is how wide a first column is at most.
const maxColumn = 48

// Summary returns the first line of a text, cut to what fits behind a column on a
// terminal.
func Summary(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if runes := []rune(line); len(runes) > maxLine {
		return strings.TrimSpace(string(runes[:maxLine-1])) + "…"
	}
	return strings.TrimSpace(line)
}

// maxLine is how much of a description is shown.
const maxLine = 100

// Width returns how many characters fit into a line of a terminal, 0 if that is not known, or a
// writer is none.
func Width(w io.Writer) int {
	if s, ok := w.(*Screen); ok {
		w = s.File
	}
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _ := terminalWidth(f)
	return width
}

// ToTerminal reports whether a writer is a terminal.
func ToTerminal(w io.Writer) bool {
	switch w := w.(type) {
	case *os.File:
		return IsTerminal(w)
	case *Screen:
		return IsTerminal(w.File)
	}
	return false
}

// OrDash returns a cell of a table, which is never empty.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// AnyOf returns words as a choice: a, b or c.
func AnyOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
