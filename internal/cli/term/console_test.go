package term

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/observe/logs"
	"github.com/spf13/cobra"
)

func TestE07_LevelIsDecidedByFlagThenEnvironmentThenConfiguration(t *testing.T) {
	for _, test := range []struct {
		flags, env, file string
		want             slog.Level
	}{
		{"", "", "", slog.LevelInfo},
		{"--debug=false", "1", "debug", slog.LevelInfo},
		{"--debug", "", "", slog.LevelDebug},
		{"--debug", "0", "error", slog.LevelDebug},
		{"", "0", "debug", slog.LevelInfo},
		{"", "0", "error", slog.LevelError},
		{"", "true", "", slog.LevelDebug},
		{"", "", "debug", slog.LevelDebug},
		{"", "", "warn", slog.LevelWarn},
		{"", "", "none", LevelNone},
		{"--log-level error", "1", "debug", slog.LevelError},
		{"--log-level WARN --debug", "", "", slog.LevelWarn},
		{"--log-level none", "", "", LevelNone},
	} {
		t.Setenv(DebugVariable, test.env)
		v, err := ConsoleOf(speaking(t, test.flags), "", &config.File{Log: config.Log{Level: test.file}})
		if err != nil || v.Level.Level() != test.want {
			t.Errorf("%q, %q and %q in the file: %v, %v, want %v", test.flags, test.env, test.file, v, err, test.want)
		}
	}
	t.Setenv(DebugVariable, "maybe")
	if _, err := ConsoleOf(speaking(t, ""), "", nil); err == nil {
		t.Error("a variable that is neither yes nor no is accepted")
	}
	t.Setenv(DebugVariable, "")
	for flags, want := range map[string]string{
		"--log-level loud":   `unknown log level "loud": use debug, info, warn, error or none`,
		"--log-format runes": `unknown log format "runes": use auto, text or json`,
	} {
		if _, err := ConsoleOf(speaking(t, flags), "", nil); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", flags, err, want)
		}
	}
}

// speaking returns a command with those flags.
func speaking(t *testing.T, flags string) *cobra.Command {
	t.Helper()
	c := &cobra.Command{}
	AddConsoleFlags(c.Flags())
	c.Flags().Bool("debug", false, "")
	if err := c.ParseFlags(strings.Fields(flags)); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLinesOfATerminalAreShortAndAligned(t *testing.T) {
	var out bytes.Buffer
	h := &lineHandler{out: &out, level: &LogLevel{}, width: func() int { return 100 }}
	h.level.(*LogLevel).Set(slog.LevelDebug)
	log := slog.New(h)
	call := func(level slog.Level, server, name, outcome string, took time.Duration) {
		log.Log(t.Context(), level, logs.CallRecord, "client", "claude", "server", server, "method", "tools/call", "name", name,
			"took", took, "outcome", outcome, "in", 100, "out", 1234, "request", "x-1")
	}
	log.With("server", "files").Warn("server is down\x1b[2J", "error", "no such\nfile", "at", time.Duration(1234567890))
	call(slog.LevelInfo, "files", "read_file", "answered", 34*time.Millisecond)
	call(slog.LevelWarn, "search", "q", "tool error, slow", 12*time.Second)
	call(slog.LevelInfo, "files", strings.Repeat("long", 30), "answered", time.Second)
	log.Debug(logs.ToServer, "server", "files", "method", "ping", "id", "7", "bytes", 40, "json", strings.Repeat("x", 200))
	log.Info(StderrRecord, "server", "files", "line", "listening")
	log.WithGroup("a").With("b", 1).Debug("text", "c", 2)
	want := `warning: server is down�[2J server=files error="no such�file" at=1.2s
files        tools/call read_file                34ms   1.2 kB claude
search       tools/call q                         12s   1.2 kB tool error, slow claude
files        tools/call longlonglonglonglonglonglong…      1s   1.2 kB claude
files dragoman → server ping 40 B #7
         ` + strings.Repeat("x", 200) + `
[files] listening
text a.b=1 a.c=2
`
	var got strings.Builder
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, hang) {
			line = line[len("15:04:05 "):]
		}
		got.WriteString(line)
	}
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
	for line := range strings.Lines(out.String()) {
		if n := len([]rune(strings.TrimSpace(line))); n > 100 && strings.Contains(strings.TrimSpace(line), " ") {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	out.Reset()
	h.colours = true
	call(slog.LevelWarn, "files", "x", "slow", 0)
	if !strings.Contains(out.String(), yellow) || strings.Count(out.String(), "\x1b[")%2 != 0 {
		t.Errorf("in colours: %q", out.String())
	}
}

// A stuckReader is a file that nobody reads until free is closed.
type stuckReader struct {
	free chan struct{}
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *stuckReader) Write(text []byte) (int, error) {
	<-r.free
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(text)
}

func TestWhoSpeaksDoesNotWaitForWhoReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &stuckReader{free: make(chan struct{})}
		v := ConsoleOn(r)
		v.Out.left = func(lines int) { v.Log.Warn("left out", "lines", lines) }
		v.Out.Start()
		line := strings.Repeat("x", 1000)
		v.Printf("the first")
		time.Sleep(2 * gatherTime) // it is being written, and not read
		for range 3 * maxUnread / len(line) {
			v.Printf("%s", line)
		}
		close(r.free)
		time.Sleep(time.Second)
		v.Printf("the last")
		if err := v.Finish(nil); err != nil {
			t.Fatal(err)
		}
		text := r.text.String()
		if n := strings.Count(text, line); n == 0 || n > maxUnread/len(line)+2 {
			t.Errorf("%d lines were written", n)
		}
		if !strings.Contains(text, "warning: left out lines=") || !strings.HasSuffix(text, "the last\n") {
			t.Errorf("the end is %s", text[len(text)-200:])
		}
		v.Printf("afterwards")
		if !strings.HasSuffix(r.text.String(), "afterwards\n") {
			t.Error("what is said afterwards is lost")
		}
	})
}

func TestNobodyWaitsLongForWhoDoesNotReadTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &stuckReader{free: make(chan struct{})}
		v := ConsoleOn(r)
		v.Out.Start()
		v.Printf("unread")
		began := time.Now()
		_ = v.Finish(nil)
		v.Printf("unread too")
		if took := time.Since(began); took != lastWords {
			t.Errorf("it took %v", took)
		}
		close(r.free)
	})
}

func TestNothingIsLoggedToTheNullDevice(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if !isNull(null) || isNull(file) {
		t.Errorf("the null device is known: %v; a file is taken for it: %v", isNull(null), isNull(file))
	}
}
