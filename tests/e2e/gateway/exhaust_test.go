//go:build unix

package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// TestS41_OutOfDescriptors has more clients than there are files. The gateway lives,
// says that a process cannot be started, and continues when they have left. Clients that
// come to its sockets meanwhile, HTTP or lines, are served then.
func TestS41_OutOfDescriptors(t *testing.T) {
	t.Parallel() // it mostly waits
	const files = 64
	prlimit, err := exec.LookPath("prlimit")
	if err != nil {
		t.Skip("there is no prlimit here")
	}
	j := newJournal(t)
	socket := filepath.Join(t.TempDir(), "lines")
	g := gatewaytest.Serve(t, &gatewaytest.Options{
		Config: asOne(child(t, fault.Legacy, j)),
		Flags:  []string{"--listen", "tcp:127.0.0.1:0", "--listen", "unix:" + socket},
		Launch: gatewaytest.Launch{Prefix: []string{prlimit, fmt.Sprintf("--nofile=%d:%d", files, files)}},
	})
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	echoes(ctx, t, enter(ctx, t, g, server, gatewaytest.HTTP, protocol.Modern), "before")
	// The connection of this one stays open, so its requests need no file here.
	f := &flood{T: t, ctx: ctx, web: gatewaytest.Lasting(t), url: g.URL(server, "mcp")}
	if status, _, body, err := f.send(http.MethodGet, "none", ""); status != http.StatusNotFound {
		t.Fatalf("a session that does not exist gets %d %s, error %v", status, body, err)
	}
	var conns []net.Conn
	for range 200 {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(g.Base, "http://"))
		if err != nil {
			break // the queue of the socket is full too
		}
		conns = append(conns, c)
		// Who has asked something may stay for long.
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	gatewaytest.Eventually(t, func() error {
		if n := gatewaytest.Files(g.PID()); n < files-1 {
			return fmt.Errorf("it has %d files open", n)
		}
		return nil
	})
	_, _, body, err := f.send(http.MethodPost, "", initialize)
	if err != nil {
		t.Fatal(err)
	}
	m, err := dragoman.Parse([]byte(body))
	if err != nil || !m.IsError() {
		t.Fatalf("without files for a process, initialize gets %s", body)
	}
	failed(t, m.RPCError(), protocol.CodeUnavailable, protocol.OutcomeNotSent)
	waiting := make(chan error, 2)
	for _, d := range []dragoman.Dialer{g.Lines(), &stdio.Address{Network: "unix", Address: socket}} {
		go func() { waiting <- echoesOnce(ctx, d) }() // ends with ctx
	}
	gatewaytest.Eventually(t, func() error {
		if n := strings.Count(g.Stderr(), "cannot accept clients"); n < 2 {
			return fmt.Errorf("%d of 2 sockets for lines cannot accept clients", n)
		}
		return nil
	})
	for _, c := range conns {
		_ = c.Close()
	}
	gatewaytest.Eventually(t, func() error {
		if g.Over() {
			t.Fatal("it has ended")
		}
		if status, body := g.Get("/healthz"); status != http.StatusOK {
			return fmt.Errorf("/healthz says %d %s", status, body)
		}
		return nil
	})
	for range cap(waiting) {
		if err := <-waiting; err != nil {
			t.Errorf("a client that had to wait for a file: %v", err)
		}
	}
	// A new session needs a new process, and gets it.
	echoes(ctx, t, enter(ctx, t, g, server, gatewaytest.HTTP, protocol.Legacy), "after")
}

// echoesOnce opens a conversation, in which it calls echo.
func echoesOnce(ctx context.Context, d dragoman.Dialer) error {
	c, err := gatewaytest.Dial(ctx, d, "guest", protocol.Modern)
	if err != nil {
		return err
	}
	defer c.Conn.Close()
	_, err = c.Tool(ctx, "echo", object{"text": "late"})
	return err
}

// TestS41_OutOfDisk has the state on a disk that is full. Everybody is served, and the
// gateway says what is wrong, not with each write, and when it is not any more.
func TestS41_OutOfDisk(t *testing.T) {
	t.Parallel() // it mostly waits
	dir := filepath.Join(t.TempDir(), "state")
	if err := mountSmall(t, dir); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	j := newJournal(t)
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{
		"state":   dir,
		"servers": object{server: child(t, fault.Legacy, j)},
	}})
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	c := enter(ctx, t, g, server, gatewaytest.HTTP, protocol.Legacy)
	if f := stateFailure(t, g); f != nil {
		t.Errorf("there is room, and the status says %+v", f)
	}
	fill(t, dir)
	for range 5 {
		// Progress makes the answer a stream, and the stream is logged.
		says(ctx, t, c, "notify", object{"n": gatewaytest.Few(4000)})
	}
	for i := range max(gatewaytest.Few(30), 5) {
		v := openSession(ctx, t, g, server)
		v.mustEcho(ctx, i+1)
	}
	echoes(ctx, t, c, "after all")
	fill(t, dir) // old events have gone meanwhile
	openSession(ctx, t, g, server)
	f := stateFailure(t, g)
	if f == nil || f.Writes == 0 || !strings.Contains(f.Error, "no space left") {
		t.Fatalf("there is no room, and the status says %+v", f)
	}
	if _, body := g.Get("/status"); !strings.Contains(body, "stateFailure") || strings.Contains(body, "no space left") {
		t.Errorf("there is no room, and everybody is told %s", body)
	}

	// With more room all is written again.
	if out, err := exec.CommandContext(ctx, "mount", "-o", "remount,size=64m", dir).CombinedOutput(); err != nil {
		t.Fatalf("the disk does not grow: %v: %s", err, out)
	}
	gatewaytest.Eventually(t, func() error {
		says(ctx, t, c, "notify", object{"n": 1})
		if f := stateFailure(t, g); f != nil {
			return fmt.Errorf("there is room, and the status says %+v", f)
		}
		return nil
	})
	gatewaytest.Eventually(t, func() error { // lines gather for a moment before they are written
		said := g.Stderr()
		told, over := strings.Count(said, "the state is not written"), strings.Count(said, "the state is written again")
		if told == 0 || told > 3 || over != told {
			return fmt.Errorf("it says %d times that the state is not written, and %d times that it is again", told, over)
		}
		return nil
	})
}

// fill takes all the room that there is on a disk.
func fill(t *testing.T, dir string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "filler"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// A failure is what the status says of a state that is not written.
type failure struct {
	Writes int
	Error  string
}

// stateFailure returns what the owner is told about the state. The package of the
// gateway is not imported: each server of these tests is the test binary, and would
// begin with all that the gateway needs.
func stateFailure(t *testing.T, g *gatewaytest.Gateway) *failure {
	t.Helper()
	code, body := g.Control("/status")
	var s struct{ StateFailure *failure }
	if err := json.Unmarshal([]byte(body), &s); code != http.StatusOK || err != nil {
		t.Fatalf("the status is %d %s: %v", code, body, err)
	}
	return s.StateFailure
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
		if err := gatewaytest.Until(5*time.Second, func() error { return exec.Command("umount", dir).Run() }); err != nil {
			t.Error(err)
		}
	})
	return nil
}
