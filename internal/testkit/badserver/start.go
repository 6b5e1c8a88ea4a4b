package badserver

import (
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/target"
)

// Command returns a bad server as a command, which is the test binary itself: Main must be called
// in its TestMain.
func Command(t *testing.T, d Defect) *target.Spec {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &target.Spec{Command: []string{self}, Env: Env(d)}
}

// Journal returns a bad server as a command that writes a journal: + when a process starts, m at its
// first message, - at its end. read returns what is in it.
func Journal(t *testing.T, d Defect) (spec *target.Spec, read func() string) {
	t.Helper()
	folder := t.TempDir()
	spec = Command(t, d)
	spec.Env = append(spec.Env, envFolder+"="+folder)
	return spec, func() string {
		text, err := os.ReadFile(filepath.Join(folder, "journal"))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
}

// Socket returns a bad server in this process, behind a socket that carries lines. It ends with
// the test.
func Socket(t *testing.T, d Defect) *target.Spec {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go Serve(l, d) // until the listener is closed
	return &target.Spec{URL: "tcp:" + l.Addr().String()}
}

// Web returns a bad server behind HTTP, which ends with the test.
func Web(t *testing.T, d Defect) *target.Spec {
	t.Helper()
	server := httptest.NewServer(Handler(d))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return &target.Spec{URL: server.URL + "/mcp"}
}
