package jsonrpc_test

import (
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
)

// TestPeer runs the suite for peers over two Conns back to back.
func TestPeer(t *testing.T) {
	peertest.Run(t, func(t *testing.T, client dragoman.Peer, server dragoman.Acceptor) dragoman.Conn {
		a, b := crossed()
		serving := jsonrpc.New(b, &jsonrpc.Options{Server: true})
		peer, err := server.Accept(t.Context(), serving)
		if err != nil {
			t.Fatal(err)
		}
		serving.Start(peer)
		dialled := jsonrpc.New(a, nil)
		dialled.Start(client)
		t.Cleanup(func() {
			_ = dialled.Close()
			_ = serving.Close()
		})
		return dialled
	}, nil)
}

// crossed returns two streams, each of which reads what the other writes.
func crossed() (a, b *wire) {
	a, b = newWire(), newWire()
	a.peer, b.peer = b, a
	return a, b
}
