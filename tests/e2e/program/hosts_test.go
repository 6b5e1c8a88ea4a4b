package program

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
)

// userAt makes a directory that of the user, and the one that we are in.
func userAt(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	setenv(t, "HOME", dir)
	setenv(t, "XDG_CONFIG_HOME", filepath.Join(dir, ".config"))
	setenv(t, "USERPROFILE", dir) // on Windows, as is the next
	setenv(t, "AppData", filepath.Join(dir, ".config"))
	setenv(t, "CODEX_HOME", "")
	t.Chdir(dir)
	return dir
}

func writeAt(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestServersGoFromAHostToTheGatewayAndTheGatewayToAHost(t *testing.T) {
	userAt(t)
	writeAt(t, ".cursor/mcp.json", `{"mcpServers": {"files": {"command": "npx", "env": {"API_TOKEN": "canary-1"}}}}`)
	shown, said, status := runMain(t, "", "import", "cursor")
	if status != 0 || !strings.Contains(shown, "+  files:") || strings.Contains(shown+said, "canary") || !strings.Contains(said, "${API_TOKEN}") || !strings.Contains(said, "--write") {
		t.Errorf("status %d\n%s\n%s", status, shown, said)
	}
	if _, err := os.Stat("dragoman.yaml"); err == nil {
		t.Error("it was written")
	}
	if _, said, status = runMain(t, "", "import", "cursor", "--write"); status != 0 || !strings.Contains(said, "dragoman.yaml is written") {
		t.Errorf("status %d\n%s", status, said)
	}
	if text, _ := os.ReadFile("dragoman.yaml"); !strings.Contains(string(text), "API_TOKEN: canary-1") {
		t.Errorf("it is\n%s", text)
	}
	if shown, said, status = runMain(t, "", "import", "cursor", "--write"); status != 0 || shown != "" || !strings.Contains(said, "needs no change") {
		t.Errorf("again: status %d\n%s\n%s", status, shown, said)
	}

	if shown, said, status = runMain(t, "", "export", "cursor", "files", "--write"); status != term.ExitOther || shown != "" || !strings.Contains(said, "--replace") {
		t.Errorf("a name that is taken: status %d\n%s\n%s", status, shown, said)
	}
	if shown, said, status = runMain(t, "", "export", "cursor", "files", "--write", "--replace"); status != 0 || strings.Contains(shown, "canary") ||
		!strings.Contains(shown, `+  "url": "http://127.0.0.1:8808/servers/files/mcp"`) || !strings.Contains(said, "mcp.json.bak") {
		t.Errorf("export: status %d\n%s\n%s", status, shown, said)
	}
	if backup, _ := os.ReadFile(".cursor/mcp.json.bak"); !strings.Contains(string(backup), "canary-1") {
		t.Errorf("kept is %s", backup)
	}
}

// What is exported for a host that only starts commands works when it is started.
func TestAnExportedCommandBringsTheServer(t *testing.T) {
	dir := userAt(t)
	at := startMain(t, "run", "--listen", "127.0.0.1:0").place("http://")
	if shown, said, status := runMain(t, "", "export", "claude", at, "--name", "all", "--write"); status != 0 {
		t.Fatalf("status %d\n%s\n%s", status, shown, said)
	}
	var file string // which is elsewhere on each system
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if filepath.Base(path) == "claude_desktop_config.json" {
			file = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// The host starts what stands there, and here that is a test; we read the same file.
	writeAt(t, file, strings.Replace(string(text), `"args"`, `"env": {"`+mainVariable+`": "1"}, "args"`, 1))
	out, said, status := runMain(t, "", "call", file+"#all", "echo", "text=hello")
	if status != 0 || !strings.Contains(out, "hello") {
		t.Errorf("status %d\n%s\n%s", status, out, said)
	}
}

func TestExportsThatCannotBeAreRefused(t *testing.T) {
	userAt(t)
	writeAt(t, "dragoman.yaml", "listen: 127.0.0.1:1234\nauth: {tokens: [abcdefghijklmnopqrstuvwxyz]}\nservers: {files: {command: x}}\n")
	writeAt(t, ".cursor/mcp.json", `{"mcpServers": {`)
	for _, test := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"export", "curser"}, term.ExitUsage, "cursor"},
		{[]string{"export", "cursor"}, term.ExitOther, ".cursor/mcp.json:1:"},
		{[]string{"export", "vscode", "flies"}, term.ExitUsage, `did you mean "files"`},
		{[]string{"export", "vscode", "-e", "A=b"}, term.ExitUsage, "-e is for"},
		{[]string{"export", "vscode", "a", "b"}, term.ExitUsage, "one can be named"},
		{[]string{"export", "claude", "--project"}, term.ExitOther, "no file for projects"},
		{[]string{"import", "claude"}, term.ExitOther, "name the file"},
	} {
		if out, said, status := runMain(t, "", test.args...); status != test.status || !strings.Contains(said, test.want) || out != "" {
			t.Errorf("%q: status %d, want %d\n%s\n%s", test.args, status, test.status, out, said)
		}
	}
	out, said, status := runMain(t, "", "export", "codex", "--print", "-H", "Authorization: Bearer ${T}")
	if status != 0 || said != "" || out != "[mcp_servers.dragoman]\nurl = \"http://127.0.0.1:1234/mcp\"\nbearer_token_env_var = \"T\"\n" {
		t.Errorf("status %d\n%s\n%s", status, out, said)
	}
	if _, said, _ := runMain(t, "", "export", "codex", "files", "--print"); !strings.Contains(said, "prove who they are") {
		t.Error(said)
	}
}
