package peertest_test

import (
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func local(t *testing.T, client dragoman.Peer, server dragoman.Acceptor) dragoman.Conn {
	c, err := dragoman.Local(server).Dial(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The conversation in memory keeps every promise that does not need a
// goroutine between caller and callee; [peertest.Options.Direct] says why.
func TestLocal(t *testing.T) {
	peertest.Run(t, local, &peertest.Options{Direct: true})
}

// The suite itself in the clothes of each era.
func TestLocalRevisions(t *testing.T) {
	for _, r := range []protocol.Revision{protocol.LatestLegacy, protocol.Latest} {
		t.Run(r.String(), func(t *testing.T) {
			peertest.Run(t, local, &peertest.Options{Direct: true, Revision: r, Light: true})
		})
	}
}

func TestLocalToolsOnly(t *testing.T) {
	peertest.Run(t, local, &peertest.Options{Direct: true, ToolsOnly: true})
}
