package logs_test

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/observe/logs"
)

// pair writes every record by both handlers.
type pair struct{ ours, theirs bytes.Buffer }

func (p *pair) loggers() (ours, theirs *slog.Logger) {
	opts := &slog.HandlerOptions{Level: slog.LevelDebug}
	return slog.New(&logs.Handler{Out: &p.ours, Level: slog.LevelDebug}), slog.New(slog.NewTextHandler(&p.theirs, opts))
}

type secret struct{}

func (secret) LogValue() slog.Value { return slog.StringValue("[redacted]") }

var now = time.Date(2026, 7, 28, 9, 30, 0, 5_000_000, time.FixedZone("", 7200))

func TestLinesAreThoseOfSlog(t *testing.T) {
	for name, log := range map[string]func(*slog.Logger){
		"plain":  func(l *slog.Logger) { l.Info("process started", "server", "files", "pid", 4711) },
		"levels": func(l *slog.Logger) { l.Log(t.Context(), slog.LevelWarn+1, "m"); l.Debug(""); l.Error("e") },
		"quotes": func(l *slog.Logger) {
			l.Info("a=b", "a b", "x\ny", "q", `"`, "eq", "=", "back", `\`, "empty", "", "", 1)
		},
		"unicode": func(l *slog.Logger) { l.Info("m", "a", "größe", "b", "\u2028", "c", "\xff", "d", "\u202e") },
		"kinds": func(l *slog.Logger) {
			l.Info("m", "b", true, "u", uint64(math.MaxUint64), "i", -3, "t", now, "u", now.UTC(), "later", now.Add(987*time.Millisecond), "s", now.Add(time.Second), "f", 1.5, "d", time.Minute)
		},
		"any": func(l *slog.Logger) {
			l.Info("m", "e", errors.New("it failed"), "n", nil, "l", []string{"a", "b"}, "bytes", []byte("x y"))
		},
		"marshaler": func(l *slog.Logger) { l.Info("m", "addr", netip.MustParseAddr("::1"), "s", secret{}) },
		"groups": func(l *slog.Logger) {
			l.Info("m", slog.Group("g", "a", 1, slog.Group("h", "b", 2)), slog.Group("none"), slog.Group("", "c", 3))
		},
		"with": func(l *slog.Logger) {
			l.With("a", 1).WithGroup("g").With("b", 2).WithGroup("").WithGroup("h").Info("m", "c", 3)
		},
		"empty": func(l *slog.Logger) { l.Info("m", slog.Attr{}, "a", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			var p pair
			ours, theirs := p.loggers()
			log(ours)
			log(theirs)
			if got, want := timeless(p.ours.Bytes()), timeless(p.theirs.Bytes()); !bytes.Equal(got, want) {
				t.Errorf("got  %swant %s", got, want)
			}
		})
	}
}

// timeless leaves the time at the beginning of lines out: the two did not log at once.
func timeless(text []byte) (out []byte) {
	for line := range bytes.Lines(text) {
		_, line, _ = bytes.Cut(line, []byte(" "))
		out = append(out, line...)
	}
	return out
}

func FuzzLinesAreThoseOfSlog(f *testing.F) {
	f.Add("msg", "key", "value")
	f.Add("", "a b", "\x00\u00a0")
	f.Fuzz(func(t *testing.T, msg, key, value string) {
		without := strings.NewReplacer("\x7f", "") // which is quoted here
		msg, key, value = without.Replace(msg), without.Replace(key), without.Replace(value)
		var p pair
		ours, theirs := p.loggers()
		for _, l := range []*slog.Logger{ours, theirs} {
			l.With(key, value).WithGroup(key).Info(msg, key, value)
		}
		if got, want := timeless(p.ours.Bytes()), timeless(p.theirs.Bytes()); !bytes.Equal(got, want) {
			t.Errorf("got  %swant %s", got, want)
		}
	})
}

func TestHandlerKeepsTheRulesOfSlog(t *testing.T) {
	var out bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		out.Reset()
		return &logs.Handler{Out: &out}
	}, func(t *testing.T) map[string]any {
		return parse(t, out.String())
	})
}

func TestDurationsAreWrittenAsWanted(t *testing.T) {
	var out bytes.Buffer
	slog.New(&logs.Handler{Out: &out, Duration: func(time.Duration) string { return "a while" }}).Info("m", "took", time.Second)
	if got := string(timeless(out.Bytes())); got != "level=INFO msg=m took=\"a while\"\n" {
		t.Errorf("%s", got)
	}
}

// parse reads a line.
func parse(t *testing.T, line string) map[string]any {
	t.Helper()
	top := make(map[string]any)
	for line != "" && line != "\n" {
		key, rest := word(t, line, '=')
		value, rest := word(t, rest, ' ')
		at, name := top, key
		for i := 0; i < len(name); i++ {
			if name[i] != '.' {
				continue
			}
			in, _ := at[name[:i]].(map[string]any)
			if in == nil {
				in = make(map[string]any)
				at[name[:i]] = in
			}
			at, name, i = in, name[i+1:], -1
		}
		at[name] = value
		line = rest
	}
	return top
}

// word returns what stands before end, without its quotes, and what follows.
func word(t *testing.T, text string, end byte) (word, rest string) {
	t.Helper()
	if text[0] == '"' {
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			t.Fatal(err)
		}
		word, _ = strconv.Unquote(quoted)
		return word, strings.TrimLeft(text[len(quoted):], "= \n")
	}
	i := strings.IndexAny(text, string(end)+"\n")
	return text[:i], text[i+1:]
}
