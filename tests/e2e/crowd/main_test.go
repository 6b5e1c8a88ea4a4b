//go:build unix

package crowd

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// Environment of this test binary when it is started as a server of its own.
const (
	revisionVariable = "CROWD_REVISION" // what it speaks; if there is none, it runs the tests
	journalVariable  = "CROWD_JOURNAL"
)

func TestMain(m *testing.M) {
	stdio.Guard()
	name := os.Getenv(revisionVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	j := journal(os.Getenv(journalVariable))
	j.write("pid")
	if err := stdio.Serve(context.Background(), newJournalingServer(protocol.ParseRevision(name), j), nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// child is a server that runs as a child, one for each conversation.
func child(t *testing.T, r protocol.Revision, j journal) *stdio.Command {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &stdio.Command{
		Path: path, Grace: 500 * time.Millisecond,
		Env: []string{
			revisionVariable + "=" + r.String(), journalVariable + "=" + string(j),
			"GORACE=atexit_sleep_ms=0", // the race detector would hold up each exit by a second
		},
	}
}
