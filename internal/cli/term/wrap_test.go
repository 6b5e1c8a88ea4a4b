package term

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
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

// checkLines looks whether lines fit into a terminal, unless they are a word that is longer, and are a
// text that is broken where it has spaces, and nowhere else.
func checkLines(t *testing.T, got, text, hang string, width int) {
	t.Helper()
	for line := range strings.Lines(got) {
		line = strings.TrimSuffix(line, "\n")
		if words := strings.Fields(line); utf8.RuneCountInString(line) > width && len(words) > 1 {
			t.Errorf("%d: this line is longer: %q", width, line)
		}
	}
	broken := strings.ReplaceAll(got, "\n"+hang, " ")
	if text = strings.ReplaceAll(text, "\n"+hang, " "); broken != text {
		t.Errorf("%d: the text becomes\n%q, want\n%q", width, broken, text)
	}
}

func TestErrorsOnATerminalAreBrokenBetweenWords(t *testing.T) {
	t.Parallel()
	f := &Failure{
		Status: ExitAuthorization, Err: errors.New("files: connection failed: the server answers 403 Forbidden: the scope files:write files:read is needed\nand a sécond line of it, with ünlike letters, that is långer than most of the terminals are"),
		Hint: "sign in: dragoman login https://mcp.example.com/a/long/path/mcp --scope files:write --scope files:read",
	}
	for _, width := range []int{0, 15, 21, 30, 57, 80, 300} {
		var b strings.Builder
		f.report(&b, width, false)
		text, hint, _ := strings.Cut(strings.TrimSuffix(b.String(), "\n"), "\nsign in")
		if "sign in"+hint != f.Hint {
			t.Errorf("%d: the hint, which is a command to copy, is %q", width, hint)
		}
		if want := "dragoman: " + f.Error(); width <= minWrapped {
			if text != want {
				t.Errorf("%d: got\n%s", width, text)
			}
		} else {
			checkLines(t, text, want, "", width)
		}
		b.Reset()
		f.report(&b, width, true)
		var told struct {
			Error struct{ Code, Message, Hint string }
		}
		if err := json.Unmarshal([]byte(b.String()), &told); err != nil || strings.Count(b.String(), "\n") != 1 || told.Error.Code != "authorization" || told.Error.Message != f.Error() || told.Error.Hint != f.Hint {
			t.Errorf("%d: %v, a program gets %s", width, err, b.String())
		}
	}
	var b strings.Builder
	f.report(&b, 40, false)
	const want = `dragoman: files: connection failed: the
server answers 403 Forbidden: the scope
files:write files:read is needed
and a sécond line of it, with ünlike
letters, that is långer than most of the
terminals are
sign in: dragoman login https://mcp.example.com/a/long/path/mcp --scope files:write --scope files:read
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestWhatIsLoggedOnATerminalIsBrokenBetweenWords(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 7, 28, 15, 4, 5, 0, time.UTC)
	said := slog.NewRecord(at, slog.LevelInfo, StderrRecord, 0)
	said.AddAttrs(slog.String("server", "files"), slog.String("line", "listening at /srv/data, which has a name that is not so long but continues"))
	failed := slog.NewRecord(at, slog.LevelError, "server is down, next attempt in 500ms", 0)
	failed.AddAttrs(slog.String("error", "the process has exited with status 1 and says: no such file or directory: /srv/data/of/somebody"), slog.String("server", "files"), slog.Duration("after", time.Second))
	for _, r := range []slog.Record{said, failed} {
		for _, colours := range []bool{false, true} {
			for _, width := range []int{30, 41, 60, 80, 120, 400} {
				write := func(width int) string {
					var b strings.Builder
					h := &lineHandler{out: &b, level: slog.LevelInfo, colours: colours, width: func() int { return width }}
					if err := h.Handle(context.Background(), r); err != nil {
						t.Fatal(err)
					}
					return strings.TrimSuffix(sequence().ReplaceAllString(b.String(), ""), "\n")
				}
				checkLines(t, write(width), write(0), hang, width)
			}
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
