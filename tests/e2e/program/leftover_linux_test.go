package program

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// marked returns the processes of a test that are still there.
func marked(t *testing.T, mark string) (list []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(env, []byte(markVariable+"="+mark+"\x00")) {
			continue // not ours, or gone meanwhile
		}
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		list = append(list, filepath.Dir(file)+" "+strings.ReplaceAll(string(command), "\x00", " "))
	}
	return list
}

// noneLeft waits until no process of the test is there.
func noneLeft(t *testing.T) {
	t.Helper()
	left := marked(t, t.Name())
	for end := time.Now().Add(soon); len(left) > 0 && time.Now().Before(end); left = marked(t, t.Name()) {
		time.Sleep(10 * time.Millisecond) // nothing tells when the keepers have ended
	}
	if len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestSignalEndsEveryProcess(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			p := startMain(t, append([]string{"run", "--pool", "2", "--listen", "127.0.0.1:0"}, builtIn(t, "--era", "legacy")...)...)
			mcp := p.place("http://")
			peertest.CheckEcho(t, &streamable.Client{URL: mcp}, protocol.Legacy)
			peertest.CheckEcho(t, &streamable.Client{URL: mcp}, protocol.Modern)
			got := marked(t, t.Name())
			for end := time.Now().Add(soon); len(got) < 3 && time.Now().Before(end); got = marked(t, t.Name()) {
				time.Sleep(10 * time.Millisecond) // the second server of the pool is started meanwhile
			}
			if len(got) < 3 {
				t.Fatalf("there are %q, want us and two servers at least", got)
			}
			if status := p.stop(signal); status != 0 && signal != syscall.SIGKILL {
				t.Errorf("it ends with status %d", status)
			}
			noneLeft(t)
		})
	}
}
