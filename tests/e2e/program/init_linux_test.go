package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
)

// unshareHere returns the program that makes a process the first of a namespace.
func unshareHere(t *testing.T) string {
	t.Helper()
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip("unshare is not here")
	}
	if out, err := exec.CommandContext(t.Context(), unshare, "--pid", "--fork", "--mount-proc", "true").CombinedOutput(); err != nil {
		t.Skipf("no namespaces: %v %s", err, out)
	}
	return unshare
}

func TestProcessOneLeavesNoZombiesAndPassesStatusAndSignalsOn(t *testing.T) {
	t.Parallel()
	unshare := unshareHere(t)
	self := self(t)
	run := func(args ...string) (string, int) {
		cmd := exec.CommandContext(t.Context(), unshare, append([]string{"--pid", "--fork", "--mount-proc", "--kill-child"}, args...)...) //nolint:gosec // ours
		cmd.Env = environ(t, mainVariable+"=1", term.DebugVariable+"=")
		out, _ := cmd.CombinedOutput() // the status says it
		return string(out), cmd.ProcessState.ExitCode()
	}
	// The server leaves processes behind that have ended, and lists those that nobody has
	// waited for.
	const orphans = `for i in 1 2 3; do (setsid sh -c 'sleep 0.1 & exit' >/dev/null 2>&1 </dev/null &); done
sleep 1
for f in /proc/[0-9]*/stat; do read -r pid name state rest <"$f" && case "$state" in Z) echo "zombie $pid $name" >&2;; esac; done
echo "parent $PPID" >&2
exit 7`
	out, status := run(self, "run", "--listen", "127.0.0.1:0", "--", "sh", "-c", orphans)
	if status != term.ExitUnreachable || !strings.Contains(out, "exited with status 7") || strings.Contains(out, "parent 1\n") {
		t.Errorf("status %d:\n%s", status, out)
	}
	if strings.Contains(out, "zombie") {
		t.Errorf("zombies are left:\n%s", out)
	}
	if out, status := run(self, "version"); status != 0 || !strings.Contains(out, "dragoman") {
		t.Errorf("status %d: %s", status, out)
	}
	// A signal to process 1 ends it in good order.
	log := filepath.Join(t.TempDir(), "log")
	out, status = run("sh", "-c", `(until grep -q ready "$1"; do sleep 0.1; done; kill -TERM 1) 2>/dev/null & exec "$0" run --listen 127.0.0.1:0 2>"$1"`, self, log)
	if status != 0 {
		said, _ := os.ReadFile(log)
		t.Errorf("status %d:\n%s%s", status, out, said)
	}
}

// A terminal gives Ctrl-C to the group in its foreground. If process 1 were in that too, and
// passed it on, we would have it twice, which cuts requests that could still end.
func TestAsProcessOneTheTerminalIsOfWhoDoesTheWork(t *testing.T) {
	unshare := unshareHere(t)
	// The server says who is whose: the numbers in stat are those of its process, its parent,
	// its group, its session, its terminal, and the group in the foreground of that.
	const groups = `read -r pid name state gateway rest <"/proc/$PPID/stat" # its keeper's
read -r pid name state parent group session tty front rest <"/proc/$gateway/stat"
read -r pid name state parent first rest <"/proc/1/stat"
echo "first $first group $group front $front" >&2; cat >/dev/null`
	for name, terminal := range map[string]bool{"terminal": true, "pipe": false} {
		t.Run(name, func(t *testing.T) {
			v := openPty(t, 200)
			cmd := exec.CommandContext(t.Context(), unshare, "--pid", "--fork", "--mount-proc", "--kill-child", self(t), "run", "--listen", "127.0.0.1:0", "--", "sh", "-c", groups)
			cmd.Env = append(os.Environ(), mainVariable+"=1", term.DebugVariable+"=", "NO_COLOR=1", "TERM=xterm")
			cmd.Stderr = v.file
			if terminal {
				cmd.Stdin, cmd.SysProcAttr = v.file, &syscall.SysProcAttr{Setsid: true, Setctty: true}
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}()
			_, text, _ := strings.Cut(v.await(" front "), "first ")
			var first, group, front int
			if _, err := fmt.Sscanf("first "+text, "first %d group %d front %d", &first, &group, &front); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			if group == first || terminal && front != group {
				t.Errorf("process 1 is in group %d, ours is %d, and %d is in the foreground", first, group, front)
			}
		})
	}
}
