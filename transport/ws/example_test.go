package ws_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

func Example() {
	hello := dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		return req.Reply([]byte(`{"content":[{"type":"text","text":"hello"}]}`))
	}}
	server := &ws.Server{
		Acceptor: dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) { return hello, nil }),
		Requests: hello, // for tool frames
	}
	web := httptest.NewServer(server)
	defer web.Close()
	defer server.Shutdown(context.Background())

	for _, tools := range []bool{false, true} {
		client := &ws.Client{URL: web.URL, Tools: tools}
		conn, err := client.Dial(context.Background(), nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		req, _ := dragoman.NewRequest(dragoman.IntID(7), "tools/call", map[string]string{"name": "greet"})
		resp, err := conn.Call(context.Background(), req, nil)
		fmt.Println(resp, err)
		_ = conn.Close()
	}
	// Output:
	// {"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"hello"}]}} <nil>
	// {"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"hello"}]}} <nil>
}
