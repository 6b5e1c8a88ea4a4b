package sse_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/transport/sse"
)

func Example() {
	hello := dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		return req.Reply(map[string]string{"hello": "world"})
	}}
	server := &sse.Server{Acceptor: dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
		return hello, nil
	})}
	defer server.Close()
	mux := http.NewServeMux()
	mux.Handle("/sse", server.Stream())
	mux.Handle("/messages", server.Messages())
	web := httptest.NewServer(mux)
	defer web.Close()

	client := &sse.Client{URL: web.URL + "/sse"}
	conn, err := client.Dial(context.Background(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	req, _ := dragoman.NewRequest(dragoman.IntID(1), "greet", nil)
	resp, err := conn.Call(context.Background(), req, nil)
	fmt.Println(resp, err)
	// Output: {"jsonrpc":"2.0","id":1,"result":{"hello":"world"}} <nil>
}
