//go:build unix

package stdio

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/util/proc"
)

// writeFile writes an executable that says its name.
func writeFile(t *testing.T, mode fs.FileMode, path ...string) string {
	t.Helper()
	file := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("#!/bin/sh\necho "+file+"\n"), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	return file
}

func TestA05_ServerIsStartedWithCommandAndArguments(t *testing.T) {
	args := []string{"--port", "8080", "", "ünï", "-"}
	var got []string
	if err := json.Unmarshal([]byte(output(t, ourselves(t, "args", args...))), &got); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, args) {
		t.Errorf("arguments arrived as %q, want %q", got, args)
	}
}

func TestS36_C12_ArgumentsNeverReachAShell(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "marker")
	args := []string{
		"a b", "$(touch " + marker + ")", "`touch " + marker + "`", ";touch " + marker, "| touch " + marker, "&& touch " + marker,
		"-x\n", "'", `"`, `\`, `\"`, "*", "~", "$HOME", "%PATH%", "\t", "{a,b}", "!!", "\x7f\x01",
	}
	var got []string
	if err := json.Unmarshal([]byte(output(t, ourselves(t, "args", args...))), &got); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, args) {
		t.Errorf("arguments arrived as %q, want %q", got, args)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("a shell has seen the arguments")
	}
}

func TestC12_ExecutableIsValidated(t *testing.T) {
	dir := t.TempDir()
	plain := writeFile(t, 0o644, dir, "plain")
	writeFile(t, 0o755, dir, "bin", "good")
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	lost := filepath.Join(dir, "lost")
	if err := os.WriteFile(lost, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := []string{"PATH=" + dir + ":" + filepath.Join(dir, "bin")}
	for _, test := range []struct {
		name    string
		command Command
		is      error  // what the error wraps
		says    string // what it says
	}{
		{"C12 empty", Command{}, nil, "the command is empty"},
		{"C12 dot", Command{Path: "."}, nil, "this is a directory"},
		{"C12 dot dot", Command{Path: ".."}, nil, "this is a directory"},
		{"C12 slash dot", Command{Path: dir + "/."}, proc.ErrDirectory, "it is a directory"},
		{"C12 directory", Command{Path: dir}, proc.ErrDirectory, "it is a directory"},
		{"C12 directory on PATH", Command{Path: "bin", Env: path}, exec.ErrNotFound, "searched " + dir},
		{"C07 not found", Command{Path: "no-such-server", Env: path}, exec.ErrNotFound, "searched " + dir},
		{"C07 no PATH", Command{Path: "good", Env: []string{"PATH="}}, exec.ErrNotFound, "PATH is empty"},
		{"C07 missing", Command{Path: dir + "/nothing"}, fs.ErrNotExist, "check the path"},
		{"C07 below a file", Command{Path: plain + "/x"}, fs.ErrNotExist, "check the path"},
		{"C07 not executable", Command{Path: plain}, fs.ErrPermission, "executable bit"},
		{"C07 not executable on PATH", Command{Path: "plain", Env: path}, fs.ErrPermission, "executable bit"},
		{"C07 no program", Command{Path: empty}, nil, "not a program for this system"},
		{"C07 no interpreter", Command{Path: lost}, fs.ErrNotExist, "interpreter"},
		{"C07 no directory", Command{Path: "good", Env: path, Dir: dir + "/nowhere"}, fs.ErrNotExist, "create the directory"},
		{"C07 a file for a directory", Command{Path: "good", Env: path, Dir: plain}, nil, "is not a directory"},
		{"C12 zero byte in the command", Command{Path: "a\x00b"}, nil, "zero byte"},
		{"C12 zero byte in an argument", Command{Path: "good", Env: path, Args: []string{"a\x00b"}}, nil, "zero byte"},
		{"C12 variable without a value", Command{Path: "good", Env: []string{"PATH=" + dir, "hunter2"}}, nil, "entry 2 of its environment"},
		{"C12 variable without a name", Command{Path: "good", Env: []string{"=x"}}, nil, "entry 1 of its environment"},
		{"C12 negative limit", Command{Path: "good", Env: path, Limits: ResourceLimits{OpenFiles: -1}}, nil, "negative"},
		{"C12 unknown user", Command{Path: "good", Env: path, User: "no-such-user"}, nil, `user "no-such-user" is not known`},
		{"C12 unknown group", Command{Path: "good", Env: path, User: "0:no-such-group"}, nil, `group "no-such-group" is not known`},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := test.command.start()
			if err == nil {
				p.stop()
				t.Fatal("it was started")
			}
			var start *StartError
			if !errors.As(err, &start) || start.Command != test.command.Path {
				t.Errorf("the error is not a StartError of the command: %v", err)
			}
			if test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("the error is not %q: %v", test.is, err)
			}
			if !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), fmt.Sprintf("%q", test.command.Path)) {
				t.Errorf("the error does not say %q: %v", test.says, err)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error shows what may be a secret: %v", err)
			}
		})
	}
}

