package rawclient_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/inspect/rawclient"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

func TestProcessesAreStartedAheadOfTime(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "journal")
	pool := rawclient.NewPool(&stdio.Command{Path: "sh", Args: []string{"-c", `echo started >>"$0"; exec cat`, journal}})
	defer pool.Close()
	await := func(want int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			text, _ := os.ReadFile(journal) //nolint:gosec // ours; there is none at first
			if got := strings.Count(string(text), "started"); got == want {
				return
			} else if got > want || time.Now().After(deadline) {
				t.Fatalf("%d processes have been started, want %d", got, want)
			}
		}
	}
	pool.Expect(4)
	await(3)
	if _, err := pool.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(4)
	for range 3 { // and no more, since those were all that were expected
		if _, err := pool.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	await(4)
	if len(pool.Processes) != 4 {
		t.Errorf("%d processes are used", len(pool.Processes))
	}
}
