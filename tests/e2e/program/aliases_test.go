package program

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

func TestCommandLinesOfOtherProgramsWork(t *testing.T) {
	t.Parallel()
	child := builtIn(t)
	command := strings.Join(child[len(child)-2:], " ")
	pass := child[:len(child)-3]

	p := startMain(t, append([]string{"run", "--stdio", command, "--outputTransport", "sse", "--port", "0", "--ssePath", "/events", "--messagePath", "/message", "--stateless"}, pass...)...)
	base := strings.TrimSuffix(p.place("http://127.0.0.1:"), "/mcp")
	for _, slash := range []string{"", "/"} {
		peertest.CheckEcho(t, &sse.Client{URL: base + "/events" + slash}, protocol.Legacy)
		peertest.CheckEcho(t, &streamable.Client{URL: base + "/mcp" + slash}, protocol.Modern)
	}

	for _, args := range [][]string{{"run", "--sse", base + "/events"}, {"run", "--streamableHttp", base + "/mcp", "--logLevel", "none"}} {
		q := startMain(t, args...)
		if got := q.say(peertest.Echo(t, protocol.Modern).String()); !strings.Contains(got, "hello there") {
			t.Errorf("%q: %s", args, got)
		}
		_ = q.stdin.Close()
		if status := q.wait(); status != 0 || strings.Contains(q.said(), "ready") {
			t.Errorf("%q: status %d, %s", args, status, q.said())
		}
	}
}
