//go:build npm

package interop_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// fastMCP4 are the ways to a server of FastMCP 4, which names only the modern era but
// speaks both: in the modern one it can neither ask nor keep a client's session.
var fastMCP4 = map[string]func(t *testing.T) *streamable.Client{
	"run": func(t *testing.T) *streamable.Client {
		return bridgeTo(t, append([]string{"--"}, fastMCP4Command(t)...)...)
	},
	"serve": func(t *testing.T) *streamable.Client {
		command := fastMCP4Command(t)
		file := gatewayFile(t, "dragoman.json", object{"servers": object{"fast": object{"command": command[0], "args": command[1:]}}})
		return &streamable.Client{URL: serveFile(t, file) + "/servers/fast/mcp"}
	},
}

func fastMCP4Command(t *testing.T) []string {
	t.Helper()
	script, err := filepath.Abs(filepath.Join("py", "fastmcp4.py"))
	if err != nil {
		t.Fatal(err)
	}
	return []string{python(t), script}
}

// Not beside other tests: the program takes a server that needs more than five seconds to start for
// one of the legacy era, and this one needs half of that on a processor of its own.
func TestPipServerOfBothErasIsSpokenToInThatOfEachClient(t *testing.T) {
	for name, bridge := range fastMCP4 {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := bridge(t)
			one := counted(t, beginAs(t, "one", server, protocol.Latest))
			other := beginAs(t, "other", server, protocol.Latest)
			if two := counted(t, other); one == two {
				t.Error("two modern callers have the same process")
			}
			if got := says(t, other, "revision", object{}); got != protocol.Latest.String() {
				t.Errorf("a modern client is served in %s", got)
			}
			legacy := beginAs(t, "one", server, protocol.LatestLegacy)
			if by := counted(t, legacy); by == one {
				t.Error("a legacy session has the process of a modern caller")
			}
			legacy.keepsItsEra(t)
		})
	}
}

// keepsItsEra uses what a server of FastMCP 4 has in the legacy era.
func (c *dragomanClient) keepsItsEra(t *testing.T) {
	t.Helper()
	if got := says(t, c, "revision", object{}); got != c.rev.String() {
		t.Errorf("a legacy client is served in %s", got)
	}
	if got := says(t, c, "ask", object{}); got != "accept some text" || c.questions(protocol.MethodElicit) != 1 {
		t.Errorf("the server says %q after %d questions", got, c.questions(protocol.MethodElicit))
	}
	c.tool("hide")
	c.notes.wait(t, 1, protocol.NoteToolsChanged, "")
	names, err := c.tools(t.Context())
	if err != nil || slices.Contains(names, "spare") || !slices.Contains(names, "hide") {
		t.Errorf("the tools are %s, %v", strings.Join(names, ", "), err)
	}
}
