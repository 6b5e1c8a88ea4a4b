package toolhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/transport/toolhttp"
)

var greeter = dragoman.Methods{
	"tools/list": func(context.Context, *dragoman.Message, dragoman.Peer) (any, error) {
		return []byte(`{"tools":[{"name":"greet","inputSchema":{"type":"object"}}]}`), nil
	},
	"tools/call": func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (any, error) {
		return []byte(`{"content":[{"type":"text","text":"hello"}]}`), nil
	},
}

// Tools for whoever can make an HTTP request.
func ExampleServer() {
	server := &toolhttp.Server{Requests: greeter}
	mux := http.NewServeMux()
	mux.Handle("/call", http.StripPrefix("/call", server))
	mux.Handle("/call/", http.StripPrefix("/call", server))
	web := httptest.NewServer(mux)
	defer web.Close()
	defer server.Shutdown(context.Background())

	resp, err := http.Post(web.URL+"/call/greet", "application/json", strings.NewReader(`{"name":"Ada"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(resp.StatusCode, string(body), err)
	// Output: 200 {"content":[{"type":"text","text":"hello"}]} <nil>
}

func ExampleClient() {
	server := &toolhttp.Server{Requests: greeter}
	web := httptest.NewServer(server)
	defer web.Close()
	defer server.Shutdown(context.Background())

	conn, err := (&toolhttp.Client{URL: web.URL}).Dial(context.Background(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	req, _ := dragoman.NewRequest(dragoman.IntID(1), "tools/call", map[string]string{"name": "greet"})
	resp, err := conn.Call(context.Background(), req, nil)
	fmt.Println(resp, err)
	// Output: {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hello"}]}} <nil>
}
