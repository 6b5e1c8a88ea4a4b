package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
)

func TestLargeFilesAreReadWhole(t *testing.T) {
	const n = 1000
	var servers, broken strings.Builder
	servers.WriteString(`{"mcpServers": {`)
	broken.WriteString("servers:\n")
	for i := range n {
		fmt.Fprintf(&servers, "\"s%d\": {\"command\": \"x\", \"unknown\": 1},\n", i)
		fmt.Fprintf(&broken, "  s%d: {command: x}\n", i)
	}
	servers.WriteString("}}")
	broken.WriteString(" bad\n")
	path := write(t, "a.json", servers.String())
	f, report := load(t, path, path)
	if len(f.Names) != n || len(f.Servers) != n || len(report.Warnings) != config.MaxProblems {
		t.Errorf("%d names, %d servers, %d warnings", len(f.Names), len(f.Servers), len(report.Warnings))
	}
	// The YAML library names the line where the mapping begins, not that of the mistake.
	_, report = config.Load(nil, write(t, "b.yaml", broken.String()))
	if len(report.Errors) != 1 || report.Errors[0].Line != n+2 {
		t.Error(report)
	}
}
