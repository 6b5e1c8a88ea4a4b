//go:build npm

package interop_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// npmPackages is the folder of all npm packages.
func npmPackages(t *testing.T) string { return filepath.Dir(npmFolder(t)) }

// superGateway starts the npm package supergateway in front of a server of version 1 of
// the Python SDK, and returns where it listens.
func superGateway(t *testing.T, flags ...string) string {
	t.Helper()
	port := freePort(t)
	args := append([]string{
		filepath.Join(npmPackages(t), "supergateway", "dist", "index.js"), "--port", port,
		"--stdio", "'" + strings.Join(pipServer1(t, "mcp1", "stdio"), "' '") + "'",
	}, flags...)
	cmd := exec.Command(node22(t), args...)
	if _, err := cmd.StdinPipe(); err != nil { // or it ends at once
		t.Fatal(err)
	}
	serve(t, cmd, "Listening on port")
	return "http://127.0.0.1:" + port
}

// fastMCPNpm starts a server of the npm package fastmcp, and returns where it listens.
func fastMCPNpm(t *testing.T) string {
	t.Helper()
	port := freePort(t)
	serve(t, exec.Command(node22(t), filepath.Join("ts", "fastmcp.mjs"), npmPackages(t), port), "^ready")
	return "http://127.0.0.1:" + port + "/mcp"
}

// Servers that ask elsewhere than on the stream of the call that they ask about.
func TestNpmClientsAreAskedByServersThatAskOnOtherStreams(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]func(t *testing.T) string{
		"fastmcp on that of the session": fastMCPNpm,
		"supergateway on that of the oldest call": func(t *testing.T) string {
			return superGateway(t, "--outputTransport", "streamableHttp", "--stateful") + "/mcp"
		},
		"supergateway on those of all sessions": func(t *testing.T) string { return superGateway(t) + "/sse" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := server(t)
			for _, rev := range []protocol.Revision{protocol.Latest, protocol.LatestLegacy} {
				// Each with a bridge of its own, since all sessions of the last are asked.
				t.Run(rev.String(), func(t *testing.T) {
					asksSideBySide(t, beginAs(t, "client", bridgeTo(t, url), rev))
				})
			}
		})
	}
}

// A gateway has a session of its own with this server, which is asked too.
func TestNpmQuestionThatIsSentToAllSessionsIsLeftToTheClientByAGateway(t *testing.T) {
	t.Parallel()
	server := object{"url": superGateway(t) + "/sse"}
	for _, rev := range []protocol.Revision{protocol.Latest, protocol.LatestLegacy} {
		t.Run(rev.String(), func(t *testing.T) {
			url := serveFile(t, gatewayFile(t, "dragoman.json", object{"servers": object{"wrapped": server}}))
			asksSideBySide(t, beginAs(t, "client", &streamable.Client{URL: url + "/servers/wrapped/mcp"}, rev))
		})
	}
}

// asksSideBySide calls a tool that asks, several times at once.
func asksSideBySide(t *testing.T, c *dragomanClient) {
	t.Helper()
	const calls = 4
	said := sideBySide(calls, func(i int) string {
		return says(t, c, "ask", object{"text": fmt.Sprintf("call %d", i), "together": calls})
	})
	for i, got := range said {
		if want := fmt.Sprintf("call %d: accept the answer to call %d", i, i); !strings.HasSuffix(got, want) {
			t.Errorf("call %d: %q, want %q", i, got, want)
		}
	}
}

// Of two calls the gateway asks both questions on the stream of the first, which has its
// answer before the second question has.
func TestNpmQuestionOnTheStreamOfAnotherCallOutlivesThatCall(t *testing.T) {
	t.Parallel()
	url := superGateway(t, "--outputTransport", "streamableHttp", "--stateful") + "/mcp"
	c := beginAs(t, "client", bridgeTo(t, url), protocol.LatestLegacy)
	answered := make(chan struct{})
	c.answer = func(ctx context.Context, method string, params object) (object, error) {
		if message, _ := params["message"].(string); strings.Contains(message, "second") {
			select {
			case <-answered:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		return answer(method, params)
	}
	said := sideBySide(2, func(i int) string {
		if i == 0 {
			defer close(answered)
			return says(t, c, "ask", object{"text": "the first", "together": 2})
		}
		for says(t, c, "waiting", object{}) == "0" {
			time.Sleep(10 * time.Millisecond)
		}
		return says(t, c, "ask", object{"text": "the second", "together": 2})
	})
	for i, text := range []string{"the first", "the second"} {
		if want := text + ": accept the answer to " + text; !strings.HasSuffix(said[i], want) {
			t.Errorf("%q, want %q", said[i], want)
		}
	}
}

// This server has one process for all sessions and sends what that answers to all of
// them, so an answer is known only by its id.
func TestNpmAnswersThatAreSentToAllSessionsReachWhoAsked(t *testing.T) {
	t.Parallel()
	bridge := bridgeTo(t, superGateway(t)+"/sse")
	const clients, calls = 5, 10
	var all [clients]*dragomanClient
	for i := range all {
		rev := protocol.Latest
		if i%2 == 1 {
			rev = protocol.LatestLegacy
		}
		all[i] = beginAs(t, fmt.Sprintf("client %d", i), bridge, rev)
	}
	said := sideBySide(clients*calls, func(i int) string {
		return says(t, all[i%clients], "work", object{"text": fmt.Sprintf("call %d", i)})
	})
	for i, got := range said {
		if _, text, _ := strings.Cut(got, " "); text != fmt.Sprintf("call %d", i) {
			t.Errorf("call %d: %q", i, got)
		}
	}
}
