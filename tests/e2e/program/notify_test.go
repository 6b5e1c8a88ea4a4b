//go:build unix

package program

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway"
)

// A serviceManager is the socket on which systemd hears how its services are.
type serviceManager struct {
	t    *testing.T
	conn *net.UnixConn
}

func newServiceManager(t *testing.T) *serviceManager {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify") // a short path: sockets have a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	setenv(t, "NOTIFY_SOCKET", path)
	return &serviceManager{t, conn}
}

// hears waits for one message.
func (m *serviceManager) hears(want string) {
	m.t.Helper()
	_ = m.conn.SetReadDeadline(time.Now().Add(soon))
	text := make([]byte, 4096)
	n, err := m.conn.Read(text)
	if err != nil || string(text[:n]) != want {
		m.t.Fatalf("the service manager hears %q, %v; want %q", text[:n], err, want)
	}
}

func TestServiceManagerHearsOfReadyReloadAndStop(t *testing.T) {
	t.Parallel()
	f := newFile(t, "servers: {one: "+child(t, "legacy")+"}\n")
	m := newServiceManager(t)
	p := startMain(t, "serve", f.path, "--listen", "127.0.0.1:0", "--no-watch")
	m.hears("READY=1")
	if status, _ := get(t, strings.TrimSuffix(p.place("http://"), gateway.MCPPath)+gateway.HealthPath); status != 200 {
		t.Errorf("it reports that it is ready, and /healthz answers %d", status)
	}
	f.write("servers: {}\n") // which is refused, and the gateway continues
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	m.hears("RELOADING=1")
	m.hears("READY=1")
	if status := p.stop(syscall.SIGTERM); status != 0 {
		t.Errorf("it ended with status %d", status)
	}
	m.hears("STOPPING=1")
}

func TestServiceManagerThatDoesNotListenIsLogged(t *testing.T) {
	t.Parallel()
	setenv(t, "NOTIFY_SOCKET", filepath.Join(t.TempDir(), "nobody"))
	p := startMain(t, "run", "--listen", "127.0.0.1:0")
	p.await("service manager cannot be told")
}
