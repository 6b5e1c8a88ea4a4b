//go:build npm

package interop_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// Version 1.8 of the Python SDK does not answer a method that it does not know, and
// reads no more.
func TestPipServerThatHangsAtAnUnknownMethodIsUsedOnStdio(t *testing.T) {
	t.Parallel()
	for _, rev := range []protocol.Revision{protocol.Latest, protocol.V20241105} {
		t.Run(rev.String(), func(t *testing.T) {
			t.Parallel()
			bridge := &stdio.Command{
				Path: dragomanProgram.in(t), Args: append([]string{"connect", "--"}, pipServer1(t, "mcp1.8", "stdio")...),
				InheritEnv: []string{"GORACE"}, Grace: patience,
			}
			says(t, beginAs(t, "client", bridge, rev), "pid", object{})
		})
	}
}

// A client of the legacy era needs nobody to ask what the server does not know, so no
// time and no process is lost on that.
func TestPipServerThatHangsAtAnUnknownMethodIsNotAskedForALegacyClient(t *testing.T) {
	t.Parallel()
	journal := filepath.Join(t.TempDir(), "journal")
	s := &crossServer{kind: "Python 1.8", command: pipServer1(t, "mcp1.8", "stdio"), env: []string{"JOURNAL=" + journal}}
	c := beginAs(t, "client", dragoman.Local(s.bridge(t)), protocol.V20241105)
	process := says(t, c, "pid", object{})
	if text, err := os.ReadFile(journal); err != nil || string(text) != process+"\n" {
		t.Errorf("processes %q were started, %v; %s has answered", text, err, process)
	}
}

// A session that is deleted ends this version as a whole.
func TestPipServerThatDoesNotSurviveADeletedSessionIsUsedOverHTTP(t *testing.T) {
	t.Parallel()
	command := pipServer1(t, "mcp1.8", "streamable-http")
	url := serve(t, exec.Command(command[0], command[1:]...), `http://[0-9.:]+`) + "/mcp"
	bridge := bridgeTo(t, url)
	modern := beginAs(t, "modern", bridge, protocol.Latest)
	legacy := beginAs(t, "legacy", bridge, protocol.V20241105)
	direct := beginAs(t, "direct", &streamable.Client{URL: url}, protocol.V20241105)
	process := says(t, direct, "pid", object{})
	for _, c := range []*dragomanClient{modern, legacy} {
		if got := says(t, c, "pid", object{}); got != process {
			t.Errorf("%s: process %s answers, want %s", c.name, got, process)
		}
	}
}
