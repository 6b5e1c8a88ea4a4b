package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// command runs a command in this process.
func command(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	c := root()
	var out, errs bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&errs)
	c.SetArgs(args)
	err = c.ExecuteContext(t.Context())
	return out.String(), err
}

func TestPolicyExplainsTheRuleThatDecides(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dragoman.yaml")
	text := `
auth: {tokens: 0123456789abcdef}
servers:
  files: {command: files-server}
rules:
  - allow token:ci tools read_* on files
  - allow group:dev if read-only
  - deny token:ci tools read_secret
  - allow token:ci resources file:///pub/* with docs
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args string
		want string
		ok   bool
	}{
		{"--as token:ci files/read_file", "allowed: tools/call read_file on files\nby: allow token:ci tools read_* on files\n", true},
		{"--as token:ci files/read_secret", "by: deny token:ci tools read_secret", false},
		{"--as token:ci files/write", "no rule allows it to token:ci\nrules about token:ci at files:\n  allow token:ci tools read_*", false},
		{"--as user:x@y --group dev --hint read-only files/stat", "by: allow group:dev if read-only", true},
		{"--as user:x@y --group dev files/stat", "denied", false},
		{"--as token:ci files resources/read file:///pub/a", "needs a token with docs", false},
		{"--as token:ci --scope docs files resources/read file:///pub/a", "allowed", true},
	} {
		out, err := command(t, append([]string{"policy", "explain", "-f", path}, strings.Fields(test.args)...)...)
		if !strings.Contains(out, test.want) || (err == nil) != test.ok {
			t.Errorf("%s: %s %v", test.args, out, err)
		}
	}
	for args, want := range map[string]string{
		"files/x":                            "--as",
		"--as token:ci nowhere/x":            `no server "nowhere"`,
		"--as token:ci x":                    "SERVER/TOOL",
		"--as token:ci --hint safe files/x":  "--hint safe",
		"--as token:ci --claim dept files/x": "NAME=VALUE",
	} {
		if _, err := command(t, append([]string{"policy", "explain", "-f", path}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestTokenCommandsMakeListAndRevoke(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.json")
	secret, err := command(t, "token", "new", "--name", "alice", "--scope", "x", "--group", "dev", "--expires", "90d", "--file", file)
	if err != nil || !strings.HasPrefix(secret, "dgm_") || len(strings.TrimSpace(secret)) < 40 {
		t.Fatalf("%q %v", secret, err)
	}
	list, err := command(t, "token", "list", "--file", file)
	if err != nil || !strings.Contains(list, "alice") || strings.Contains(list, strings.TrimSpace(secret)) {
		t.Errorf("%s %v", list, err)
	}
	for args, want := range map[string]string{
		"new --file " + file:                           "--name",
		"new --name alice --file " + file:              "revoke alice",
		"new --name bob --expires soon --file " + file: "--expires",
		"revoke bob --file " + file:                    "no token of the name",
	} {
		if _, err := command(t, append([]string{"token"}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
	if out, err := command(t, "token", "revoke", "alice", "--file", file); err != nil || !strings.Contains(out, "revoked alice") {
		t.Errorf("%s %v", out, err)
	}
}
