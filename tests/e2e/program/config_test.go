package program

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/util/jsonschema"
)

func writeConfig(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestS56_ConfigCheckSaysWhatThereIsWithoutSecrets(t *testing.T) {
	t.Parallel()
	setenv(t, "CHECK_TOKEN", "canary")
	path := writeConfig(t, ".mcp.json", `{"mcpServers": {
		"files": {"command": "npx", "args": ["-y", "server", "--token", "canary", "${CHECK_TOKEN}"], "env": {"T": "canary"}},
		"search": {"url": "https://example.com/mcp?key=canary", "headers": {"Authorization": "Bearer ${CHECK_TOKEN}"}},
		"off": {"url": "wss://example.com", "disabled": true, "autoApprove": []}
	}}`)
	stdout, stderr, status := runMain(t, "", "config", "check", path)
	want := "files   stdio        npx -y server --token *** ${CHECK_TOKEN}\n" +
		"search  http or sse  https://example.com/mcp?…\n" +
		"off     disabled     wss://example.com\n" +
		"3 servers, no errors\n"
	if status != 0 || stdout != want {
		t.Errorf("status %d, %q, want %q", status, stdout, want)
	}
	if !strings.Contains(stderr, `"autoApprove" means nothing here`) || strings.Contains(stdout+stderr, "canary") {
		t.Errorf("standard error: %s", stderr)
	}
}

func TestConfigCheckFailsOnErrors(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, "dragoman.yaml", "servers:\n  a: {comand: x}\n  b: {url: nowhere}\n")
	stdout, stderr, status := runMain(t, "", "config", "check", path)
	if status != 1 || stdout != "" {
		t.Errorf("status %d, standard output %q", status, stdout)
	}
	for _, want := range []string{path + ":2:7: error: unknown key", "      |       ^\n", `did you mean "command"?`, path + ":3:12: error: ", "dragoman: 2 errors in " + path} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in:\n%s", want, stderr)
		}
	}
}

func TestConfigCheckFindsTheFileOfTheDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, stderr, status := runMain(t, "", "config", "check"); status != 2 || !strings.Contains(stderr, "name a file") || !strings.Contains(stderr, "dragoman.yml") {
		t.Errorf("status %d, %q", status, stderr)
	}
	if err := os.WriteFile("dragoman.yml", []byte("servers: {a: {command: x}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if stdout, _, status := runMain(t, "", "config", "check"); status != 0 || !strings.HasSuffix(stdout, "1 server, no errors\n") {
		t.Errorf("status %d, %q", status, stdout)
	}
}

// What the schema accepts is read without errors, and what it refuses is an error.
func TestSchemaAndReaderAgree(t *testing.T) {
	t.Parallel()
	stdout, _, status := runMain(t, "", "config", "schema")
	if status != 0 || stdout != string(config.Schema()) {
		t.Fatalf("status %d, %.100s", status, stdout)
	}
	checker := &jsonschema.Checker{}
	for _, test := range []struct {
		text string
		good bool
	}{
		{`{}`, true},
		{`{"$schema": "x", "x-mine": 1, "listen": "127.0.0.1:1", "log": "debug", "state": "/x"}`, true},
		{`{"listen": ["127.0.0.1:1", {"address": "[::1]:2", "auth": "none"}]}`, true},
		{`{"servers": {"a": {"command": "x", "args": ["a", 1], "env": {"A": 1}, "timeout": "1m30s", "idleStop": "none", "limits": {"memory": "5MiB"}}}, "groups": {"g": ["a"]}}`, true},
		{`{"servers": {"a": {"url": "https://x", "transport": "http+sse", "pool": "${P:-1}", "lazy": true, "tools": {"timeout": {"a": "1s"}, "prefix": ""}}}}`, true},
		{`{"mcpServers": {"a": {"type": "stdio", "command": "x"}}}`, true},
		{`{"servers": {"a": {"command": "x", "url": "https://x"}}}`, false},
		{`{"servers": {"a": {}}}`, false},
		{`{"servers": {"a b": {"command": "x"}}}`, false},
		{`{"servers": {"a": {"command": "x", "timeout": 30}}}`, false},
		{`{"servers": {"a": {"command": "x", "timeout": "30 s"}}}`, false},
		{`{"servers": {"a": {"command": "x", "connectTimeout": "none"}}}`, false},
		{`{"servers": {"a": {"command": "x", "pool": -1}}}`, false},
		{`{"servers": {"a": {"command": "x", "lazy": "yes"}}}`, false},
		{`{"servers": {"a": {"command": "x", "era": "stone"}}}`, false},
		{`{"servers": {"a": {"command": "x", "comand": "x"}}}`, false},
		{`{"limits": {"message": "16M"}}`, false},
		{`{"listn": []}`, false},
	} {
		err := checker.Check(json.RawMessage(stdout), json.RawMessage(test.text))
		if (err == nil) != test.good {
			t.Errorf("schema: %s: %v", test.text, err)
		}
		_, report := config.Load(nil, writeConfig(t, "dragoman.json", test.text))
		if (report.Err() == nil) != test.good {
			t.Errorf("reader: %s: %v", test.text, report)
		}
	}
}

