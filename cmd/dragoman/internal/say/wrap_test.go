package say

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestLinesOnATerminalAreBrokenBetweenWords(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		width int
		want  string
	}{
		{0, "15:04:05 warning: ready: http://127.0.0.1:8808/mcp (HTTP), standard input and output server=files\n"},
		{200, "15:04:05 warning: ready: http://127.0.0.1:8808/mcp (HTTP), standard input and output server=files\n"},
		{50, "15:04:05 warning: ready: http://127.0.0.1:8808/mcp\n         (HTTP), standard input and output\n         server=files\n"},
		{20, "15:04:05 warning: ready: http://127.0.0.1:8808/mcp (HTTP), standard input and output server=files\n"}, // too narrow
	} {
		var b strings.Builder
		h := &lineHandler{out: &b, level: slog.LevelInfo, width: func() int { return test.width }}
		r := slog.NewRecord(time.Date(2026, 7, 28, 15, 4, 5, 0, time.UTC), slog.LevelWarn, "ready: http://127.0.0.1:8808/mcp (HTTP), standard input and output", 0)
		r.AddAttrs(slog.String("server", "files"))
		if err := h.Handle(context.Background(), r); err != nil || b.String() != test.want {
			t.Errorf("%d: %v\n%swant\n%s", test.width, err, b.String(), test.want)
		}
	}
}

func TestColumnsFitIntoTheLinesOfATerminal(t *testing.T) {
	t.Parallel()
	rows := [][2]string{
		{"echo(text:str)", "Sends its text back, whatever it is and however long that may be."},
		{"search(query:str, limit:int?, language:str?)", "Looks for something, somewhere."},
	}
	for width, want := range map[int]string{
		0:  "echo(text:str)                                Sends its text back, whatever it is and however long that may be.\nsearch(query:str, limit:int?, language:str?)  Looks for something, somewhere.\n",
		40: "echo(text:str)  Sends its text back,\n                whatever it is and\n                however long that may\n                be.\nsearch(query:str, limit:int?,\n    language:str?)\n                Looks for something,\n                somewhere.\n",
	} {
		var b strings.Builder
		if err := columns(&b, rows, width); err != nil || b.String() != want {
			t.Errorf("%d: %v\n%swant\n%s", width, err, b.String(), want)
		}
	}
}

func TestTextsThatBeginAtAColumnGoOnBelowThemselves(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		width, column int
		want          string
	}{
		{0, 10, "one two three four five six seven"},
		{34, 10, "one two three four five\n          six seven"},
		{28, 10, "one two three four\n    five six seven"}, // too little would be left below it
		{30, 0, "one two three four five six\nseven"},
		{20, 0, "one two three four five six seven"}, // the terminal breaks it
	} {
		if got := fitInto(test.width)("one two three four five six seven", test.column); got != test.want {
			t.Errorf("%d of %d: %q, want %q", test.column, test.width, got, test.want)
		}
	}
}
