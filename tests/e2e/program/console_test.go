package program

import (
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
)

func TestWithJSONThereIsNothingElseOnStandardError(t *testing.T) {
	t.Parallel()
	upstream := builtIn(t)
	f := newFile(t, "log: {format: json}\nservers:\n  good: "+child(t, "modern")+"\n  bad: {command: x, env: {A: \"${NOT_SET_ANYWHERE}\"}}\n")
	for name, args := range map[string][]string{
		"run":                 append([]string{"run", "--log-format", "json", "--cors", "--listen", "127.0.0.1:0"}, upstream...),
		"a server that fails": {"run", "--log-format=json", "--listen", "127.0.0.1:0", "--", "sh", "-c", "echo said >&2; exit 3"},
		"a wrong flag":        {"run", "--nope", "--log-format", "json"},
		"no such address":     {"run", "--log-format", "json", "--listen", "nowhere"},
		"status":              {"status", "--log-format", "json", "/nowhere.yaml"},
		"serve":               {"serve", f.path, "--listen", "127.0.0.1:0"},
	} {
		t.Run(name, func(t *testing.T) {
			p := startMain(t, args...)
			if name == "run" || name == "serve" {
				p.await(`"ready: `)
				_ = p.cmd.Process.Signal(syscall.SIGTERM)
			}
			p.wait()
			lines := 0
			for line := range strings.Lines(p.logged()) {
				lines++
				var r struct{ Time, Level, Msg string }
				if err := json.Unmarshal([]byte(line), &r); err != nil || r.Time == "" || r.Level == "" || r.Msg == "" {
					t.Errorf("not a record: %s", line)
				}
			}
			if lines == 0 {
				t.Error("it says nothing")
			}
		})
	}
}

func TestWithLevelNoneOnlyTheEndIsExplained(t *testing.T) {
	t.Parallel()
	_, stderr, status := runMain(t, "", "run", "--log-level", "none", "--listen", "127.0.0.1:0", "--", "sh", "-c", "echo said >&2; exit 3")
	if status == 0 || strings.Contains(stderr, "[sh]") || strings.Count(stderr, "dragoman: ") != 2 || !strings.Contains(stderr, "status 3") || !strings.Contains(stderr, "run with --debug") {
		t.Errorf("status %d, %q", status, stderr)
	}
}

func TestEveryLevelHasTheSameNamesInEveryCommand(t *testing.T) {
	t.Parallel()
	server := []string{"--", "sh", "-c", "echo said >&2; exit 3"}
	for _, command := range [][]string{
		{"run", "--log-level", "warn", "--port", "0"}, {"run", "--logLevel", "warn", "--port", "0"}, {"--log-level", "WARNING", "--port", "0"}, {"--logLevel=warn", "--port", "0"},
		{"connect", "--log-level", "warn"}, {"tools", "--log-level", "warn"},
	} {
		_, stderr, _ := runMain(t, "", append(command, server...)...)
		ended := command[0] == "connect" || strings.Contains(stderr, "status 3") // connect ends with its input
		if !ended || strings.Contains(stderr, "unknown") || strings.Contains(stderr, "use debug") {
			t.Errorf("%v says %q", command, stderr)
		}
	}
	for _, command := range [][]string{{"run"}, {"connect"}, {"tools"}} {
		_, stderr, status := runMain(t, "", append(append(command, "--log-level", "loud"), server...)...)
		if want := `unknown log level "loud": use debug, info, warn, error or none`; status != term.ExitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%v: status %d, %q", command, status, stderr)
		}
	}
}

func TestErrorOfAConfigurationIsOneRecord(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text    string
		want    []string // of the text format, without the time
		another string   // the last record, which is about the files as a whole
	}{
		"a server": {
			"servers:\n  a: {comand: x}\n",
			[]string{`level=ERROR msg="configuration error" file=FILE line=2 column=7 server=a error="unknown key \"comand\" in servers.a" hint="did you mean \"command\"?"`, `level=WARN msg="left out because of errors: a"`},
			"there is no server to serve",
		},
		"the whole file":  {"listen: [\n", []string{`level=ERROR msg="configuration error" file=FILE line=1 column=1 error="the file is not YAML: did not find expected node content"`}, ""},
		"several and all": {"servers: {}\nlog: 5\nnope: 1\n", []string{`line=2`, `line=3`}, "2 errors in "},
	} {
		path := writeConfig(t, "dragoman.yaml", test.text)
		for _, format := range []string{"text", "json"} {
			p := startMain(t, "serve", "--log-format", format, path)
			status, stderr := p.wait(), p.logged()
			lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
			want := test.want
			if test.another != "" {
				want = append(slices.Clone(want), test.another)
			}
			if status != 1 || len(lines) != len(want) {
				t.Errorf("%s, %s: status %d, %d records, want %d:\n%s", name, format, status, len(lines), len(want), stderr)
				continue
			}
			for i, line := range lines {
				var record map[string]any
				switch {
				case format == "text" && !strings.Contains(line, strings.ReplaceAll(want[i], "FILE", path)):
					t.Errorf("%s: got %s\nwant %s", name, line, want[i])
				case format == "json" && (json.Unmarshal([]byte(line), &record) != nil || record["msg"] == ""):
					t.Errorf("%s: got %s", name, line)
				case format == "json" && strings.Contains(want[i], "configuration error") && (record["msg"] != "configuration error" || record["file"] != path || record["line"] == nil || record["error"] == ""):
					t.Errorf("%s: got %s", name, line)
				}
			}
		}
	}
}
