package manager

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/config"
)

func TestC17_LogsKeepTheLastLinesWithoutSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := one(t, modernServer(), &config.Server{Env: map[string]string{"API_TOKEN": "very-secret-value"}})
		synctest.Wait()
		for n := range LogLines + 10 {
			u.stderr(nil, fmt.Sprintf("line %d with very-secret-value and Bearer abcdefghijklmnop", n))
		}
		lines := u.Logs()
		if len(lines) != LogLines || !strings.HasPrefix(lines[LogLines-1].Text, fmt.Sprintf("line %d ", LogLines+9)) || !strings.HasPrefix(lines[0].Text, "line 10 ") {
			t.Fatalf("%d lines, from %q to %q", len(lines), lines[0].Text, lines[len(lines)-1].Text)
		}
		for _, line := range append(lines, LogLine{Text: u.Status().LastStderr}) {
			if strings.Contains(line.Text, "very-secret") || strings.Contains(line.Text, "abcdef") {
				t.Fatalf("a secret is shown: %s", line.Text)
			}
		}
	})
}

func TestFollowTellsWhatWasAndWhatComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := one(t, modernServer(), nil)
		synctest.Wait()
		before := len(u.Logs())
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			u.Follow(ctx, func(l LogLine) { got = append(got, l.Text) })
		}()
		synctest.Wait()
		u.stderr(nil, "one")
		synctest.Wait()
		u.stderr(nil, "two")
		synctest.Wait()
		cancel()
		<-done
		if len(got) != before+2 || strings.Join(got[before:], " ") != "one two" {
			t.Errorf("followed %q", got)
		}
	})
}
