package stdio_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// hello answers every client that connects.
var hello = dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
	return dragoman.Methods{
		"hello": func(context.Context, *dragoman.Message, dragoman.Peer) (any, error) {
			return map[string]string{"hello": "world"}, nil
		},
	}, nil
})

// A server on any pair of streams; Serve is the same on standard input and output.
func ExampleServeIO() {
	in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"hello"}` + "\n")
	err := stdio.ServeIO(context.Background(), hello, in, os.Stdout, nil)
	fmt.Println(err)
	// Output:
	// {"jsonrpc":"2.0","id":1,"result":{"hello":"world"}}
	// <nil>
}

// A server on a socket, and a client of it.
func ExampleServer() {
	ctx := context.Background()
	l, err := stdio.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	server := &stdio.Server{Acceptor: hello}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }() // ends with Shutdown
	defer func() {
		fmt.Println(server.Shutdown(ctx), <-served)
	}()

	conn, err := (&stdio.Address{Network: "tcp", Address: l.Addr().String()}).Dial(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	req, _ := dragoman.NewRequest(dragoman.IntID(1), "hello", nil)
	resp, err := conn.Call(ctx, req, nil)
	fmt.Println(resp, err)
	// Output:
	// {"jsonrpc":"2.0","id":1,"result":{"hello":"world"}} <nil>
	// <nil> stdio: server closed
}

// A program that starts servers calls Guard before anything else.
func ExampleGuard() {
	main := func() {
		stdio.Guard()
		// … parse flags, start servers
	}
	main()
}
