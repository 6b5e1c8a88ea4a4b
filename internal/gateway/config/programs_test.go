//go:build unix

package config_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
)

// programs makes a directory with executables, and returns it and options with it as PATH.
func programs(t *testing.T, names ...string) (string, *config.Options) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir, &config.Options{LookupEnv: func(name string) (string, bool) {
		value, ok := map[string]string{"PATH": ":.:" + dir, "SECRET": "canary"}[name]
		return value, ok
	}}
}

func TestS36_ProgramsAreFoundWhenTheFileIsRead(t *testing.T) {
	dir, opts := programs(t, "server", "own/server", "bin/tool", "helper")
	t.Chdir(filepath.Join(dir, "own")) // which PATH names, too
	f, report := config.Load(opts, write(t, "a.yaml", strings.ReplaceAll(`
servers:
  a: {command: server}
  b: {command: server, env: {PATH: "@/own"}}
  c: {command: ./tool, cwd: "@/bin"}
  d: {command: "@/server"}
  e: {command: missing}
  f: {url: "https://example.com", auth: {command: [helper, get]}}
  g: {url: "https://example.com", auth: {command: [missing]}}
  h: {command: server, disabled: true}
`, "@", dir)))
	if text := report.Error(); text != "" {
		t.Error(text)
	}
	for name, want := range map[string]string{"a": "@/server", "b": "@/own/server", "c": "@/bin/tool", "d": "@/server", "e": "", "f": "", "h": ""} {
		if got := f.Servers[name].Program; got != strings.ReplaceAll(want, "@", dir) {
			t.Errorf("the program of %s is %q, want %q", name, got, want)
		}
	}
	if got := f.Servers["f"].Auth.Command; !slices.Equal(got, []string{dir + "/helper", "get"}) {
		t.Errorf("the command for tokens is %q", got)
	}
}

func TestS36_ProgramsThatAreNotOnTheListAreErrorsOfTheirServers(t *testing.T) {
	dir, opts := programs(t, "bin/good", "bin/bad", "mcp/one", "bin/env")
	t.Chdir(dir)
	const servers = `
servers:
  good: {command: "@/bin/good"}
  bad: {command: "@/bin/bad"}
  one: {command: "@/mcp/one"}
  launcher: {command: "@/bin/env", args: [bad]}
  late: {command: not-there-yet}
  signed: {url: "https://example.com", auth: {command: ["@/bin/bad"]}}
  url: {url: "https://example.com"}
  off: {command: "@/bin/bad", disabled: true}
`
	for _, test := range []struct {
		commands string
		broken   string
	}{
		{"", ""},
		{"commands: {allow: [\"@/bin/good\", \"@/mcp/*\", \"@/bin/env\"]}", "bad launcher signed"},
		{"commands: [\"@/bin/*\"]", "one launcher"},
		{"commands: {allow: []}", "good bad one launcher signed"},
		{"commands: []", "good bad one launcher signed"},
	} {
		f, report := config.Load(opts, write(t, "a.yaml", strings.ReplaceAll(test.commands+servers, "@", dir)))
		if got := strings.Join(f.Broken, " "); got != test.broken || report.Refused() != nil {
			t.Errorf("%s: broken are %s, want %s\n%s", test.commands, got, test.broken, report)
		}
		for _, name := range f.Broken {
			text := report.Of(name)
			if !strings.Contains(text, "servers."+name) || !strings.Contains(text, dir+"/") || !strings.Contains(text, "hint: ") || !strings.Contains(text, "a.yaml:") {
				t.Errorf("%s: %s", name, text)
			}
		}
		// What is not there when the file is read is checked when it is started.
		late := f.Servers["late"]
		if warned := strings.Contains(report.Error(), "servers.late"); warned != (test.commands != "") {
			t.Errorf("%s:\n%s", test.commands, report)
		}
		if err := late.Vet(&exec.Cmd{Path: dir + "/mcp/one"}); (err == nil) != (f.Servers["one"] != nil) {
			t.Errorf("%s: %v", test.commands, err)
		}
	}
}

func TestListOfProgramsOfALaterFileCounts(t *testing.T) {
	dir, opts := programs(t, "one", "two")
	first := write(t, "a.yaml", fmt.Sprintf("commands: [%q]\nservers: {one: {command: one}}\n", dir+"/*"))
	second := write(t, "b.yaml", fmt.Sprintf("commands: {allow: [%q]}\nservers: {two: {command: two}}\n", dir+"/two"))
	if f, _ := config.Load(opts, first, second); !slices.Equal(f.Broken, []string{"one"}) {
		t.Errorf("broken are %v", f.Broken)
	}
	// One that says nothing of it leaves it as it is.
	third := write(t, "c.yaml", "commands: {writable: true}\nservers: {three: {command: /bin/sh}}\n")
	if f, _ := config.Load(opts, first, second, third); !slices.Equal(f.Broken, []string{"one", "three"}) {
		t.Errorf("broken are %v", f.Broken)
	}
}