func TestS36_C12_ExecutableIsLookedUpWithoutSurprises(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	good := writeFile(t, 0o755, dir, "safe", "server")
	here := writeFile(t, 0o755, dir, "server")
	writeFile(t, 0o755, dir, "open", "server")
	writeFile(t, 0o757, dir, "loose", "server")
	if err := os.Chmod(filepath.Join(dir, "open"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name       string
		path, dir  string
		searchPath string // with @ for dir
		want       string // "" if it must not start
	}{
		{"the working directory is not searched", "server", "", "/nowhere", ""},
		{"not even if PATH says so", "server", "", ":.:./safe:", ""},
		{"first on PATH", "server", "", "@/nowhere:@/safe:@", good},
		{"passing over a directory that everyone may write to", "server", "", "@/open:@/safe", good},
		{"passing over a file that everyone may write to", "server", "", "@/loose:@/safe", good},
		{"which alone is not enough", "server", "", "@/open:@/loose", ""},
		{"relative to our directory", "./server", "", "/nowhere", here},
		{"relative to its directory", "./server", "safe", "/nowhere", good},
		{"relative through its directory", "../server", "safe", "/nowhere", here},
		{"absolute", good, "", "/nowhere", good},
		{"absolute, and on the user's own head", dir + "/loose/server", "", "/nowhere", dir + "/loose/server"},
		{"a bare name is not looked for in its directory", "server", "safe", "/nowhere", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &Command{Path: test.path, Dir: test.dir, Env: []string{"PATH=" + strings.ReplaceAll(test.searchPath, "@", dir)}}
			cmd, err := c.prepare("0")
			switch {
			case err != nil && test.want != "":
				t.Error(err)
			case err != nil && strings.Contains(test.searchPath, "open") && !strings.Contains(err.Error(), "take write permission from others"):
				t.Errorf("the error does not help: %v", err)
			case err == nil && cmd.Path != test.want:
				t.Errorf("found %s, want %q", cmd.Path, test.want)
			}
		})
	}
}

func TestC01_WorkingDirectory(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := script(`pwd -P`)
	c.Dir = dir
	if got := strings.TrimSpace(output(t, c)); got != dir {
		t.Errorf("the server runs in %s, want %s", got, dir)
	}
}

func TestA06_ConfiguredVariablesReachTheChild(t *testing.T) {
	t.Setenv("LANG", "C")
	c := script(`echo "$API_KEY|$LANG|$EMPTY|$LINE"`)
	c.Env = []string{"API_KEY=one", "LANG=de_DE.UTF-8", "API_KEY=a=b c", "EMPTY=", "LINE=x;$(id)"}
	if got := output(t, c); got != "a=b c|de_DE.UTF-8||x;$(id)\n" {
		t.Errorf("the server sees %q", got)
	}
}

func TestC12_SensitiveVariablesAreFiltered(t *testing.T) {
	t.Setenv("GATEWAY_SECRET", "hunter2")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
	t.Setenv("LD_PRELOAD_X", "hunter2")
	t.Setenv("TERM", "() { :; }; echo hunter2")
	t.Setenv("HOME", "/home/somebody")
	got := output(t, &Command{Path: "env"})
	if strings.Contains(got, "hunter2") {
		t.Errorf("a secret of ours reached the server:\n%s", got)
	}
	if !strings.Contains(got, "HOME=/home/somebody\n") || !strings.Contains(got, "PATH=") {
		t.Errorf("the server lacks what it needs:\n%s", got)
	}
	for _, line := range strings.Split(strings.TrimSpace(got), "\n") {
		if name, value, _ := strings.Cut(line, "="); !isPassedOn(name, value, true) && name != tagVar {
			t.Errorf("%s reached the server", name)
		}
	}
}

func TestEnvironment(t *testing.T) {
	ours := []string{"PATH=/bin", "SECRET=1", "TOKEN=2", "BASH_FUNC_x%%=() { id; }", "USER=() {", "bad", "=odd"}
	for _, test := range []struct {
		name    string
		command Command
		ours    []string
		want    string
	}{
		{"usual", Command{}, ours, "PATH=/bin DRAGOMAN_CHILD=77"},
		{"some", Command{InheritEnv: []string{"TOKEN", "MISSING", "USER"}}, ours, "PATH=/bin TOKEN=2 DRAGOMAN_CHILD=77"},
		{"all", Command{InheritEnv: []string{"*"}}, ours, "PATH=/bin SECRET=1 TOKEN=2 DRAGOMAN_CHILD=77"},
		{"replaced", Command{Env: []string{"PATH=/x", "A=1", "A=2"}}, ours, "PATH=/x A=2 DRAGOMAN_CHILD=77"},
		{"a function on purpose", Command{Env: []string{"F=() {}"}}, nil, "F=() {} DRAGOMAN_CHILD=77"},
		{"started by a server", Command{}, []string{"DRAGOMAN_CHILD=12ab"}, "DRAGOMAN_CHILD=12ab,77"},
		{"and passing on all", Command{InheritEnv: []string{"*"}}, []string{"DRAGOMAN_CHILD=12ab"}, "DRAGOMAN_CHILD=12ab,77"},
		{"a tag that is none", Command{}, []string{"DRAGOMAN_CHILD=secret"}, "DRAGOMAN_CHILD=77"},
		{"the tag is not for setting", Command{Env: []string{"DRAGOMAN_CHILD=1"}}, nil, "DRAGOMAN_CHILD=77"},
	} {
		env, err := test.command.environment(test.ours, nil, "77")
		if got := strings.Join(env, " "); err != nil || got != test.want {
			t.Errorf("%s: %s, %v; want %s", test.name, got, err, test.want)
		}
	}
}

