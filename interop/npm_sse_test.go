//go:build npm

package interop_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// sseRevisions are the newest and the oldest revision of HTTP+SSE.
var sseRevisions = []protocol.Revision{protocol.V20251125, protocol.V20241105}

// dragomanSSE starts `dragoman run` and returns the URL of its event stream.
func dragomanSSE(t *testing.T) string {
	t.Helper()
	return strings.TrimSuffix(dragomanRun(t), "/mcp") + "/sse"
}

func TestNpmB14_ClientUsesEverythingOverHTTPAndSSE(t *testing.T) {
	t.Parallel()
	for _, rev := range sseRevisions {
		t.Run(rev.String(), func(t *testing.T) {
			t.Parallel()
			drive(t, "node", filepath.Join("ts", "client.mjs"), filepath.Join(npmFolder(t), "sdk"), dragomanSSE(t), rev.String()).tryEverything(rev)
		})
	}
}

func TestPipB14_ClientUsesEverythingOverHTTPAndSSE(t *testing.T) {
	t.Parallel()
	for _, rev := range sseRevisions {
		t.Run(rev.String(), func(t *testing.T) {
			t.Parallel()
			drive(t, python(t), filepath.Join("py", "client.py"), dragomanSSE(t), rev.String()).tryEverything(rev)
		})
	}
}

// Both clients ask for server/discover first, which is not served here, and fall back
// to the handshake.
func TestNpmV2ClientThatNegotiatesFallsBackOverHTTPAndSSE(t *testing.T) {
	t.Parallel()
	drive(t, node22(t), filepath.Join("ts", "client2.mjs"), filepath.Join(npmFolder(t), "client"), "auto", dragomanSSE(t)).tryEverything(protocol.V20251125)
}

func TestPipClientThatNegotiatesFallsBackOverHTTPAndSSE(t *testing.T) {
	t.Parallel()
	drive(t, python(t), filepath.Join("py", "client.py"), dragomanSSE(t), protocol.V20260728.String()).tryEverything(protocol.V20251125)
}

// eachWayToSSE runs a test with the two clients that reach a server which speaks
// HTTP+SSE only: the one for it, and the one for Streamable HTTP, which finds out
// and falls back.
func eachWayToSSE(t *testing.T, start func(*testing.T) string, use func(*testing.T, dragoman.Dialer, protocol.Revision)) {
	for _, rev := range sseRevisions {
		t.Run(rev.String(), func(t *testing.T) {
			t.Parallel()
			url := start(t)
			old := &sse.Client{URL: url}
			use(t, old, rev)
			client := &streamable.Client{URL: url, Fallback: old}
			if v, err := client.Probe(t.Context()); err != nil || !v.SSE {
				t.Errorf("the probe says %+v, %v", v, err)
			}
			use(t, client, rev)
			// Without a probe, it finds out by its first message.
			c, _ := begin(t, &streamable.Client{URL: url, Fallback: old}, rev)
			c.want(protocol.MethodListTools, object{})
		})
	}
}

// npmSSEServer starts the reference server of the TypeScript SDK on HTTP+SSE.
func npmSSEServer(t *testing.T) string {
	t.Helper()
	port := freePort(t)
	// By itself it does not end in good order.
	cmd := exec.Command("node", "--import", `data:text/javascript,process.once("SIGINT",()=>process.exit())`,
		filepath.Join(npmFolder(t), "server-everything", "dist", "index.js"), "sse")
	cmd.Env = append(os.Environ(), "PORT="+port)
	serve(t, cmd, "running on port")
	return "http://127.0.0.1:" + port + "/sse"
}

func TestNpmB15_ServerIsUsedByOurClientOverHTTPAndSSE(t *testing.T) {
	t.Parallel()
	eachWayToSSE(t, npmSSEServer, func(t *testing.T, server dragoman.Dialer, rev protocol.Revision) {
		c := beginNpm(t, server, rev)
		c.callAll(npmTools())
		if c.readAll() == 0 || c.promptAll(object{"resourceType": "Text", "resourceId": "1"}) == 0 {
			t.Error("no resources or no prompts are listed")
		}
		beginNpm(t, server, rev).hearOfNpm() // in a session of its own
	})
}

func TestPipB15_ServerIsUsedByOurClientOverHTTPAndSSE(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T) string {
		return serve(t, exec.Command(python(t), filepath.Join("py", "server.py"), "sse"), `http://[0-9.:]+`) + "/sse"
	}
	eachWayToSSE(t, start, func(t *testing.T, server dragoman.Dialer, rev protocol.Revision) {
		trySmall(t, server, rev, smallTools())
	})
}
