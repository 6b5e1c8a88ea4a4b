package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
)

// Each of these is wrong in a place near a secret, often so that the file cannot be
// parsed. The secret is the word canary.
func TestS56_A32_NoReportShowsASecret(t *testing.T) {
	for _, test := range []struct{ name, text string }{
		{"a.yaml", "servers:\n  a:\n    command: x\n    env:\n      K: canary\n     L: canary\n"},
		{"a.yaml", "servers:\n  a:\n    args:\n      - --token\n      - canary\n     - canary\n"},
		{"a.yaml", "servers:\n  a: {command: x, env: {K: canary, K: canary}}\n"},
		{"a.yaml", "servers:\n  a: {command: x, env: {K: canary}, wrong: 1, headers: {A: 'canary', B: \"canary\"}}\n"},
		{"a.yaml", "servers:\n  a: {command: x, headers: canary}\n"},
		{"a.yaml", "servers:\n  a: {command: x, env: [canary]}\n"},
		{"a.yaml", "servers:\n  a: {command: x, apiKey: canary, client_secret: canary}\n"},
		{"a.yaml", "servers:\n  a: {command: x, args: \"--api-key canary\"}\n"},
		{"a.yaml", "servers:\n  a: {command: \"x --password=canary\", timeout: 3}\n"},
		{"a.yaml", "servers:\n  a: {url: \"https://canary@example.com:x/?token=canary\"}\n"},
		{"a.yaml", "servers:\n  a: {url: \"https://example.com?token=x@canary\", timeout: 3}\n"},
		{"a.yaml", "servers:\n  a: {url: \"${SECRET_URL}\"}\n"},
		{"a.yaml", "servers:\n  a: {url: \"https://example.com\", proxy: \"ftp://u:canary@proxy\", timeout: 3}\n"},
		{"a.yaml", "servers:\n  a: {url: \"https://example.com\", auth: {tokenFile: f, command: [x, --token, canary]}, timeout: 3}\n"},
		{"a.yaml", "servers:\n  a: {command: x, timeout: \"${SECRET_URL}\", pool: \"${SECRET_URL}\", era: \"${SECRET_URL}\"}\n"},
		{"a.yaml", "servers:\n  a: {command: \"${SECRET_WORDS}\", url: 1}\n"},
		{"a.yaml", "auth: {tokens: [canary, 'canary b']}\n"},
		{"a.yaml", "servers:\n  a: {command: x, env: {K: |\n   canary\n  }}\n"},
		{"a.json", `{"mcpServers": {"a": {"command": "x", "args": ["--token", "canary"] "env": {"K": "canary"}}}}`},
		{"a.json", `{"mcpServers": {"a": {"command": "x", "env": {"K": canary}}}}`},
		{"a.json", `{"mcpServers": {"a": {"command": "x", "env": {"K": "canary}}}}`},
		{"a.json", `{"mcpServers": {"a": {"command": 'x', "env": {"url": "canary"}}}}`},
		{"a.json", `{"mcpServers": {"a": {"command": "x", "headers": {"Authorization": "Bearer canary\q"}}}}`},
		{"a.json", `{"mcpServers": {"a": {"command": "x", "args": ["--header", "X-Api-Key: canary"], "timeout": "x"}}}`},
		{"a.toml", "[mcp_servers.a]\nenv = { K = canary }\n"},
		{"a.toml", "[mcp_servers.a]\nenv = { K = \"canary\" } x\n"},
		{"a.toml", "[mcp_servers.a.env]\nK = 'canary\n"},
		{"a.toml", "[mcp_servers.a.env]\nK = \"canary\"\nK = \"canary\"\n"},
		{"a.toml", "[mcp_servers.a]\ncommand = 'x'\nhttp_headers = { A = \"canary\", B = 1, \"C D\" = \"canary\" }\ntimeout = 'x'\n"},
	} {
		lookup := func(name string) (string, bool) {
			v, ok := map[string]string{"SECRET_URL": "canary:canary", "SECRET_WORDS": "npx canary"}[name]
			return v, ok
		}
		_, report := config.Load(&config.Options{LookupEnv: lookup}, write(t, test.name, test.text))
		if report.Err() == nil {
			t.Errorf("%s: no error", test.text)
		}
		if text := report.Error(); strings.Contains(text, "canary") {
			t.Errorf("%s\nis reported as\n%s", test.text, text)
		}
	}
}

