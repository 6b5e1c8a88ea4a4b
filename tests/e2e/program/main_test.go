package program

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/cli"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// mainVariable makes the test binary be dragoman.
const mainVariable = "DRAGOMAN_TEST_MAIN"

// programVariable makes the test binary be dragoman, and nothing else.
const programVariable = "DRAGOMAN_TEST_PROGRAM"

// programDirectory returns a directory with the command, to be found in a PATH. Each process of
// it knows by itself what it is, since servers are not given our variables.
func programDirectory(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n%s=1 GORACE=atexit_sleep_ms=0 exec '%s' \"$@\"\n", programVariable, self)
	if err := os.WriteFile(filepath.Join(dir, "dragoman"), []byte(script), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	return dir
}

func TestMain(m *testing.M) {
	stdio.Guard() // or what main starts as its guard would run the tests
	switch {
	case strings.HasPrefix(filepath.Base(os.Args[0]), launcherName):
		os.Args = []string{os.Args[0], "everything"}
		cli.Main()
		return
	case os.Getenv(programVariable) != "":
		cli.Main()
		return
	case os.Getenv(mainVariable) != "" && len(os.Args) == 2 && strings.HasPrefix(os.Args[1], "http") && strings.Contains(os.Args[1], "?"): // where to sign in
		browse(os.Args[1])
		return
	case os.Getenv(mainVariable) != "":
		cli.Main()
		return
	}
	os.Exit(runTests(m))
}

// runTests runs the tests with a place for sign-ins that is not the user's own, and with
// this program as the browser.
func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return 1
	}
	defer os.RemoveAll(dir)
	_ = os.Setenv(oauth.DirVariable, filepath.Join(dir, "auth")) // the name is good
	_ = os.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	sockets = dir
	_ = os.Unsetenv("XDG_RUNTIME_DIR")           // each test has its own, see environ
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // or each process waits for a second at its end
	_ = flag.Set("test.parallel", "6")           // most wait for their processes
	if self, err := os.Executable(); err == nil {
		_ = os.Setenv(oauth.BrowserVariable, self)
	}
	return m.Run()
}

// variables are those of the processes of tests, by the names of these, in the order in which they
// were set. Tests run at once, so the environment of this process is nobody's to change.
var variables = struct {
	sync.Mutex
	of map[string][]string // guarded by Mutex
}{of: make(map[string][]string)}

// setenv sets a variable for the processes that a test and its parts start from now on.
func setenv(t *testing.T, name, value string) {
	t.Helper()
	variables.Lock()
	defer variables.Unlock()
	if variables.of[t.Name()] == nil {
		t.Cleanup(func() {
			variables.Lock()
			defer variables.Unlock()
			delete(variables.of, t.Name())
		})
	}
	variables.of[t.Name()] = append(variables.of[t.Name()], name+"="+value)
}

// sockets is where the control sockets of all tests are, in a directory for each.
var sockets string

// environ returns the environment of a process of a test: ours, what the test has set, and more.
func environ(t *testing.T, more ...string) []string {
	variables.Lock()
	defer variables.Unlock()
	name := t.Name()
	top, _, _ := strings.Cut(name, "/")
	env := append([]string{"XDG_RUNTIME_DIR=" + filepath.Join(sockets, fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(top))))}, os.Environ()...)
	for i := range len(name) + 1 { // what a test has set holds for its parts
		if i == len(name) || name[i] == '/' {
			env = append(env, variables.of[name[:i]]...)
		}
	}
	return append(env, more...)
}

// getenv returns what a variable is for the processes of a test.
func getenv(t *testing.T, name string) (value string) {
	for _, set := range environ(t) { // the last one holds
		if rest, ok := strings.CutPrefix(set, name+"="); ok {
			value = rest
		}
	}
	return value
}

// runMain runs the command with that standard input.
func runMain(t *testing.T, stdin string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = environ(t, mainVariable+"=1", term.DebugVariable+"=")
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	return out.String(), asRead(errs.String()), cmd.ProcessState.ExitCode()
}

func TestE07_DebugShowsTheStepsOnStandardErrorAlone(t *testing.T) {
	t.Parallel()
	stdout, stderr, status := runMain(t, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n", "everything", "--debug")
	if status != 0 || stdout != `{"jsonrpc":"2.0","id":1,"result":{}}`+"\n" {
		t.Errorf("status %d, standard output %q", status, stdout)
	}
	for _, want := range []string{"chunk=41", "method=ping", "mode=line", "bytes=36"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("standard error lacks %s:\n%s", want, stderr)
		}
	}
	if _, stderr, _ = runMain(t, "", "everything"); stderr != "" {
		t.Errorf("without --debug: %s", stderr)
	}
}

