//go:build unix

package crowd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
)

// A journal is a file in which servers write down what they do, each line with
// the number of its process. It outlives them.
type journal string

// An entry is one line.
type entry struct {
	pid  int
	what string
}

// newJournal returns a journal of this test, at whose end no process may be left
// that has written in it.
func newJournal(t *testing.T) journal {
	j := journal(filepath.Join(t.TempDir(), "journal"))
	t.Cleanup(func() {
		for _, pid := range j.pids() {
			if err := gatewaytest.Until(patience, func() error { return gone(pid) }); err != nil {
				t.Error(err)
			}
		}
	})
	return j
}

func (j journal) write(what string) {
	f, err := os.OpenFile(string(j), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return // the reader will report it
	}
	_, _ = fmt.Fprintf(f, "%d %s\n", os.Getpid(), what)
	_ = f.Close()
}

// all returns what was written.
func (j journal) all() (all []entry) {
	text, _ := os.ReadFile(string(j)) // before the first entry there is no file
	for line := range strings.Lines(string(text)) {
		number, what, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if pid, err := strconv.Atoi(number); err == nil && ok {
			all = append(all, entry{pid, what})
		}
	}
	return all
}

// of returns who has written something, once for each time.
func (j journal) of(what string) (pids []int) {
	for _, e := range j.all() {
		if e.what == what {
			pids = append(pids, e.pid)
		}
	}
	return pids
}

// pids returns the children that have written anything.
func (j journal) pids() (pids []int) {
	for _, e := range j.all() {
		if e.pid != os.Getpid() && !slices.Contains(pids, e.pid) {
			pids = append(pids, e.pid)
		}
	}
	return pids
}

// ran fails the test unless a tool was run that often, by all servers together.
func (j journal) ran(t *testing.T, tool string, times int) {
	t.Helper()
	if got := len(j.of("run " + tool)); got != times {
		t.Errorf("%s was run %d times, want %d", tool, got, times)
	}
}

// kill kills the children there are, each with its process group, and returns
// their numbers. It returns when they are gone.
func (j journal) kill(t *testing.T) (killed []int) {
	t.Helper()
	for _, pid := range j.pids() {
		if gone(pid) != nil && syscall.Kill(-pid, syscall.SIGKILL) == nil {
			killed = append(killed, pid)
		}
	}
	if len(killed) == 0 {
		t.Fatal("there is no child to be killed")
	}
	for _, pid := range killed {
		if err := gatewaytest.Until(patience, func() error { return gone(pid) }); err != nil {
			t.Fatal(err)
		}
	}
	return killed
}

// gone returns an error as long as there is a process.
func gone(pid int) error {
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("process %d is still there", pid)
	}
	return nil
}