func TestVariablesThatInstallersAndNetworksNeedArePassedOn(t *testing.T) {
	for _, test := range []struct {
		entry      string
		own, other bool // for a server that runs as we do, and as another user
	}{
		{"HTTP_PROXY=http://user:password@proxy:8080", true, true},
		{"https_proxy=http://proxy:8080", true, true},
		{"NO_PROXY=localhost", true, true},
		{"npm_config_https_proxy=http://user:password@proxy:8080", true, true},
		{"NODE_EXTRA_CA_CERTS=/etc/company.pem", true, true},
		{"SSL_CERT_FILE=/etc/company.pem", true, true},
		{"REQUESTS_CA_BUNDLE=/etc/company.pem", true, true},
		{"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=/etc/company.pem", true, true},
		{"HTTPLIB2_CA_CERTS=/etc/company.pem", true, true},
		{"LC_MESSAGES=C", true, true},
		{"XDG_CACHE_HOME=/home/me/.cache", true, false},
		{"npm_config_registry=https://npm.example.com", true, false},
		{"NPM_CONFIG_CAFILE=/etc/company.pem", true, false},
		{"UV_INDEX_URL=https://pypi.example.com/simple", true, false},
		{"UV_KEYRING_PROVIDER=subprocess", true, false},
		{"PIP_INDEX_URL=https://pypi.example.com/simple", true, false},
		{"DOCKER_HOST=unix:///run/user/1000/docker.sock", true, false},

		{"UV_INDEX_URL=https://me:password@pypi.example.com/simple", false, false},
		{"PIP_EXTRA_INDEX_URL=https://a.example.com https://token@pypi.example.com/simple", false, false},
		{"npm_config__auth=eA==", false, false},
		{"npm_config__authToken=x", false, false},
		{"npm_config_//npm.example.com/:_password=x", false, false},
		{"NPM_CONFIG_KEY=x", false, false},
		{"UV_PUBLISH_TOKEN=x", false, false},
		{"UV_INDEX_COMPANY_PASSWORD=x", false, false},
		{"XDG_SESSION_COOKIE=x", false, false},
		{"GOPROXY=https://me:password@go.example.com", false, false},
		{"SSH_AUTH_SOCK=/tmp/agent", false, false},
		{"NODE_OPTIONS=--require /tmp/x.js", false, false},
		{"LD_PRELOAD=/tmp/x.so", false, false},
		{"PYTHONPATH=/tmp", false, false},
		{"UVX=x", false, false},
	} {
		for account, want := range map[bool]bool{true: test.own, false: test.other} {
			name, value, _ := cutVariable(test.entry)
			if got := isPassedOn(name, value, account); got != want {
				t.Errorf("%s, runs as we do %t: passed on %t, want %t", test.entry, account, got, want)
			}
		}
	}
}

func TestExitNamesWhatWasWithheldAndMayBeNeeded(t *testing.T) {
	t.Setenv("EXAMPLE_API_KEY", "hunter2")
	t.Setenv("EXAMPLE_API_KEY_ID", "hunter2")
	t.Setenv("UV_PUBLISH_TOKEN", "hunter2")
	t.Setenv("EXAMPLE_OTHER", "hunter2")
	p := launch(t, script(`echo "Error: EXAMPLE_API_KEY is required" >&2; exit 1`))
	await(t, p)
	const want = `server "sh" exited with status 1: stderr: Error: EXAMPLE_API_KEY is required`
	if got := p.exit().Error(); got != want {
		t.Errorf("%s\nwant %s, which may be told to anybody", got, want)
	}
	if got := strings.Join(p.exit().Withheld, " "); got != "EXAMPLE_API_KEY UV_PUBLISH_TOKEN" {
		t.Errorf("withheld are %s", got)
	}
	c := script(`echo "EXAMPLE_API_KEY is wrong" >&2; exit 1`)
	c.InheritEnv = []string{"EXAMPLE_API_KEY", "UV_PUBLISH_TOKEN"}
	p = launch(t, c)
	await(t, p)
	if got := p.exit().Withheld; len(got) > 0 {
		t.Errorf("it has %q", got)
	}
}
