package streamable_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// One URL for clients of both eras: Sessions is given those that open a session,
// Requests the requests of those that have none.
func ExampleServer() {
	hello := dragoman.Methods{
		"tools/call": func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (any, error) {
			return map[string]any{"content": []any{}, "structuredContent": map[string]string{"hello": req.Name()}}, nil
		},
	}
	server := &streamable.Server{
		Sessions: dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) { return hello, nil }),
		Requests: hello,
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", server)
	web := httptest.NewServer(mux)
	defer web.Close()
	defer server.Shutdown(context.Background())

	conn, err := (&streamable.Client{URL: web.URL + "/mcp"}).Dial(context.Background(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	req, _ := dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"world","_meta":{
		"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
	resp, err := conn.Call(context.Background(), req, nil)
	fmt.Println(resp, err)
	// Output:
	// {"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"hello":"world"}}} <nil>
}