func TestMistakesAreExplained(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"everything", "--framing", "lsp"}, `unknown framing "lsp": use auto, lines or content-length`},
		{[]string{"everything", "--era", "stone"}, `unknown era "stone": use legacy, modern or both`},
		{[]string{"everything", "--revision", "2025"}, `unknown revision "2025": use 2026-07-28`},
		{[]string{"run", "--era", "both"}, `unknown era "both": use auto, legacy or modern`},
		{[]string{"run", "gopher://hole"}, `unknown scheme "gopher"`},
		{[]string{"runn"}, `unknown command "runn"`},
		{[]string{"everything", "--nope"}, "unknown flag: --nope"},
		{[]string{"run", "--listen", "nowhere"}, "--listen nowhere has no port; write nowhere:8808"},
		{[]string{"run", "--listen", "127.0.0.1:0", "-e", "PATH=/a:/b:/c:/d", "--", "no-such-server"}, `cannot start "no-such-server": executable file not found in $PATH (searched the 4 directories of PATH); install it, extend PATH, or give the absolute path`},
		{[]string{"run", "--listen", "192.0.2.1:0"}, "choose another address with --listen"},
		{[]string{"token", "nwe"}, `unknown command "nwe"; did you mean "new"? dragoman token --help lists them`},
	} {
		stdout, stderr, status := runMain(t, "", test.args...)
		if status == 0 || !strings.Contains(stderr, test.want) || stdout != "" {
			t.Errorf("%q: status %d, %q and %q, want %q on standard error", test.args, status, stdout, stderr, test.want)
		}
	}
}

// TestReadmeExamples runs the lines of the README that need nothing but the
// binary, as they stand there.
func TestReadmeExamples(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("no sh to run them")
	}
	readme, err := os.ReadFile(filepath.Join("..", "..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		script := block[1]
		if !strings.Contains(script, "| bin/dragoman") {
			continue
		}
		ran++
		cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(script, "bin/dragoman", `"$DRAGOMAN"`))
		cmd.Env = environ(t, mainVariable+"=1", "DRAGOMAN="+self)
		out, err := cmd.Output()
		if err != nil || !bytes.Contains(out, []byte(`"result":{`)) {
			t.Errorf("%s\nprints %q (%v), want a result", script, out, err)
		}
		if strings.Contains(script, "Content-Length") != bytes.HasPrefix(out, []byte("Content-Length")) {
			t.Errorf("%s\nis not answered in kind: %q", script, out)
		}
	}
	if ran < 3 {
		t.Errorf("%d examples were run, want 3 at least", ran)
	}
}

// TestReadmeCurlExamples runs the lines of the README that need curl and a
// server.
func TestReadmeCurlExamples(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("no %s to run them", name)
		}
	}
	readme, err := os.ReadFile(filepath.Join("..", "..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	const there = "http://127.0.0.1:8808"
	base := strings.TrimSuffix(startMain(t, "run", "--listen", "127.0.0.1:0").place("http://"), gateway.MCPPath)
	want := []string{`{"tools":[`, `"text":"hello"`, "event: complete", `"text":"hello"`, `"text":"hello"`}
	for _, block := range regexp.MustCompile("(?s)```sh\n(curl .*?)```").FindAllStringSubmatch(string(readme), -1) {
		script := block[1]
		if len(want) == 0 {
			t.Fatalf("nobody knows what this prints:\n%s", script)
		}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(script, there, base)).Output()
		if err != nil || !bytes.Contains(out, []byte(want[0])) || !strings.Contains(script, there) {
			t.Errorf("%s\nprints %q (%v), want %q", script, out, err, want[0])
		}
		if strings.Contains(script, "slow") && bytes.Count(out, []byte("event: result")) != 4 {
			t.Errorf("%s\nprints %q, want four fragments", script, out)
		}
		want = want[1:]
	}
	if len(want) > 0 {
		t.Errorf("%d examples are missing", len(want))
	}
}

func TestArgumentsThatAreTooLongAreCalledThat(t *testing.T) {
	long := `{"text":"` + strings.Repeat("x", dragoman.DefaultMaxMessage) + `"}`
	if _, said, status := runMain(t, long, "call", "echo", "--args", "-", "--", self(t), "everything"); status != term.ExitUsage || !strings.Contains(said, "more than 16 MiB") {
		t.Errorf("status %d: %s", status, said)
	}
}
