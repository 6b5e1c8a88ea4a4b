package target_test

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/target"
)

func TestShellThatRunsOneCommandIsNamedAfterThat(t *testing.T) {
	for script, want := range map[string]string{"npx -y some-server": "some-server", "exec uvx tool": "tool", "cd /srv && node x.js": "sh", "echo 'x y'": "sh", "": "sh"} {
		if got := target.NameOfCommand([]string{"sh", "-c", script}); got != want {
			t.Errorf("sh -c %q is called %q, want %q", script, got, want)
		}
	}
}

func TestLaunchersThatInstallAreKnown(t *testing.T) {
	for command, want := range map[string]bool{
		"npx -y x": true, "/usr/bin/uvx x": true, "env A=b npx x": true, "docker run x": true, "python3 -m x": false, "node x.js": false, "/opt/x": false, "": false,
	} {
		if got := target.Installs(strings.Fields(command)); got != want {
			t.Errorf("%s: %t, want %t", command, got, want)
		}
	}
}

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
		{"docker run -i --rm mcp/github", "github"},
		{"docker run -i --rm -e GITHUB_TOKEN --name x -v /a:/b ghcr.io/github/github-mcp-server:v1", "github-mcp-server"},
		{"podman run --env=A=b -i localhost:5000/x/weather@sha256:00", "weather"},
		{"docker", "docker"},
		{"npx --package @scope/pkg@1.2 other-bin", "pkg"},
		{"npx -y --package=@scope/pkg other-bin", "pkg"},
		{"npx -y @scope/pkg@1.2", "pkg"},
		{"/usr/bin/npx -y github:someone/weather-mcp#main", "weather-mcp"},
		{"npx.cmd -y pkg", "pkg"},
		{"uvx --from git+https://github.com/someone/weather.git weather-server", "weather"},
		{"uvx --python 3.12 mcp-server-git==1.0", "mcp-server-git"},
		{"uv run --directory /srv/weather server.py", "server"},
		{"uv tool run mcp-server-git", "mcp-server-git"},
		{"env A=b C=d npx -y pkg", "pkg"},
		{"env -u X /opt/mcp-thing", "mcp-thing"},
		{"env", "env"},
		{"timeout 10s nice -n 5 npx -y pkg", "pkg"},
		{"python3.12 -m my_server.main", "my_server-main"},
		{"python -u -W ignore weather.py", "weather"},
		{"node --import tsx /srv/weather/server.js", "weather"},
		{"node --env-file=.env build/cli.js", "cli"},
		{"java -jar /opt/weather.jar", "weather"},
		{"sh -c", "sh"},
		{"https://user:secret@mcp.example.com:8443/mcp?key=secret", "mcp-example-com"},
		{"ws://localhost:1/ws", "localhost"},
		{"http://[::1]:9/mcp", "localhost"},
		{"http://127.0.0.1:9/mcp", "localhost"},
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