func TestListThatCannotBeReadAllowsNothing(t *testing.T) {
	for _, list := range []string{"allow:", "allow: [node]", `allow: ["/opt/**"]`, "allow: [\"/opt/[\"]", "allow: 7", "alow: [/bin/sh]", "allow: [\"\"]"} {
		_, report := config.Load(testOptions, write(t, "a.yaml", "commands:\n  "+list+"\nservers:\n  a: {command: sh}\n"))
		if report.Refused() == nil || !strings.Contains(report.Error(), "commands") {
			t.Errorf("%s is taken: %v", list, report)
		}
	}
}

func TestS36_ProgramsThatOthersMayReplaceAreErrorsOfTheirServers(t *testing.T) {
	dir, opts := programs(t, "open/server", "safe/server")
	if err := os.Chmod(filepath.Join(dir, "open"), 0o777); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(`
servers:
  absolute: {command: "@/open/server"}
  name: {command: server, env: {PATH: "@/open"}}
  passed: {command: server, env: {PATH: "@/open:@/safe"}}
  signed: {url: "https://example.com", auth: {command: ["@/open/server"]}}
  hidden: {command: "${SECRET:-x}/../../@/open/server", cwd: "/"}
`, "@", dir)
	f, report := config.Load(opts, write(t, "a.yaml", text))
	if got := strings.Join(f.Broken, " "); got != "absolute name signed hidden" {
		t.Errorf("broken are %s:\n%s", got, report)
	}
	for _, want := range []string{"everyone may write to " + dir + "/open", "commands.writable"} {
		if !strings.Contains(report.Of("absolute"), want) {
			t.Errorf("no %q in %s", want, report.Of("absolute"))
		}
	}
	if strings.Contains(report.Error(), "canary") {
		t.Errorf("a secret is shown: %s", report)
	}
	if got := f.Servers["passed"].Program; got != dir+"/safe/server" {
		t.Errorf("the program is %s", got)
	}
	f, report = config.Load(opts, write(t, "a.yaml", "commands: {writable: true}"+text))
	if f.Broken != nil || f.Servers["name"].Program != dir+"/open/server" || f.Servers["passed"].Program != dir+"/open/server" {
		t.Errorf("broken are %v:\n%s", f.Broken, report)
	}
}

func TestServerThatIsNotAllowedAnyMoreDoesNotGoOn(t *testing.T) {
	dir, opts := programs(t, "one", "two")
	before, _ := config.Load(opts, write(t, "a.yaml", "servers: {one: {command: one}, two: {command: two}}"))
	// Both have an error now, and the list has only one of them.
	after, _ := config.Load(opts, write(t, "a.yaml", fmt.Sprintf("commands: [%q]\nservers: {one: {command: one}, two: {comand: two}}", dir+"/two")))
	if !slices.Equal(after.Broken, []string{"one", "two"}) {
		t.Fatalf("broken are %v", after.Broken)
	}
	if got := after.Restore(before); !slices.Equal(got, []string{"two"}) {
		t.Errorf("restored are %v", got)
	}
	if err := after.Servers["two"].Vet(&exec.Cmd{Path: dir + "/one"}); err == nil {
		t.Error("what was restored goes by the list of before")
	}
	if err := before.Servers["two"].Vet(&exec.Cmd{Path: dir + "/one"}); err != nil {
		t.Error("the configuration before was changed")
	}
}

func TestConfinementIsChecked(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is none")
	}
	f, report := config.Load(testOptions, write(t, "a.yaml", `
servers:
  fine: {command: x, limits: {memory: 1GiB, processes: 50}, user: "12345:54321", sandbox: {read: [data, ~/x], write: [/tmp], network: false, optional: true}}
  empty: {command: x, sandbox: {}}
  who: {command: x, user: no-such-user}
  group: {command: x, user: "0:no-such-group"}
  url: {url: "https://example.com", sandbox: {}}
  words: {command: x, sandbox: {network: 7}}
  key: {command: x, sandbox: {reed: [/x]}}
  root: {command: x, cwd: /, sandbox: {}}
`))
	if got := strings.Join(f.Broken, " "); got != "who group words key" {
		t.Errorf("broken are %s:\n%s", got, report)
	}
	home, _ := os.UserHomeDir()
	s := f.Servers["fine"].Sandbox
	if !filepath.IsAbs(s.Read[0]) || s.Read[1] != filepath.Join(home, "x") || *s.Network || !s.Optional || f.Servers["fine"].Limits.Processes != 50 {
		t.Errorf("%+v", s)
	}
	if s := f.Servers["empty"].Sandbox; s == nil || s.Network != nil {
		t.Errorf("%+v", s)
	}
	for _, want := range []string{"no user \"no-such-user\"", "servers.url.sandbox means nothing", "sandbox.read[0] does not exist", "can read its directory"} {
		if !strings.Contains(report.Error(), want) {
			t.Errorf("nothing says %q:\n%s", want, report)
		}
	}
}
