package program

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/dragoman-mcp/dragoman/internal/gateway"
)

// What a server starts must not control the gateway, whatever it does to hide whose it is.
func TestControlSocketRefusesWhatTheGatewayHasStarted(t *testing.T) {
	t.Parallel()
	f := newFile(t, "")
	bin := programDirectory(t)
	for name, line := range map[string]string{
		"child":    `%s/dragoman status %s >%s 2>&1`,
		"detached": `(setsid env -i PATH=/usr/bin:/bin XDG_RUNTIME_DIR=$XDG_RUNTIME_DIR sh -c '%s/dragoman status %s >%s 2>&1' &)`,
	} {
		t.Run(name, func(t *testing.T) {
			said := filepath.Join(t.TempDir(), "said")
			line = fmt.Sprintf(line, bin, f.path, said)
			f.write(fmt.Sprintf("servers: {one: %s, spy: {command: /bin/sh, args: [-c, %q]}}", child(t, "modern"), line+"; cat >/dev/null"))
			p := startMain(t, "serve", f.path, "--listen", "127.0.0.1:0")
			ready(t, strings.TrimSuffix(p.place("http://"), gateway.MCPPath), "one")
			var text []byte
			for end := time.Now().Add(soon); len(text) == 0 || !strings.HasSuffix(string(text), "\n"); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the server has not asked")
				}
				text, _ = os.ReadFile(said)
			}
			if !strings.Contains(asRead(string(text)), "refuses processes that the gateway has started") {
				t.Errorf("the server was told\n%s", text)
			}
			if out, errs, status := runMain(t, "", "status", f.path); status != 0 || !strings.Contains(out, "one") {
				t.Errorf("the owner: status %d, %s%s", status, out, errs)
			}
			p.stop(os.Interrupt)
		})
	}
}

func TestServeNoticesThatItsLimitsWereLowered(t *testing.T) {
	t.Parallel()
	f := newFile(t, "servers: {one: "+child(t, "modern")+"}")
	p := startMain(t, "serve", f.path, "--listen", "127.0.0.1:0")
	ready(t, strings.TrimSuffix(p.place("http://"), gateway.MCPPath), "one")
	const setSize = syscall.RLIMIT_FSIZE
	limit := func(value *[2]uint64) (now [2]uint64) {
		if _, _, errno := syscall.Syscall6(syscall.SYS_PRLIMIT64, uintptr(p.cmd.Process.Pid), setSize, uintptr(unsafe.Pointer(value)), uintptr(unsafe.Pointer(&now)), 0, 0); errno != 0 {
			t.Fatal(errno)
		}
		return now
	}
	before := limit(nil)
	limit(&[2]uint64{0, before[1]}) // as a server without a sandbox could
	p.await("a resource limit of the gateway was lowered by another process")
	if now := limit(nil); now != before {
		t.Errorf("the limit is %v, it was %v", now, before)
	}
}
