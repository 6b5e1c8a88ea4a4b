//go:build unix

package gateway

import (
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/fault"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/tests/kit"
)

// TestS41_OutOfDescriptors has more clients than there are files. The gateway lives,
// and goes on when they have left.
func TestS41_OutOfDescriptors(t *testing.T) {
	prlimit, err := exec.LookPath("prlimit")
	if err != nil {
		t.Skip("there is no prlimit here")
	}
	j := newJournal(t)
	g := kit.Serve(t, &kit.Options{
		Config: object{"servers": object{server: child(t, fault.Legacy, j)}},
		Launch: kit.Launch{Prefix: []string{prlimit, "--nofile=64:64"}},
	})
	ctx := kit.Hurry(t, kit.Patience)
	echoes(ctx, t, enter(ctx, t, g, server, kit.HTTP, protocol.Modern), "before")
	var conns []net.Conn
	for range 200 {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(g.Base, "http://"))
		if err != nil {
			break // the queue of the socket is full too
		}
		conns = append(conns, c)
	}
	kit.Eventually(t, func() error {
		if n := kit.Files(g.PID()); n < 60 {
			return fmt.Errorf("it has %d files open", n)
		}
		return nil
	})
	for _, c := range conns {
		_ = c.Close()
	}
	kit.Eventually(t, func() error {
		if g.Over() {
			t.Fatal("it has ended")
		}
		if status, body := g.Get("/healthz"); status != http.StatusOK {
			return fmt.Errorf("/healthz says %d %s", status, body)
		}
		return nil
	})
	// A new session needs a new process, and gets it.
	echoes(ctx, t, enter(ctx, t, g, server, kit.HTTP, protocol.Legacy), "after")
}

// TestS41_OutOfDisk has the state on a disk that is full soon.
func TestS41_OutOfDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := mountSmall(t, dir); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	j := newJournal(t)
	g := kit.Serve(t, &kit.Options{Config: object{
		"state":   dir,
		"servers": object{server: child(t, fault.Legacy, j)},
	}})
	ctx := kit.Hurry(t, kit.Patience)
	c := enter(ctx, t, g, server, kit.HTTP, protocol.Legacy)
	for range 5 {
		// Progress makes the answer a stream, and the stream is logged.
		says(ctx, t, c, "notify", object{"n": 4000})
	}
	for i := range 30 {
		v := openSession(ctx, t, g, server)
		v.mustEcho(ctx, i+1)
	}
	echoes(ctx, t, c, "after all")
}

// mountSmall mounts a file system of 1 MiB until the end of the test.
func mountSmall(t *testing.T, dir string) error {
	t.Helper()
	mount := func(args ...string) error {
		out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	}
	if err := mount("mkdir", "-p", dir); err != nil {
		return err
	}
	if err := mount("mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", dir); err != nil {
		return err
	}
	t.Cleanup(func() {
		if err := kit.Until(5*time.Second, func() error { return exec.Command("umount", dir).Run() }); err != nil {
			t.Error(err)
		}
	})
	return nil
}