func TestConfigCheckKnowsTheVariablesOfAService(t *testing.T) {
	path := writeConfig(t, "dragoman.yaml", "servers: {a: {url: \"https://example.com/mcp\", headers: {Authorization: \"Bearer ${CHECK_SERVICE_TOKEN}\"}}}\n")
	if _, stderr, status := runMain(t, "", "config", "check", path); status != 1 || !strings.Contains(stderr, "CHECK_SERVICE_TOKEN") {
		t.Errorf("without the variable: status %d, %s", status, stderr)
	}
	vars := writeConfig(t, "environment", "# for the service\n; of systemd\nCHECK_SERVICE_TOKEN=\"canary\"\n")
	stdout, stderr, status := runMain(t, "", "config", "check", path, "--env-file", vars)
	if status != 0 || strings.Contains(stdout+stderr, "canary") {
		t.Errorf("with its file: status %d, %s%s", status, stdout, stderr)
	}
	bad := writeConfig(t, "bad", "A=b\ncanary\n")
	if _, stderr, status := runMain(t, "", "config", "check", path, "--env-file", bad); status != 1 || !strings.Contains(stderr, "line 2 of ") || strings.Contains(stderr, "canary") {
		t.Errorf("with a file that is none: status %d, %s", status, stderr)
	}
}

func TestConfigCheckAndServeEndAlike(t *testing.T) {
	t.Parallel()
	const servers = "servers:\n  a: {command: x}\n"
	for name, text := range map[string]string{
		"no server":                       "servers: {}\n",
		"other machines can reach it":     "listen: 0.0.0.0:0\n" + servers,
		"no certificate":                  "listen: [{address: '127.0.0.1:0', tls: {cert: none.pem, key: none.key}}]\n" + servers,
		"no file of tokens":               "listen: 127.0.0.1:0\nauth: {tokenFile: none.json}\n" + servers,
		"an address that is none":         "listen: nowhere\n" + servers,
		"a rule that is none":             "rules: [bogus]\n" + servers,
		"a server that cannot be read":    "servers:\n  a: {comand: x}\n",
		"a file that is no YAML":          "servers: [",
		"a level of the log that is none": "log: {level: loud}\n" + servers,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := writeConfig(t, "dragoman.yaml", text)
			_, checked, check := runMain(t, "", "config", "check", path)
			_, served, serve := runMain(t, "", "serve", path)
			if check == 0 || check != serve {
				t.Errorf("config check ends with %d, serve with %d:\n%s%s", check, serve, checked, served)
			}
		})
	}
	for _, args := range [][]string{{"http://127.0.0.1:1/mcp"}, {filepath.Join(t.TempDir(), "none.yaml")}} {
		_, _, check := runMain(t, "", "config", "check", args[0])
		_, _, serve := runMain(t, "", "serve", args[0])
		if check == 0 || check != serve {
			t.Errorf("%s: config check ends with %d, serve with %d", args[0], check, serve)
		}
	}
}
