package target_test

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/target"
)

func TestServersAreNamedAfterWhatTheyRun(t *testing.T) {
	for _, test := range []struct{ name, want string }{
		{"npx -y @modelcontextprotocol/server-everything@2026.8.31 stdio", "server-everything"},
		{"npx -y some-server@latest", "some-server"},
		{"uvx mcp-server-git --repository /x", "mcp-server-git"},
		{"node /srv/weather/dist/index.js", "weather"},
		{"node node_modules/@modelcontextprotocol/server-everything/dist/index.js", "server-everything"},
		{"python3 -m my_server", "my_server"},
		{"python3 server.py", "server"},
		{"uv run tool.py", "tool"},
		{"/usr/local/bin/mcp-thing --x", "mcp-thing"},
		{"docker run -i --rm mcp/github", "docker"},
		{"sh -c", "sh"},
		{"https://user:secret@mcp.example.com:8443/mcp?key=secret", "mcp-example-com"},
		{"ws://localhost:1/ws", "localhost"},
		{"http://[::1]:9/mcp", "1"},
		{"tcp:10.0.0.1:9", "10-0-0-1"},
		{"unix:/run/my.server.sock", "my-server"},
		{"unix:///run/a.sock:/mcp", "a"},
		{"http+unix:b.sock", "b"},
		{strings.Repeat("x", 100), strings.Repeat("x", 64)},
		{"...", "server"},
	} {
		got := ""
		if target.IsURL(test.name) {
			got = target.NameOfURL(test.name)
		} else {
			got = target.NameOfCommand(strings.Fields(test.name))
		}
		if got != test.want {
			t.Errorf("%s is called %q, want %q", test.name, got, test.want)
		}
	}
}
