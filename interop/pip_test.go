//go:build npm

package interop_test

import (
	"os"
	"os/exec"
	"path/filepath"
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

// pipRevisions are revisions of the Python SDK: of both eras, and its oldest one
// with Streamable HTTP.
var pipRevisions = []protocol.Revision{protocol.V20260728, protocol.V20251125, protocol.V20250326}

func TestPipClientUsesEverythingOverHTTP(t *testing.T) {
	t.Parallel()
	for _, rev := range pipRevisions {
		t.Run(rev.String(), func(t *testing.T) {
			t.Parallel()
			url := dragomanRun(t)
			drive(t, python(t), filepath.Join("py", "client.py"), url, rev.String()).tryEverything(rev)
		})
	}
}

// smallTools says what the tools of py/server.py and ts/server2.mjs do.
func smallTools() map[string]expected {
	return map[string]expected{
		"echo":     {args: object{"text": "hello, wörld \n"}, text: "hello, wörld \n"},
		"add":      {args: object{"a": 2, "b": 40}, text: "42"},
		"fail":     {isError: true, text: "as asked"},
		"progress": {text: "three times", progress: 3},
		"change":   {text: "changed"},
		"ask":      {text: "Hello, some text!"},
	}
}

// trySmallOverHTTP uses a server like py/server.py that speaks both eras.
func trySmallOverHTTP(t *testing.T, url string, rev protocol.Revision, tools map[string]expected) {
	t.Helper()
	server := &streamable.Client{URL: url}
	if v, err := server.Probe(t.Context()); err != nil || v.Era != protocol.Modern {
		t.Errorf("the probe says %+v, %v", v, err)
	}
	trySmall(t, server, rev, tools)
}

// trySmall uses a server like py/server.py.
func trySmall(t *testing.T, server dragoman.Dialer, rev protocol.Revision, tools map[string]expected) {
	t.Helper()
	c, _ := begin(t, server, rev)
	if !rev.HasSessions() {
		defer c.listen(object{"toolsListChanged": true})()
	}
	c.callAll(tools)
	if _, ok := tools["change"]; ok {
		c.notes.wait(t, 1, protocol.NoteToolsChanged, "")
	}
	if n := c.readAll(); n != 1 {
		t.Errorf("%d resources", n)
	}
	if n := c.promptAll(nil); n != 1 {
		t.Errorf("%d prompts", n)
	}
}

func TestPipServerIsUsedByOurClientOverHTTP(t *testing.T) {
	t.Parallel()
	for _, rev := range pipRevisions {
		t.Run(rev.String(), func(t *testing.T) {
			t.Parallel()
			url := serve(t, exec.Command(python(t), filepath.Join("py", "server.py")), `http://[0-9.:]+`)
			trySmallOverHTTP(t, url+"/mcp", rev, smallTools())
		})
	}
}
