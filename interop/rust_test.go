//go:build npm && rust

package interop_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// rustClient is how clients of the Rust SDK are started. The tests build theirs, from the
// folder rust.
var rustClient = crossDriven(func(t *testing.T, rev protocol.Revision, to []string) []string {
	return append([]string{filepath.Join("rust", "target", "debug", "client"), rev.String()}, to...)
})

// A rust is a client in a conversation of a revision.
type rust struct {
	crossClient
	rev protocol.Revision
}

func (c rust) cannot(feature string) string {
	if strings.HasPrefix(feature, "elicitation") && !c.rev.HasElicitation() {
		return "the revision has no elicitation"
	}
	return ""
}

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
					c, notes := rustClient(t, s, way[0], rev)
					cross(t, s, rust{c, rev}, notes, rev)
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
			c := crossDrive(t, s, rev, []string{filepath.Join("rust", "target", "debug", "client"), rev.String(), url + "/servers/go/mcp"})
			cross(t, s, c, c.notes, rev)
		})
	}
}
