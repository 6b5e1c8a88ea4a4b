//go:build npm

package interop_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// npmGatewayClients are the clients of other languages.
var npmGatewayClients = []struct {
	name    string
	rev     protocol.Revision
	connect connector
}{
	{"TypeScript 1", protocol.V20251125, connectTypeScript1},
	{"TypeScript 2", protocol.V20251125, connectTypeScript2},
	{"TypeScript 2", protocol.V20260728, connectTypeScript2},
	{"Python", protocol.V20251125, connectPython},
	{"Python", protocol.V20260728, connectPython},
}

// hostFile writes the file of a host with the reference server and one of the
// Python SDK, which is returned too.
func hostFile(t *testing.T) (string, *crossServer) {
	t.Helper()
	script, err := filepath.Abs(filepath.Join("py", "cross_server.py"))
	if err != nil {
		t.Fatal(err)
	}
	s := &crossServer{kind: "Python", transport: "stdio", journal: filepath.Join(t.TempDir(), "journal")}
	reference := npmServer(t)
	return gatewayFile(t, ".mcp.json", object{"mcpServers": object{
		"everything": object{"command": reference.Path, "args": reference.Args},
		"snake":      object{"command": python(t), "args": []string{script, "stdio"}, "env": object{crossJournal: s.journal}},
	}}), s
}

func TestNpmPipGatewayClientsUseTheServersOfAHostFile(t *testing.T) {
	t.Parallel()
	file, s := hostFile(t)
	url := serveFile(t, file)
	for _, client := range npmGatewayClients {
		t.Run(fmt.Sprintf("%s %s", client.name, client.rev), func(t *testing.T) {
			c := client.connect.open(t, []string{url + "/mcp"}, gatewayName, client.rev)
			names, err := c.tools(t.Context())
			if err != nil || !slices.Contains(names, "everything_echo") || !slices.Contains(names, "snake_echo") {
				t.Fatalf("tools: %q, %v", names, err)
			}
			cross(t, s, c.of("snake_", func(uri string) bool { return strings.HasPrefix(uri, "test://") }))
			t.Run("reference server", func(t *testing.T) { tryReference(t, c) })
		})
	}
}

// tryReference uses the reference server among all.
func tryReference(t *testing.T, c *session) {
	rows := npmTools()
	all := c.of("everything_", nil)
	for _, name := range []string{"get-sum", "get-tiny-image", "trigger-long-running-operation", "trigger-sampling-request", "trigger-elicitation-request"} {
		want := rows[name]
		if want.args == nil {
			want.args = object{}
		}
		callTool(t, all, name, want)
	}
	callTool(t, all, "echo", expected{args: object{"message": "some text"}, text: "some text", logs: -1})
}
