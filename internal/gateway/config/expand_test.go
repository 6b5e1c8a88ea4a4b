package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
)

func TestS56_C02_ReferencesAreReplacedOnce(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "value"), []byte("from ${API} file\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	for _, name := range []string{"HOME", "USERPROFILE", "home"} { // by system
		t.Setenv(name, home)
	}
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"API": "a", "EMPTY": "", "NESTED": "${API}", "DOLLAR": "$${API}", "DRAGOMAN_INPUT_MY_KEY_1": "in"}
	opts := &config.Options{LookupEnv: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
	for _, test := range []struct{ in, want string }{
		{"plain", "plain"},
		{"${API}", "a"},
		{"x${API}y${API}z", "xayaz"},
		{"${env:API}", "a"},
		{"${EMPTY}", ""},
		{"${NOPE:-d}", "d"},
		{"${NOPE:-}", ""},
		{"${NOPE:-a:b-c}", "a:b-c"},
		{"${EMPTY:-d}", "d"},
		{"${API:-d}", "a"},
		{"${env:NOPE:-d}", "d"},
		{"${NESTED}", "${API}"},
		{"${DOLLAR}", "$${API}"},
		{"${file:value}", "from ${API} file"},
		{"${file:" + filepath.ToSlash(dir) + "/value}", "from ${API} file"},
		{"${input:my-key.1}", "in"},
		{"$${API}", "${API}"},
		{"$API %API% {env:API} $ $$ ${API}}", "$API %API% {env:API} $ $$ a}"},
		{"${userHome}", home},
		{"${cwd}", cwd},
		{"${workspaceFolder}", dir},
		{"${workspaceFolderBasename}", filepath.Base(dir)},
		{"a${pathSeparator}b${/}c", "a" + string(filepath.Separator) + "b" + string(filepath.Separator) + "c"},
	} {
		path := filepath.Join(dir, "a.yaml")
		if err := os.WriteFile(path, fmt.Appendf(nil, "servers: {a: {command: x, args: [%q]}}", test.in), 0o600); err != nil {
			t.Fatal(err)
		}
		f, report := config.Load(opts, path)
		if report.Err() != nil || f.Servers["a"].Args[0] != test.want {
			t.Errorf("%s: %v %v, want %s", test.in, f.Servers["a"], report, test.want)
		}
	}
}

func TestLargeValueFileIsRefused(t *testing.T) {
	path := write(t, "big", strings.Repeat("x", config.MaxValueFile+1))
	for _, text := range []string{"args: [\"${file:" + path + "}\"]", "envFile: " + path} {
		_, report := config.Load(nil, write(t, "a.yaml", "servers: {a: {command: x, "+text+"}}"))
		if report.Err() == nil || !strings.Contains(report.Error(), "larger than 1048576 bytes") {
			t.Errorf("%s: %v", text, report)
		}
	}
}

func TestEnvFileIsReadAsOthersReadIt(t *testing.T) {
	vars := write(t, "vars", "# comment\n\n A = b \nexport C=d\nE=\"f\\n\\\"g\\\"\"\nH='i # ${J}' # comment\nK=l # m\nN=\nSET=file\r\n")
	f, _ := load(t, write(t, "a.yaml", "servers: {a: {command: x, env: {SET: ours}, envFile: "+vars+"}}"))
	if got := fmt.Sprintf("%q", f.Servers["a"].Env); got != `map["A":"b" "C":"d" "E":"f\n\"g\"" "H":"i # ${J}" "K":"l" "N":"" "SET":"ours"]` {
		t.Error(got)
	}
	for _, line := range []string{"canary", "1A=canary", `A="canary`} {
		bad := write(t, "vars", "OK=1\n"+line+"\n")
		_, report := config.Load(nil, write(t, "a.yaml", "servers: {a: {command: x, envFile: "+bad+"}}"))
		if report.Err() == nil || !strings.Contains(report.Error(), "line 2 of the env file") || strings.Contains(report.Error(), "canary") {
			t.Errorf("%s: %v", line, report)
		}
	}
}
