package gatewaytest

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// lines finds where a gateway takes lines.
var lines = regexp.MustCompile(`tcp:(127\.0\.0\.1:\d+) \(lines\)`)

// Lines returns how a client comes to a gateway that was started with
// "--listen tcp:127.0.0.1:0".
func (g *Gateway) Lines() dragoman.Dialer {
	g.t.Helper()
	found := lines.FindStringSubmatch(g.Await("ready: "))
	if found == nil {
		g.t.Fatalf("it does not say where it takes lines:\n%s", g.Stderr())
	}
	return &stdio.Address{Network: "tcp", Address: found[1]}
}

// Pipes returns what a program is started with whose standard input and output are
// pipes, and how one client comes to them when it has been started.
func Pipes(t testing.TB) (Launch, dragoman.Dialer) {
	t.Helper()
	dir, err := os.MkdirTemp("", "k") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	in, to := pipe(t)
	from, out := pipe(t)
	// Both end with the test, if not with the client or with the program.
	go func() {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(to, nc)
			_ = to.Close()
		}()
		_, _ = io.Copy(nc, from)
		_ = nc.Close()
	}()
	t.Cleanup(func() { _ = l.Close() })
	with := Launch{Files: []*os.File{in, out}, Prefix: []string{"/bin/sh", "-c", `exec "$@" <&3 >&4 3<&- 4>&-`, "sh"}}
	return with, dragoman.DialFunc(func(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
		_ = in.Close() // the program has them, and is to be the only one
		_ = out.Close()
		return (&stdio.Address{Network: "unix", Address: l.Addr().String()}).Dial(ctx, local)
	})
}

// pipe returns a pipe that is closed when the test is over.
func pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.Close()
		_ = w.Close()
	})
	return r, w
}
