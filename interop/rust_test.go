//go:build npm && rust

package interop_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// connectRust connects a client of the Rust SDK. The tests build it, from the folder rust.
var connectRust = drive(nil, func(_ *testing.T, rev string, to []string) []string {
	return append([]string{filepath.Join("rust", "target", "debug", "client"), rev}, to...)
})

func buildRust(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "cargo", "build", "--locked", "--quiet")
	cmd.Dir = "rust"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cargo build: %v\n%s", err, out)
	}
}

func TestRustClientUsesServersOfBothEras(t *testing.T) {
	buildRust(t)
	for _, rev := range protocol.Revisions() {
		for _, server := range []protocol.Era{protocol.Modern, protocol.Legacy} {
			for _, way := range [][2]string{{"stdio", "http"}, {"http", "stdio"}} {
				t.Run(fmt.Sprintf("%s over %s to %s over %s", rev, way[0], server, way[1]), func(t *testing.T) {
					t.Parallel()
					s := crossGoServerOf(t, server, way[1])
					cross(t, s, s.meet(t, connectRust, way[0], rev))
				})
			}
		}
	}
}

// A gateway has a server of the other era at its own endpoint.
func TestRustClientUsesAGateway(t *testing.T) {
	buildRust(t)
	for _, rev := range []protocol.Revision{protocol.V20260728, protocol.V20251125} {
		t.Run(rev.String(), func(t *testing.T) {
			t.Parallel()
			s := crossGoServerOf(t, crossOther(rev.Era()), "stdio")
			url := serveFile(t, gatewayFile(t, ".mcp.json", object{"mcpServers": object{"go": s.configured()}}))
			cross(t, s, connectRust.open(t, []string{url + "/servers/go/mcp"}, s.says(), rev))
		})
	}
}
