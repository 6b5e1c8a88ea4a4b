//go:build npm

package interop_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// python is the interpreter for which `make interop` has installed the Python
// SDK.
func python(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("DRAGOMAN_PYTHON_DIR")
	if dir == "" {
		t.Fatal("DRAGOMAN_PYTHON_DIR is not set: run make interop")
	}
	return filepath.Join(dir, "bin", "python")
}

// pipServer1 is the command of a server of version 1 of the Python SDK. folder is
// that of the version.
func pipServer1(t *testing.T, folder, transport string) []string {
	t.Helper()
	script, err := filepath.Abs(filepath.Join("py", "server1.py"))
	if err != nil {
		t.Fatal(err)
	}
	return []string{python(t), script, filepath.Join(os.Getenv("DRAGOMAN_PYTHON_DIR"), folder), transport}
}

// bridgeTo starts `dragoman run` with a server, which is a URL or -- and a command, and
// returns where it serves it.
func bridgeTo(t *testing.T, server ...string) *streamable.Client {
	t.Helper()
	args := append([]string{"run", "--listen", "127.0.0.1:0"}, server...)
	return &streamable.Client{URL: serve(t, exec.Command(dragomanProgram.in(t), args...), `http://\S+/mcp`)}
}

// beginAs begins a conversation as the client of a name.
func beginAs(t *testing.T, name string, server dragoman.Dialer, rev protocol.Revision) *dragomanClient {
	t.Helper()
	c := dial(t, server)
	c.name = name
	c.begin(rev)
	return c
}

// says calls a tool and returns the text of its result.
func says(t *testing.T, client sdkClient, tool string, args object) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	result, err := client.call(ctx, tool, args, "")
	if err != nil {
		t.Errorf("%s: %v", tool, err)
		return ""
	}
	got := decode[struct {
		Content []struct{ Text string }
		IsError bool
	}](t, result)
	if got.IsError || len(got.Content) != 1 {
		t.Errorf("%s: %v", tool, got)
		return ""
	}
	return got.Content[0].Text
}

// sideBySide makes n calls at once. It returns what each says.
func sideBySide(n int, call func(i int) string) []string {
	said := make([]string, n)
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() { said[i] = call(i) })
	}
	calls.Wait()
	return said
}

// Of the calls six ask at the same time: each waits until all of them do.
func TestNpmPipFiftyCallsOfAModernClientRunSideBySideInOneProcessOfALegacyServer(t *testing.T) {
	t.Parallel()
	const calls, asking = 50, 6
	bridge := bridgeTo(t, append([]string{"--"}, pipServer1(t, "mcp1", "stdio")...)...)
	c := connectTypeScript2.open(t, []string{bridge.URL}, "python-sdk-1", protocol.Latest)
	process := says(t, c, "pid", object{}) // which is up by then
	said := sideBySide(calls, func(i int) string {
		text := fmt.Sprintf("call %d", i)
		if i < asking {
			return says(t, c, "ask", object{"text": text, "together": asking})
		}
		return says(t, c, "work", object{"text": text})
	})
	for i, got := range said {
		want := fmt.Sprintf("%s call %d", process, i)
		if i < asking {
			want = fmt.Sprintf("%s call %d: accept the answer to call %d", process, i, i)
		}
		if got != want {
			t.Errorf("call %d: %q, want %q", i, got, want)
		}
	}
}

// counted makes calls at once of a tool that counts them, and returns the process that
// did. The first is the client's first.
func counted(t *testing.T, c *dragomanClient) (process string) {
	t.Helper()
	const calls = 20
	numbers := make(map[string]bool)
	for _, said := range sideBySide(calls, func(int) string { return says(t, c, "count", object{}) }) {
		by, number, _ := strings.Cut(said, " ")
		if process == "" {
			process = by
		}
		if by != process || numbers[number] {
			t.Errorf("%s: process %s has counted %q, process %s has answered before", c.name, by, number, process)
		}
		numbers[number] = true
	}
	for i := range calls {
		if !numbers[fmt.Sprint(i+1)] {
			t.Errorf("%s: no call was number %d", c.name, i+1)
		}
	}
	return process
}

func TestPipModernCallersHaveEachOneProcessOfAStatefulServer(t *testing.T) {
	t.Parallel()
	bridge := bridgeTo(t, append([]string{"--"}, pipServer1(t, "mcp1", "stdio")...)...)
	one := counted(t, beginAs(t, "one", bridge, protocol.Latest))
	other := counted(t, beginAs(t, "other", bridge, protocol.Latest))
	if one == other {
		t.Error("both callers have the same process")
	}
	again := beginAs(t, "one", bridge, protocol.Latest)
	if said := says(t, again, "count", object{}); said != one+" 21" {
		t.Errorf("the first caller's process says %q on another connection, want %q", said, one+" 21")
	}
}

func TestPipModernClientHearsOfChangesThatALegacyServerNeverDeclared(t *testing.T) {
	t.Parallel()
	bridge := bridgeTo(t, append([]string{"--"}, pipServer1(t, "mcp1", "stdio")...)...)
	c := beginAs(t, "listener", bridge, protocol.Latest)
	defer c.listen(object{"toolsListChanged": true})()
	c.tool("change")
	c.notes.wait(t, 1, protocol.NoteToolsChanged, "")
}
