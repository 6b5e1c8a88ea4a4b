//go:build unix

package program

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
)

// socketsAt makes the directory of control sockets, and listens on one there.
func socketsAt(t *testing.T, mode os.FileMode) net.Listener {
	t.Helper()
	dir, err := os.MkdirTemp("", "") // a short path, as sockets want it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Setenv("XDG_RUNTIME_DIR", dir)
	own := filepath.Join(dir, "dragoman")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(own, "a.sock")) //nolint:noctx // it ends with the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if err := os.Chmod(own, mode); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestASocketThatOthersMayHaveMadeIsNotBelieved(t *testing.T) {
	l := socketsAt(t, 0o777)
	var asked atomic.Int32
	go func() { // ends with the listener
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { //nolint:gosec // a test
			asked.Add(1)
			_, _ = w.Write([]byte(`{"servers":[{"name":"files"}]}`))
		}))
	}()
	t.Chdir(t.TempDir())
	for _, args := range [][]string{{"tools", "files"}, {"status"}, {"__complete", "tools", ""}, {"__complete", "tools", "files", ""}} {
		out, said, status := runMain(t, "", args...)
		if complete := args[0] == "__complete"; asked.Load() > 0 || strings.Contains(out, "files") || !complete && (status == 0 || strings.Count(said, "others can use") != 1) {
			t.Errorf("%q: asked %d times, status %d\n%s\n%s", args, asked.Load(), status, out, said)
		}
	}
	if os.Getuid() != 0 {
		return
	}
	dir := filepath.Dir(l.Addr().String())
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if _, said, status := runMain(t, "", "tools", "files"); asked.Load() > 0 || status == 0 || !strings.Contains(said, "belongs to somebody else") {
		t.Errorf("status %d\n%s", status, said)
	}
}

func TestAHungGatewayDoesNotHoldUpOthers(t *testing.T) {
	socketsAt(t, 0o700) // nobody accepts there
	t.Chdir(t.TempDir())
	writeAt(t, "dragoman.yaml", "servers: {here: {command: "+self(t)+", args: [everything], env: {"+mainVariable+": '1'}}}\n")
	ctx, cancel := context.WithTimeout(t.Context(), soon) // a gateway that is asked to do something may take longer
	defer cancel()
	cmd := exec.CommandContext(ctx, self(t), "tools", "here")
	cmd.Env = append(os.Environ(), mainVariable+"=1", term.DebugVariable+"=")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "echo(") || !strings.Contains(string(out), "does not answer") {
		t.Errorf("%v\n%s", err, out)
	}
}
