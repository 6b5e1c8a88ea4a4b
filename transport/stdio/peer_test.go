package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

// TestPeerOverSockets runs the suite for peers over TCP and Unix sockets.
func TestPeerOverSockets(t *testing.T) {
	for network, framing := range map[string]Framing{"tcp": Lines, "unix": ContentLength} {
		t.Run(network+" "+framing.String(), func(t *testing.T) {
			peertest.Run(t, func(t *testing.T, client dragoman.Peer, server dragoman.Acceptor) dragoman.Conn {
				address := "127.0.0.1:0"
				if network == "unix" {
					address = filepath.Join(t.TempDir(), "s")
				}
				l, err := Listen(t.Context(), network, address)
				if err != nil {
					t.Fatal(err)
				}
				s := &Server{Acceptor: server, Options: &Options{MaxMessage: peertest.MaxMessage}}
				served := make(chan error, 1)
				go func() { served <- s.Serve(l) }()
				a := &Address{Network: network, Address: l.Addr().String(), Options: &Options{Framing: framing, MaxMessage: peertest.MaxMessage}}
				conn, err := a.Dial(t.Context(), client)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					_ = conn.Close()
					_ = s.Close()
					if err := <-served; !errors.Is(err, ErrServerClosed) {
						t.Errorf("Serve returned %v", err)
					}
				})
				return conn
			}, &peertest.Options{MaxMessage: peertest.MaxMessage, Light: framing == Lines}) // lines of all sizes: TestPeerOverAChild
		})
	}
}

// TestPeerOverAChild runs the suite for peers over the pipes of a real child:
// it relays to a socket, on the other side of which the server is.
func TestPeerOverAChild(t *testing.T) {
	for _, framing := range []Framing{Lines, ContentLength} {
		t.Run(framing.String(), func(t *testing.T) {
			peertest.Run(t, func(t *testing.T, client dragoman.Peer, server dragoman.Acceptor) dragoman.Conn {
				return dialChild(t, client, server, framing)
			}, &peertest.Options{Light: framing == ContentLength}) // frames of all sizes: TestPeerOverSockets
		})
	}
}

func dialChild(t *testing.T, client dragoman.Peer, server dragoman.Acceptor, framing Framing) dragoman.Conn {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	c := ourselves(t, "relay")
	c.Args = []string{l.Addr().String()}
	c.Framing = framing
	c.Grace = time.Second
	conn, err := c.Dial(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = ServeIO(ctx, server, nc, nc, &Options{Linger: -1})
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		cancel()
		<-served
		_ = l.Close()
	})
	return conn
}

// relay copies standard input to the socket that its argument names, and back,
// until either side ends.
func relay() {
	nc, err := net.Dial("unix", os.Args[len(os.Args)-1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	done := make(chan struct{}, 2)
	go func() {
		_, _ = io.Copy(nc, os.Stdin)
		_ = nc.(*net.UnixConn).CloseWrite()
	}()
	go func() {
		_, _ = io.Copy(os.Stdout, nc)
		done <- struct{}{}
	}()
	<-done
}

// serveHere is the built-in server on standard input and output.
func serveHere() {
	if err := Serve(context.Background(), builtin.New(nil), nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
