//go:build npm

package interop_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// commandLimit is how long a command may take.
const commandLimit = time.Minute

// typed runs dragoman with a command line, and returns what it prints and how it ends.
func typed(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, dragomanProgram.in(t), args...)
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		status = e.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return out.String(), said.String(), status
}

// A commandLine is what a user types about a server, and what is printed.
type commandLine struct {
	words  string
	stdout string // a part of it
	stderr string // as above
	status int
}

// tryCommands types command lines about a server that is a command.
func tryCommands(t *testing.T, server []string, lines []commandLine) {
	t.Helper()
	for _, line := range lines {
		args := append(strings.Fields(line.words), "--")
		stdout, stderr, status := typed(t, append(args, server...)...)
		if status != line.status || !strings.Contains(stdout, line.stdout) || !strings.Contains(stderr, line.stderr) {
			t.Errorf("dragoman %s: status %d, want %d\n%s\nwants %q\n%s\nwants %q", line.words, status, line.status, stdout, line.stdout, stderr, line.stderr)
		}
	}
}

func TestNpmServerIsUsedFromTheCommandLine(t *testing.T) {
	t.Parallel()
	s := npmServer(t)
	save := t.TempDir()
	tryCommands(t, append([]string{s.Path}, s.Args...), []commandLine{
		{words: "tools", stdout: "get-sum(a:num, b:num)"},
		{words: "tools echo --schema", stdout: `"$schema"`},
		{words: "tools -o ndjson get-sum", stdout: `{"name":"get-sum"`},
		{words: "call echo message=hello", stdout: "Echo: hello\n"},
		{words: "call get-sum a=40 b=2", stdout: "42"},
		{words: "call get-sum a=x b=2", status: 2, stderr: `a cannot be "x": it is num`},
		{words: "call get-tiny-image --save " + save, stdout: "image-1.png"},
		{words: "call trigger-long-running-operation duration=1 steps=2", stdout: "completed", stderr: "2/2"},
		{words: "call gte-sum a=1 b=2", status: 2, stderr: `did you mean "get-sum"?`},
		{words: "resources", stdout: "demo://resource/dynamic/text/{resourceId}"},
		{words: "read demo://resource/dynamic/text/1", stdout: "1"},
		{words: "read demo://nothing", status: 5},
		{words: "prompts", stdout: "args-prompt(city, state?)"},
		{words: "prompt args-prompt city=Paris", stdout: "Paris"},
		{words: "complete completable-prompt department=E", stdout: "Engineering"},
		{words: "ping -c 1", stdout: "MCP 2025-11-25 (legacy)"},
	})
	if _, err := os.Stat(filepath.Join(save, "image-1.png")); err != nil {
		t.Error(err)
	}
}

func TestPipServerIsUsedFromTheCommandLine(t *testing.T) {
	t.Parallel()
	tryCommands(t, fastMCP4Command(t), []commandLine{
		{words: "tools", stdout: "count()"},
		{words: "call spare", stdout: "spare\n"},
		{words: "call ask --era legacy --answer name=Ada", stdout: "accept Ada"},
		{words: "call ask --era legacy", stderr: "the server asks: Who are you?", status: 5},
		{words: "ping -c 1 --era legacy", stdout: "(legacy)"},
		{words: "ping -c 1", stdout: "(modern)"},
	})
}
