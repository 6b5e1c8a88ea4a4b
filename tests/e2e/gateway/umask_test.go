//go:build unix

package gateway

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/access/auth"
	"github.com/dragoman-mcp/dragoman/internal/gateway/store"
	"github.com/dragoman-mcp/dragoman/internal/observe/audit"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
)

// TestFilesAreOursAloneWhateverTheUmask has everything that writes files do so with an umask
// that takes nothing away.
func TestFilesAreOursAloneWhateverTheUmask(t *testing.T) {
	before := syscall.Umask(0)
	defer syscall.Umask(before)
	dir := filepath.Join(t.TempDir(), "ours")
	at := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(auth.AddToken(t.Context(), at("tokens/tokens.json"), &auth.Token{Name: "ci"}))
	log, err := audit.Open(at("audit/audit.log"), &audit.Options{})
	must(err)
	log.Record(audit.Event{})
	must(log.Close())
	records, err := store.Open(at("state"), nil)
	must(err)
	_, err = records.Put(t.Context(), "kind/key", []byte("{}"), 0)
	must(err)
	must(records.Close())
	events, err := eventlog.Open(at("events"), nil)
	must(err)
	_, err = events.Append(t.Context(), "stream", eventlog.End, []byte("{}"))
	must(err)
	must(events.Close())
	wantOurs(t, dir, 9)
}

// TestCommandsWriteWhatIsOursAloneWhateverTheUmask has the program listen on a socket, and add a
// token.
func TestCommandsWriteWhatIsOursAloneWhateverTheUmask(t *testing.T) {
	t.Parallel()                      // with a gateway of its own
	dir, err := os.MkdirTemp("", "k") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	open := gatewaytest.Launch{Prefix: []string{"sh", "-c", `umask 0; exec "$@"`, "sh"}}
	p := gatewaytest.Start(t, open, "token", "new", "--name", "ci", "--file", filepath.Join(dir, "new", "tokens.json"))
	if status := p.Wait(gatewaytest.Patience); status != 0 {
		t.Fatalf("it ends with status %d: %s", status, p.Stderr())
	}
	p = gatewaytest.Start(t, open, "run", "--listen", "unix:"+filepath.Join(dir, "socket"), "--", gatewaytest.Binary(t), "everything")
	p.Await("ready: ")
	wantOurs(t, dir, 3)
	p.Signal(syscall.SIGTERM)
	p.Wait(gatewaytest.Patience)
}

// wantOurs fails the test unless a directory has so many files, which nobody else can
// use.
func wantOurs(t *testing.T, dir string, least int) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		files++
		return err
	})
	if err != nil || files < least {
		t.Errorf("%d files, want %d at least; %v", files, least, err)
	}
}
