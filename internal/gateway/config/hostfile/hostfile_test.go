package hostfile_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config/hostfile"
)

func host(t *testing.T, name string) *hostfile.Host {
	t.Helper()
	h, err := hostfile.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func write(t *testing.T, file, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func always(string) bool { return true }
func never(string) bool  { return false }

func TestServersOfAHostMeanTheSameInOurFile(t *testing.T) {
	t.Setenv("TOKEN_HERE", "canary")
	t.Setenv("DRAGOMAN_INPUT_KEY", "from-input")
	for name, test := range map[string]struct {
		file, text string
		want       []string // lines of our file
	}{
		"gemini": {"x.json", `{"mcpServers": {"a b": {"httpUrl": "https://h/mcp", "timeout": 600000, "headers": {"X": "$TOKEN_HERE"}}, "old": {"url": "https://h/events", "excludeTools": ["x"]}}}`,
			[]string{"a-b:", "timeout: 10m", "X: ${TOKEN_HERE}", "transport: http", "transport: sse", "exclude: [x]"}},
		"vscode": {".vscode/mcp.json", `{"inputs": [{"id": "key", "type": "promptString"}, {"id": "d", "default": "def"}], // x
			"servers": {"a": {"type": "stdio", "command": "${workspaceFolder}/run", "args": ["${input:d}"], "env": {"K": "${input:key}", "E": "${env:TOKEN_HERE}"}}}}`,
			[]string{"/run", "${DRAGOMAN_INPUT_D:-def}", "K: ${DRAGOMAN_INPUT_KEY}", "E: ${TOKEN_HERE}"}},
		"codex": {"config.toml", "[mcp_servers.a]\nurl = \"https://h/mcp\"\nbearer_token_env_var = \"TOKEN_HERE\"\ntool_timeout_sec = 90\nenabled = false\n",
			[]string{"Authorization: Bearer ${TOKEN_HERE}", "timeout: 1m30s", "disabled: true"}},
		"cline":    {"cline_mcp_settings.json", `{"mcpServers": {"a": {"command": "./run", "timeout": 60, "disabled": false}}}`, []string{"timeout: 1m", "command: "}},
		"opencode": {"opencode.json", `{"mcp": {"a": {"type": "local", "command": ["run", "x"], "environment": {"T": "{env:TOKEN_HERE}"}}}}`, []string{"args: [x]", "T: ${TOKEN_HERE}", "command: run"}},
	} {
		t.Run(name, func(t *testing.T) {
			theirs := write(t, filepath.Join(t.TempDir(), test.file), test.text)
			ours := filepath.Join(t.TempDir(), "dragoman.yaml")
			im, err := host(t, name).ImportFrom(theirs, ours, nil, never, never)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range test.want {
				if !strings.Contains(string(im.After), want) {
					t.Errorf("%q is missing in\n%s", want, im.After)
				}
			}
			if _, err := im.Write(); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(ours); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
			// What they say of each server is what ours says: it was there before.
			want, _ := config.Load(nil, theirs)
			got, report := config.Load(nil, ours)
			for _, name := range want.Names {
				a, b := want.Servers[name], got.Servers[name]
				if b == nil || a.Command != b.Command || a.URL != b.URL || a.Timeout != b.Timeout || a.Transport != b.Transport || a.Disabled != b.Disabled ||
					strings.Join(a.Args, "|") != strings.Join(b.Args, "|") || len(a.Env) != len(b.Env) || a.Env["K"] != b.Env["K"] || a.Headers["Authorization"] != b.Headers["Authorization"] {
					t.Errorf("%s differs:\n%+v\n%+v\n%v", name, a, b, report)
				}
			}
		})
	}
}

func TestAnImportKeepsWhatIsThereAndHidesSecrets(t *testing.T) {
	dir := t.TempDir()
	theirs := write(t, filepath.Join(dir, "c.json"), `{"mcpServers": {
		"new": {"command": "x", "env": {"API_TOKEN": "canary-secret"}},
		"same": {"command": "y"},
		"other": {"command": "z"},
		"hollow": {"args": ["x"]},
		"back": {"command": "/opt/dragoman", "args": ["connect", "http://127.0.0.1:8808/mcp"]}}}`)
	const before = "# top\nservers:\n  same:\n    command: y # it\n\n  other: {url: http://h}\n# end\n"
	ours := write(t, filepath.Join(dir, "dragoman.yaml"), before)
	im, err := host(t, "claude").ImportFrom(theirs, ours, nil, never, never)
	if err != nil {
		t.Fatal(err)
	}
	diff, err := im.Diff()
	if err != nil || strings.Contains(diff, "canary") || !strings.Contains(diff, "+      API_TOKEN: ***") || !strings.Contains(diff, "\n # end") || strings.Contains(diff, "\n-") {
		t.Errorf("%v\n%s", err, diff)
	}
	notes := strings.Join(im.Notes, "\n")
	if strings.Contains(notes, "canary") || !strings.Contains(notes, "${API_TOKEN}") || !strings.Contains(notes, "back is left out") ||
		!strings.Contains(notes, "hollow is left out: it has neither a command nor a URL") {
		t.Error(notes)
	}
	if got := strings.Join(im.Added, " ") + "/" + strings.Join(im.Same, " ") + "/" + strings.Join(im.Kept, " "); got != "new/same/other" {
		t.Error(got)
	}
	backup, err := im.Write()
	if saved, _ := os.ReadFile(backup); err != nil || string(saved) != before || backup != ours+".bak" {
		t.Errorf("%s: %s, %v", backup, saved, err)
	}
	if im, err = host(t, "claude").ImportFrom(theirs, ours, []string{"other"}, never, always); err != nil || strings.Join(im.Replaced, " ") != "other" {
		t.Fatalf("%+v, %v", im, err)
	}
	if backup, err = im.Write(); err != nil || backup != ours+".bak.1" {
		t.Errorf("%s, %v", backup, err)
	}
	if _, err := im.Write(); err == nil || !strings.Contains(err.Error(), "changed meanwhile") {
		t.Errorf("a change that is made twice: %v", err)
	}
	if _, err := host(t, "claude").ImportFrom(theirs, theirs, nil, never, never); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Errorf("into a host's file: %v", err)
	}
}

func TestAnExportTouchesNothingElse(t *testing.T) {
	const before = "{\n\t// settings\n\t\"theme\": \"dark\",\n\t\"context_servers\": {\n\t\t\"a\": { \"command\": \"x\" }, // mine\n\t},\n}\n"
	file := write(t, filepath.Join(t.TempDir(), "settings.json"), before)
	zed := host(t, "zed")
	entry := zed.Bridge(hostfile.Entry{URL: "https://h/mcp"}, "/bin/dragoman", false)
	c, err := zed.ExportTo(file, "b", entry, never)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(); err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(file)
	if want := strings.Replace(before, "// mine\n", "// mine\n\t\t\"b\": {\n\t\t\t\"url\": \"https://h/mcp\"\n\t\t},\n", 1); string(got) != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	if c, err := zed.ExportTo(file, "b", entry, never); err != nil || !c.None() {
		t.Errorf("once more: %v", err)
	}
	if _, err := zed.ExportTo(file, "a", entry, never); err == nil || !strings.Contains(err.Error(), "with that name") {
		t.Errorf("a name that is taken: %v", err)
	}
	write(t, file, "{broken")
	if _, err := zed.ExportTo(file, "b", entry, always); err == nil {
		t.Error("a file that cannot be read is changed")
	}
	if _, err := hostfile.Find("cursr"); err == nil || !strings.Contains(err.Error(), "cursor") {
		t.Errorf("no such host: %v", err)
	}
}

func TestAnExportKeepsALink(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "settings.json"), "{}")
	link := filepath.Join(t.TempDir(), "settings.json")
	if err := os.Symlink(file, link); err != nil {
		t.Skip(err) // Windows has them for some users only
	}
	zed := host(t, "zed")
	c, err := zed.ExportTo(link, "b", zed.Bridge(hostfile.Entry{URL: "https://h/mcp"}, "/bin/dragoman", false), never)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "https://h/mcp") {
		t.Errorf("where it leads there is %s, %v", text, err)
	}
}

func TestAHostThatCannotUseTheURLStartsACommand(t *testing.T) {
	e := hostfile.Entry{URL: "https://h/mcp", Headers: map[string]string{"Authorization": "Bearer ${T}"}}
	got := host(t, "claude").Bridge(e, "/bin/dragoman", false)
	if line := strings.Join(got.Command, "|"); line != "/bin/dragoman|connect|--header|Authorization:Bearer ${T}|https://h/mcp" {
		t.Error(line)
	}
	if got := host(t, "cursor").Bridge(e, "/bin/dragoman", false); got.URL == "" {
		t.Errorf("Cursor is given %v", got.Command)
	}
	if got := host(t, "cursor").Bridge(e, "/bin/dragoman", true); got.URL != "" {
		t.Error("a command was wanted")
	}
	text, err := host(t, "cursor").Snippet("h", e)
	if err != nil || !strings.Contains(text, `"Authorization": "Bearer ${env:T}"`) {
		t.Errorf("%s, %v", text, err)
	}
}