func TestExcerptOfALongLineShowsThePlace(t *testing.T) {
	text := `{"mcpServers": {"a": {"command": "x", "args": ["` + strings.Repeat("long ", 100) + `"], "wrong": 1, "env": {"B": "canary"}}}}`
	_, report := config.Load(nil, write(t, "a.json", text))
	if len(report.Warnings) != 1 {
		t.Fatal(report)
	}
	line, below, _ := strings.Cut(report.Warnings[0].Excerpt, "\n")
	caret := strings.IndexByte(below, '^')
	if runes := []rune(line); len(runes) > 120 || !strings.HasPrefix(string(runes[caret:]), `"wrong": 1, "env": {"B": ***}`) {
		t.Errorf("%s\n%s", line, below)
	}
}

func TestS56_ReportIsFitForATerminal(t *testing.T) {
	_, report := config.Load(nil, write(t, "a.json", "{\"servers\": {\"\\u001b[2J\\n{\": 1, \"a\x1b[2J\": 2}, \"b\\u0000\": 3}"))
	for _, c := range report.Error() {
		if c < ' ' && c != '\n' || c == 0x7f {
			t.Fatalf("%q", report.Error())
		}
	}
	if strings.Count(report.Error(), "error: ") != len(report.Errors) || len(report.Errors) == 0 {
		t.Errorf("%q", report.Error())
	}
}

// TestS27_NobodyNamedIsNobodyLetIn has lists of who may come in, and of what they may do,
// that are empty.
func TestS27_NobodyNamedIsNobodyLetIn(t *testing.T) {
	for name, text := range map[string]string{
		"no tokens":            "auth: {tokens: []}\n",
		"nothing at all":       "auth: {}\n",
		"nothing, in YAML":     "auth:\n",
		"a list of no tokens":  "auth: []\n",
		"no users":             "auth: {users: []}\n",
		"no issuers":           "auth: {jwt: []}\n",
		"no certificates":      "auth: {certificates: false}\n",
		"a file without name":  "auth: {tokenFile: \"\"}\n",
		"scopes of no token":   "auth: {scopes: [a]}\n",
		"an audience of none":  "auth: {audiences: [a]}\n",
		"no rules":             "rules: []\n",
		"rules of no mapping":  "rules:\n",
		"no rules, and tokens": "auth: {tokens: [a-token-of-some-length]}\nrules: []\n",
	} {
		file := filepath.Join(t.TempDir(), "dragoman.yaml")
		if err := os.WriteFile(file, []byte("servers: {a: {url: \"http://127.0.0.1:1/mcp\"}}\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, report := config.Load(nil, file); report.Err() == nil {
			t.Errorf("%s: %s is accepted", name, text)
		}
	}
}

func TestBrokenJSONShowsThePackageAndNoSecret(t *testing.T) {
	for _, test := range []struct{ text, shows string }{
		{"{\"mcpServers\": {\"a\": {\"command\": \"uvx\",\n\"args\": [\"mcp-server-time\" \"x\"]", `"args": ["mcp-server-time" "*"]`},
		{"{\"mcpServers\": {\"a\": {\"command\": \"npx\", \"args\": [\n\"-y\",\n\"@scope/server-files\" \"x\"]", ""},
		{"{\"mcpServers\": {\"a\": {\"command\": \"npx\", \"args\": [\n\"@scope/server-files\" \"x\"]", `"@scope/server-files"`},
		{"{\"mcpServers\": {\"a\": {\"args\": [\n\"--token\",\n\"canary-word\" \"x\"]", ""},
		{"{\"mcpServers\": {\"a\": {\"args\": [\"--token\", \"canary-word\" \"x\"]", ""},
		{"{\"auth\": {\"tokens\": [\n\"canary-word\" \"x\"]", ""},
		{"{\"auth\": {\"tokens\": [\"canary-word\" \"x\"]", ""},
	} {
		_, report := config.Load(nil, write(t, "a.json", test.text))
		if text := report.Error(); strings.Contains(text, "canary") || !strings.Contains(text, test.shows) {
			t.Errorf("%s\nis reported as\n%s", test.text, text)
		}
	}
}

func TestACommaThatOthersRefuseIsAWarning(t *testing.T) {
	const text = `{"servers": {"a": {"command": "x", "args": ["y",],},},}`
	for name, want := range map[string]int{"a.json": 1, "a.jsonc": 0} {
		file, report := config.Load(nil, write(t, name, text))
		if len(report.Errors) > 0 || len(report.Warnings) != want || file.Servers["a"] == nil {
			t.Errorf("%s: %v", name, report)
		}
	}
}
