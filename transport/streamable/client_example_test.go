package streamable_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

func ExampleClient() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		req, err := dragoman.Parse(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"method":%q}}`, req.ID(), r.Header.Get("Mcp-Method"))
	}))
	defer server.Close()

	client := &streamable.Client{URL: server.URL + "/mcp"}
	conn, err := client.Dial(context.Background(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	req, err := dragoman.NewRequest(dragoman.StringID("a"), "tools/list", map[string]any{"_meta": map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientCapabilities": map[string]any{},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := conn.Call(context.Background(), req, nil)
	fmt.Println(resp, err)
	// Output:
	// {"jsonrpc":"2.0","id":"a","result":{"method":"tools/list"}} <nil>
}
