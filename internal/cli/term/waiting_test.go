package term

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/observe/logs"
)

// The reason why a call failed is shown whole, however narrow the terminal.
func TestReasonOfAFailedCallIsNeverCut(t *testing.T) {
	const reason = "the server exited with status 1: Error: the variable GITHUB_TOKEN is not set; set it with -e GITHUB_TOKEN"
	for _, width := range []int{40, 80, 120, 500} {
		var out bytes.Buffer
		h := &lineHandler{out: &out, level: slog.LevelInfo, width: func() int { return width }}
		slog.New(h).Warn(logs.CallRecord, "client", "claude", "server", "files", "method", "tools/call", "name", "read_file",
			"took", 34*time.Millisecond, "outcome", reason, "in", 100, "out", 0)
		got := out.String()
		if flat := strings.Join(strings.Fields(got), " "); !strings.Contains(flat, "files tools/call read_file 34ms") || !strings.Contains(flat, reason+" claude") {
			t.Errorf("%d: %s", width, got)
		}
		for line := range strings.Lines(got) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width {
				t.Errorf("%d: a line has %d characters: %s", width, n, line)
			}
		}
	}
}

func TestWaitIsReportedEveryTenSecondsWhereThereIsNoTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(&logs.Handler{Out: &out, Level: slog.LevelInfo, Duration: func(d time.Duration) string { return d.String() }})
		v := &Console{Level: &LogLevel{}, Log: log, own: log, byLine: true}
		w := NewWaiting(v, "files: connecting")
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if out.Len() > 0 {
			t.Errorf("after 9 s: %s", out.String())
		}
		time.Sleep(2 * time.Second)
		w.Stderr("\x1b[31mfetching with API_TOKEN=canary\x1b[0m")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		w.End()
		time.Sleep(time.Minute)
		var got []string
		for line := range strings.Lines(out.String()) {
			_, message, _ := strings.Cut(line, "msg=")
			got = append(got, strings.TrimSpace(message))
		}
		want := `["\"files: connecting: no answer after 10s\"" "\"files: connecting: no answer after 20s; last line on stderr: fetching with API_TOKEN=[redacted]\""]`
		if fmt.Sprintf("%q", got) != want {
			t.Errorf("got  %q\nwant %s", got, want)
		}
	})
}
