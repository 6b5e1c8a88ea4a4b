package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// A writing is how results are written to standard output, where nothing else is.
type writing struct {
	format string
	known  []string // what that may be; formats if nil
}

// formats are what -o may be.
var formats = []string{"text", "json", "ndjson"}

func (o *writing) add(f *pflag.FlagSet) {
	f.StringVarP(&o.format, "output", "o", "text", "how results are written: "+strings.Join(formats, ", "))
}

func (o *writing) checkFormat() error {
	known := o.known
	if known == nil {
		known = formats
	}
	if !slices.Contains(known, o.format) {
		return usage("unknown output %q: use %s", o.format, strings.Join(known, ", "))
	}
	return nil
}

// isText reports whether people read the results.
func (o *writing) isText() bool { return o.format == "text" }

// value writes one value as JSON: over several lines for people, on one for programs that
// read line by line.
func (o *writing) value(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if o.format == "json" {
		e.SetIndent("", "  ")
	}
	return e.Encode(v)
}

// list writes a list: as the member of an object, or each entry on a line of its own.
func (o *writing) list(w io.Writer, name string, entries []json.RawMessage) error {
	if o.format == "json" {
		if entries == nil {
			entries = []json.RawMessage{}
		}
		return o.value(w, map[string]any{name: entries})
	}
	for _, entry := range entries {
		if err := o.value(w, entry); err != nil {
			return err
		}
	}
	return nil
}

// columns writes rows of two columns: what is long in the first takes a line of its own.
func columns(w io.Writer, rows [][2]string) error {
	width := 0
	for _, row := range rows {
		if n := len([]rune(row[0])); n <= maxColumn {
			width = max(width, n)
		}
	}
	for _, row := range rows {
		line := row[0]
		if row[1] != "" && len([]rune(row[0])) > maxColumn {
			line += "\n" + strings.Repeat(" ", width) + "  " + row[1]
		} else if row[1] != "" {
			line = fmt.Sprintf("%-*s  %s", width, row[0], row[1])
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// maxColumn is how wide a first column is at most.
const maxColumn = 48

// summary returns the first line of a text, cut to what fits behind a column on a
// terminal.
func summary(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if runes := []rune(line); len(runes) > maxLine {
		return strings.TrimSpace(string(runes[:maxLine-1])) + "…"
	}
	return strings.TrimSpace(line)
}

// maxLine is how much of a description is shown.
const maxLine = 100

// toTerminal reports whether a writer is a terminal.
func toTerminal(w io.Writer) bool {
	switch w := w.(type) {
	case *os.File:
		return isTerminal(w)
	case *screen:
		return isTerminal(w.file)
	}
	return false
}
