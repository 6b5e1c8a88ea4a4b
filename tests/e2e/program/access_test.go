package program

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/cli"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// command runs a command in this process.
func command(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	c := cli.Root()
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
  - allow token:sub
  - deny token:sub methods resources/subscribe, prompts/list
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
		{"--as token:ci files tools/list", "allowed", true},
		{"--as token:ci files tools/list read_secret", "by: deny token:ci tools read_secret", false},
		{"--as token:ci files x-acme/admin", "no rule allows it", false},
		{"--as token:ci files tasks/get read_secret", "by: deny token:ci tools read_secret", false},
		{"--as token:sub files subscriptions/listen", "allowed", true},
		{"--as token:sub files subscriptions/listen file:///pub/a", "by: deny token:sub methods resources/subscribe", false},
		{"--as token:sub files prompts/list", "by: deny token:sub methods", false},
		{"--as token:sub files x-acme/admin", "by: allow token:sub", true},
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
		"--as token:ci files Tools/Call x":   `did you mean "tools/call"?`,
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

func TestRunLetsInByTheTokensOfAFileAsItChanges(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens.json")
	token := func(name string) string {
		out, err := command(t, "token", "new", "--name", name, "--file", file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	alice := token("alice")
	p := startMain(t, "run", "--listen", "127.0.0.1:0", "--listen", "unix:"+filepath.Join(t.TempDir(), "lines"), "--token-file", file)
	base := strings.TrimSuffix(p.place("http"), "/mcp")
	status := func(secret string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/status", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+secret)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if got := status("x"); got != http.StatusUnauthorized {
		t.Errorf("without a token: %d", got)
	}
	if got := status(alice); got != http.StatusOK {
		t.Errorf("with one: %d", got)
	}
	peertest.CheckEcho(t, &streamable.Client{URL: base + "/mcp", Header: http.Header{"Authorization": {"Bearer " + alice}}}, protocol.Modern)
	bob := token("bob")
	awaitStatus(t, "a new token counts", func() bool { return status(bob) == http.StatusOK })
	if _, err := command(t, "token", "revoke", "alice", "--file", file); err != nil {
		t.Fatal(err)
	}
	awaitStatus(t, "a revoked one does not", func() bool { return status(alice) == http.StatusUnauthorized })
	if got := status(bob); got != http.StatusOK {
		t.Errorf("the other one: %d", got)
	}
	if strings.Contains(p.said(), alice) || strings.Contains(p.said(), bob) {
		t.Error("a token is told")
	}
	if code := p.stop(os.Interrupt); code != 0 {
		t.Errorf("exit status %d: %s", code, p.said())
	}
}

// awaitStatus waits for what must be so soon.
func awaitStatus(t *testing.T, what string, is func() bool) {
	t.Helper()
	for limit := time.Now().Add(soon); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("timed out waiting for: %s", what)
		}
	}
}

func TestServeLetsInUsersOfThisMachineByTheirSockets(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the system does not say who is on the other side")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "dragoman.yaml")
	write := func(user string) {
		text := fmt.Sprintf("auth: {users: [%q]}\nlisten: [\"unix:%s\", \"http+unix:%s\"]\nservers:\n  a: {command: %q, args: [everything], inherit: [%s, %s, GORACE]}\nrules: [\"allow local:*\"]\n",
			user, filepath.Join(dir, "lines"), filepath.Join(dir, "http"), os.Args[0], mainVariable, markVariable)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(strconv.Itoa(os.Getuid()))
	p := startMain(t, "serve", path)
	p.await("serving")
	checkEchoAs(t, &stdio.Address{Network: "unix", Address: filepath.Join(dir, "lines")}, "a_echo")
	write("65533")
	awaitStatus(t, "a user who is not named is hung up on", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		conn, err := (&stdio.Address{Network: "unix", Address: filepath.Join(dir, "lines")}).Dial(ctx, nil)
		if err != nil {
			return true
		}
		defer conn.Close()
		_, err = conn.Call(ctx, peertest.Hello(t), nil)
		return err != nil
	})
	p.stop(os.Interrupt)
}

// checkEchoAs is checkEcho for a tool of another name.
func checkEchoAs(t *testing.T, dialer dragoman.Dialer, tool string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	conn, err := dialer.Dial(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	resp, err := conn.Call(ctx, peertest.Request(t, protocol.Modern, protocol.MethodCallTool, map[string]any{"name": tool, "arguments": map[string]string{"text": "hello"}}), nil)
	if err != nil || resp.IsError() {
		t.Errorf("%v %v", resp, err)
	}
}
