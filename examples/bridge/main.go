// Command bridge puts a server that is a command on Streamable HTTP, and prints every message
// that passes, in both directions.
//
//	go run ./examples/bridge 127.0.0.1:8901 go run ./examples/server 127.0.0.1:0
package main

import (
	"context"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: bridge ADDRESS COMMAND [ARGUMENTS]")
	}
	command := &stdio.Command{Path: os.Args[2], Args: os.Args[3:], InheritEnv: []string{"*"}}
	server := &era.Server{Dialer: watched{command}} // clients of either era, whatever the server speaks
	defer server.Close()
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("serving http://%s/mcp", listener.Addr())
	http.Handle("/mcp", &streamable.Server{Sessions: server, Requests: server.Requests()})
	log.Fatal(http.Serve(listener, nil)) //nolint:gosec // an example needs no time limits
}

// watched is a server all of whose conversations are watched. What stands between two peers is
// a peer itself: so does this one.
type watched struct{ dragoman.Dialer }

func (w watched) Dial(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
	conn, err := w.Dialer.Dial(ctx, hook{local, "server"})
	if err != nil {
		return nil, err
	}
	return hookedConn{conn, hook{conn, "client"}}, nil
}

// A hook sees what is asked of a peer and what it is told, and the answers.
type hook struct {
	dragoman.Peer
	who string // says it
}

func (h hook) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	log.Printf("%s asks %s", h.who, req.Bytes())
	if from != nil {
		from = hook{from, "meanwhile the other"}
	}
	resp, err := h.Peer.Call(ctx, req, from)
	if err == nil {
		log.Printf("%s is answered %s", h.who, resp.Bytes())
	} else {
		log.Printf("%s has no answer: %v", h.who, err)
	}
	return resp, err
}

func (h hook) Notify(ctx context.Context, note *dragoman.Message) error {
	log.Printf("%s tells %s", h.who, note.Bytes())
	return h.Peer.Notify(ctx, note)
}

// hookedConn is a conversation whose other side is seen through a hook.
type hookedConn struct {
	dragoman.Conn
	hook hook
}

func (c hookedConn) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return c.hook.Call(ctx, req, from)
}

func (c hookedConn) Notify(ctx context.Context, note *dragoman.Message) error {
	return c.hook.Notify(ctx, note)
}
