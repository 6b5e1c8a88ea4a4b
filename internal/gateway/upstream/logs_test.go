package upstream

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

func TestC17_LogsKeepTheLastLinesWithoutSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := one(t, modernServer(), &config.Server{Env: map[string]string{"API_TOKEN": "very-secret-value"}})
		synctest.Wait()
		for n := range LogLines + 10 {
			(&output{up: u}).stderr(fmt.Sprintf("line %d with very-secret-value and Bearer abcdefghijklmnop", n))
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

func TestTheLastLineIsThatOfTheProcessThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := modernServer()
		u := one(t, f, nil)
		synctest.Wait()
		(&output{up: u}).stderr("of the first process")
		f.setMute(true)
		go func() { _ = u.Restart(t.Context()) }() // it comes up when the test is over, or not at all
		time.Sleep(2 * StartNotice)
		if got := u.Status().LastStderr; got != "" {
			t.Errorf("the last line is %q", got)
		}
		waited := false
		for _, line := range u.Logs() {
			waited = waited || strings.Contains(line.Text, "no answer yet")
			if strings.Contains(line.Text, "last line on its stderr") {
				t.Errorf("told of the second process: %s", line.Text)
			}
		}
		if !waited {
			t.Error("nobody was told that it is waited for")
		}
	})
}

func TestCallsAreCountedAsTheyAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := one(t, modernServer(), nil)
		synctest.Wait()
		p := u.Service().Requests()
		for _, method := range []string{protocol.MethodDiscover, protocol.MethodPing} {
			if _, err := ask(t.Context(), p, method, "{}"); err != nil {
				t.Fatal(err)
			}
		}
		if n := u.Status().Calls; n != 0 {
			t.Errorf("%d calls, before there was one", n)
		}
		echo(t, p)
		if n := u.Status().Calls; n != 1 {
			t.Errorf("%d calls, want one", n)
		}
	})
}

func TestOnlyTheOwnerIsToldWhichVariablesThereAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := modernServer()
		f.set(&stdio.ExitError{Command: "memory", Status: 1, Stderr: "no key", Withheld: []string{"SECRET_OF_OURS"}})
		u := one(t, f, nil)
		synctest.Wait()
		resp, err := ask(t.Context(), u.Service().Requests(), protocol.MethodListTools, "{}")
		told := fmt.Sprint(err)
		if resp != nil {
			told += string(resp.Bytes())
		}
		if !strings.Contains(told, "no key") || strings.Contains(told, "SECRET_OF_OURS") {
			t.Errorf("a caller is told %s", told)
		}
		if s := u.Status(); !strings.Contains(s.LastError, "; not passed on to it: SECRET_OF_OURS; to pass on: inherit: [SECRET_OF_OURS]") {
			t.Errorf("the owner is told %s", s.LastError)
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
		(&output{up: u}).stderr("one")
		synctest.Wait()
		(&output{up: u}).stderr("two")
		synctest.Wait()
		cancel()
		<-done
		if len(got) != before+2 || strings.Join(got[before:], " ") != "one two" {
			t.Errorf("followed %q", got)
		}
	})
}
