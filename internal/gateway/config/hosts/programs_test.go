package hosts_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config/hosts"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config/syntax"
)

func TestFilesOfHostsLieWhereTheirSystemHasThem(t *testing.T) {
	none := func(string) string { return "" }
	linux := &hosts.Directories{OS: "linux", Home: "/home/ada", Config: "/home/ada/.config", Getenv: none, Project: "/p"}
	mac := &hosts.Directories{OS: "darwin", Home: "/Users/ada", Config: "/Users/ada/Library/Application Support", Getenv: none, Project: "/p"}
	windows := &hosts.Directories{OS: "windows", Home: "/c/ada", Config: "/c/ada/AppData/Roaming", Getenv: none, Project: "/p"}
	moved := &hosts.Directories{OS: "linux", Home: "/home/ada", Config: "/x", Project: "/p", Getenv: func(name string) string {
		return map[string]string{"CODEX_HOME": "/codex", "XDG_CONFIG_HOME": "/x"}[name]
	}}
	for _, test := range []struct {
		host    string
		d       *hosts.Directories
		project bool
		want    string
	}{
		{"claude", linux, false, "/home/ada/.config/Claude/claude_desktop_config.json"},
		{"Claude-Desktop", mac, false, "/Users/ada/Library/Application Support/Claude/claude_desktop_config.json"},
		{"claude", windows, false, "/c/ada/AppData/Roaming/Claude/claude_desktop_config.json"},
		{"claude", linux, true, ""},
		{"claude-code", linux, false, "/home/ada/.claude.json"},
		{"claude-code", linux, true, "/p/.mcp.json"},
		{"vscode", mac, false, "/Users/ada/Library/Application Support/Code/User/mcp.json"},
		{"vscode", mac, true, "/p/.vscode/mcp.json"},
		{"cursor", windows, false, "/c/ada/.cursor/mcp.json"},
		{"windsurf", linux, false, "/home/ada/.codeium/windsurf/mcp_config.json"},
		{"zed", mac, false, "/Users/ada/.config/zed/settings.json"},
		{"zed", windows, false, "/c/ada/AppData/Roaming/Zed/settings.json"},
		{"zed", moved, false, "/x/zed/settings.json"},
		{"gemini", linux, true, "/p/.gemini/settings.json"},
		{"codex", linux, false, "/home/ada/.codex/config.toml"},
		{"codex", moved, false, "/codex/config.toml"},
		{"cline", linux, false, "/home/ada/.config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"},
		{"opencode", mac, false, "/Users/ada/.config/opencode/opencode.json"},
		{"copilot", linux, false, "/home/ada/.copilot/mcp-config.json"},
	} {
		if got := filepath.ToSlash(hosts.Find(test.host).File(test.d, test.project)); got != test.want {
			t.Errorf("%s on %s: %s, want %s", test.host, test.d.OS, got, test.want)
		}
	}
}

// What is written for a host is read again as the same server.
func TestServersAreSpelledAsEachHostReadsThem(t *testing.T) {
	keys := hosts.Keys{File: []string{"servers"}, Server: []string{"command", "args", "env", "url", "headers", "transport", "disabled"}, Name: regexp.MustCompile(`^[a-z]+$`)}
	for _, p := range hosts.Programs() {
		for name, e := range map[string]*hosts.Entry{
			"command": {Command: []string{"npx", "-y", "a b"}, Env: map[string]string{"A": "1"}},
			"http":    {URL: "https://h/mcp", Headers: map[string]string{"X-A": "b"}},
			"sse":     {URL: "https://h/sse", SSE: true},
			"token":   {URL: "https://h/mcp", Headers: map[string]string{"Authorization": "Bearer ${TOKEN}"}},
		} {
			if !p.CanUse(e) {
				continue
			}
			file := "mcp.json"
			if p.ID == "codex" {
				file = "config.toml"
			}
			text, err := syntax.Put(file, nil, p.Root(nil), syntax.Member{Key: "it", Value: p.Spell(e)})
			if err != nil {
				t.Errorf("%s, %s: %v", p.ID, name, err)
				continue
			}
			src, err := syntax.Read(file, text)
			if err != nil {
				t.Fatal(err)
			}
			src.Report = func(p syntax.Problem) {
				if !p.Warning {
					t.Error(p.Message)
				}
			}
			servers := hosts.TranslateOf(src, keys, p).Servers("/p")
			if len(servers) != 1 {
				t.Fatalf("%s, %s: %d servers in\n%s", p.ID, name, len(servers), text)
			}
			s := servers[0].Value
			for key, want := range e.Headers {
				if got := s.Get("headers").Get(key); got == nil || got.Text != want {
					t.Errorf("%s, %s: header %s is missing in\n%s", p.ID, name, key, text)
				}
			}
			switch {
			case e.URL != "" && (s.Get("url") == nil || s.Get("url").Text != e.URL),
				e.Command != nil && (s.Get("command").Text != "npx" || len(s.Get("args").Items) != 2 || s.Get("env").Get("A").Text != "1"):
				t.Errorf("%s, %s: it is read as something else:\n%s", p.ID, name, text)
			}
		}
	}
	if hosts.Find("claude").CanUse(&hosts.Entry{URL: "https://h/mcp"}) || hosts.Find("zed").CanUse(&hosts.Entry{URL: "https://h", Headers: map[string]string{"A": "${B}"}}) {
		t.Error("a host is given what it cannot use")
	}
	text, _ := syntax.Put("a.toml", nil, []string{"mcp_servers"}, syntax.Member{Key: "it", Value: hosts.Find("codex").Spell(&hosts.Entry{
		URL: "https://h/mcp", Headers: map[string]string{"Authorization": "Bearer ${T}", "X-B": "${B}", "X-C": "c"},
	})})
	for _, want := range []string{`bearer_token_env_var = "T"`, `env_http_headers = { X-B = "B" }`, `http_headers = { X-C = "c" }`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
}
